//! Autograd: tensors, the graph that calls record, the engine that runs it backward, and the state of the process.
//!
//! As in PyTorch these types refer to each other: a tensor holds the node its gradient goes to, a node holds tensors,
//! both change the process's state. So they are one module; its files may import each other.

mod checkpoint;
mod context;
pub mod engine;
mod kept_results;
mod leaf;
mod node;
mod offload;
mod plans;
mod sparse;
mod tensor;
mod visits;

pub(crate) use checkpoint::Results;
pub use checkpoint::{Body, Checkpointing, Frame, Held, Packed};
pub use context::{Context, CudnnSources, Guessed, Libraries, Missing, RecurrentWeights, Thread};
pub use kept_results::{KeptResults, ResultKind};
pub use node::{Backward, Edge, Gradients, Node, OutputHook, Saved};
pub use offload::{HostMemory, Offload};
pub use plans::Plans;
pub use sparse::{Distinct, Rows, added, append, coalesced};
pub use tensor::{LeafGradient, Tensor, TensorBody};
pub use visits::{HostTraffic, Visits};
