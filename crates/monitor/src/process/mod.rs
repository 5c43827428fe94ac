//! Processes as `/proc` shows them.

mod container;
mod status;

pub use container::container_of;
pub use status::{Counters, ProcessReader};
