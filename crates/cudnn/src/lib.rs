//! What memory cuDNN asks for.
//!
//! cuDNN picks a workspace by a heuristic that nobody can read but anybody can ask. This crate holds its recorded answers
//! and what was learned from them: [`convolution`] for convolutions, [`recurrent`] for LSTM, GRU and RNN layers.

pub mod convolution;
pub mod recurrent;
mod scenario;

pub use scenario::Scenario;
