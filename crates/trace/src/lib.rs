//! Memory events of a PyTorch program.
//!
//! [`read`] reads a snapshot file.
//! [`snapshot`] is what `torch.cuda.memory._dump_snapshot` wrote: events, segments, stacks. [`start`] derives what
//! was in memory before a recording began.

pub mod intern;
mod pools;
pub mod read;
pub mod snapshot;
pub mod start;
