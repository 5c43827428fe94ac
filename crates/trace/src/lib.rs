//! Memory events of a PyTorch program.
//!
//! [`snapshot`] is what `torch.cuda.memory._dump_snapshot` wrote: events, segments, stacks.

pub mod intern;
pub mod snapshot;
