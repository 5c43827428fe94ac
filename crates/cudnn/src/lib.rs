//! The memory that cuDNN requests.
//!
//! cuDNN chooses workspaces by a closed heuristic, but anyone can query it. This crate holds recorded answers and what was derived from
//! them: [`convolution`] for convolutions, [`recurrent`] for LSTM, GRU and RNN layers. Without the feature `tables` the answers are left out,
//! and a convolution's workspace is a range.

pub mod convolution;
mod gpu;
#[cfg(test)]
mod manifest;
pub mod recurrent;
mod scenario;
mod table;

pub use gpu::GpuIdentity;
pub use scenario::Scenario;
pub use table::{TableError, TableSource};
