//! Memory events of a PyTorch program.
//!
//! [`read`] reads a snapshot file.
//! [`snapshot`] is what `torch.cuda.memory._dump_snapshot` wrote: events, segments, stacks. [`request`] is what the
//! program asked for underneath, the type in which recorded and simulated runs meet. [`start`] finds out what lay in
//! memory before a recording began.

pub mod intern;
mod pools;
pub mod read;
pub mod request;
pub mod snapshot;
pub mod start;
