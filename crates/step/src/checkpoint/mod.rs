//! Checkpointing, non-reentrant: nothing is saved in a region; when its backward pass begins, the region runs again, up
//! to the last tensor that is needed.
//!
//! As `torch/utils/checkpoint.py` does it: each saved tensor becomes a holder. The first holder that is unpacked runs
//! the region again, which fills all holders that are still there and stops once the last one has been filled: before
//! an operator that saves only its inputs has run. A tensor that is unpacked leaves its holder.

mod frame;
mod region;

pub use frame::{Checkpointing, Frame, Packed};
pub use region::{Choice, Region, UnknownModule, block_names, module_names, regions};
