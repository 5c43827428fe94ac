//! NVIDIA GPUs: how much memory each has, how much PyTorch's libraries need on it, which kernels run.
//!
//! `data/gpus.txt` has one row per GPU. [`compute`] derives the rest from the compute capability. `data/contexts.txt` has
//! published figures of the CUDA context ([`context`]). A [`calibration`] of a machine's own GPU replaces values that are
//! unknown or not measured.

pub mod calibration;
pub mod compute;
pub mod context;
pub mod gpu;
mod lookup;
mod name;
mod other_makers;
pub mod pytorch;
mod rows;
mod table;

pub use calibration::Calibration;
pub use compute::ComputeCapability;
pub use context::{ContextBasis, ContextBytes, EstimatedContext};
pub use gpu::{CudaContext, FlopRates, Gpu, NewestTorch};
pub use lookup::{Catalogue, UnknownGpu};
pub use pytorch::TorchRelease;
pub use rows::TableError;
