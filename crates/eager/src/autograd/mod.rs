//! Autograd: tensors, the graph that calls record, the engine that runs it backward, and the state of the process.
//!
//! As in PyTorch these types refer to each other: a tensor holds the node its gradient goes to, a node holds tensors,
//! both change the process's state. So they are one module; its files may import each other.

mod checkpoint;
mod context;
pub mod engine;
mod node;
mod plans;
mod tensor;
mod visits;

pub use checkpoint::{Checkpointing, Frame, Packed};
pub use context::{Context, CudnnSources, Guessed, Libraries, Missing, Thread};
pub use node::{Backward, Edge, Gradients, Node, Saved};
pub use plans::Plans;
pub use tensor::{Tensor, TensorBody};
pub use visits::Visits;
