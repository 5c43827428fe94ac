//! Autograd: tensors, the graph that calls build, the engine that runs it backward, and the state of the process.
//!
//! A tensor names the node its gradient goes to, a node holds tensors, and both act on the process's state: these types
//! refer to each other as they do in PyTorch, so they share one module.

mod checkpoint;
mod context;
pub mod engine;
mod node;
mod plans;
mod tensor;
mod visits;

pub use checkpoint::{Checkpointing, Frame, Packed};
pub use context::{Context, Guessed, Libraries, Thread};
pub use node::{Backward, Edge, Gradients, Node, Saved};
pub use plans::Plans;
pub use tensor::{Tensor, TensorBody};
pub use visits::Visits;
