//! Abstract interpretation of a program: what happens to its tensors, as a list of events.

pub mod backward_names;
pub mod device;
pub mod facts;
pub mod index;
mod interpreter;
pub mod names;
pub mod usage;
pub mod value;
pub mod walk;

pub use facts::FileFacts;
pub use interpreter::analyse;
