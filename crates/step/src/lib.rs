//! What eager PyTorch does in a training step, as requests to the allocator.
//!
//! The forward pass is a list of ATen calls ([`vramfit_graph`]). For each, a rule in [`ops`] says what CUDA's kernels
//! allocate and free and what autograd saves; [`engine`] runs the backward pass in autograd's own order; [`optimizer`]
//! makes the step. Simulated [`tensor`]s are counted handles as PyTorch's are, so memory goes when the last one does.

mod broadcast;
pub mod checkpoint;
pub mod engine;
pub mod flops;
pub mod format;
pub mod forward;
pub mod judgement;
pub mod kernels;
pub mod launch;
pub mod layers;
pub mod memory;
pub mod ops;
pub mod optimizer;
pub mod parallel;
pub mod tape;
pub mod tensor;
pub mod training;
pub mod visits;
