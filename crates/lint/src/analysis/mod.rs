//! Follows a program through its functions and loops and writes down what happens to its tensors.

pub mod backward_names;
pub mod facts;
pub mod index;
mod interpreter;
pub mod names;
pub mod value;

pub use facts::Facts;
pub use interpreter::analyse;
