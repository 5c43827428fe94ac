//! Eager PyTorch on a simulated GPU: what each operator allocates, saves and frees.
//!
//! The forward pass is a list of ATen calls ([`vramfit_graph`]). For each, a rule in [`operators`] says what CUDA's kernels
//! allocate and free and what autograd saves; [`autograd`] holds tensors, the graph they build and the engine that runs it
//! backward. Every request is written to a journal ([`memory`]) for an allocator to answer.

pub mod autograd;
pub mod channels_last;
pub mod flops;
pub mod forward;
pub mod kernels;
pub mod launch;
pub mod machine;
pub mod memory;
pub mod operators;
pub mod reach;
pub mod samples;
pub mod tensor_parallel;
