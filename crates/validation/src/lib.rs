//! Compares vramfit's answers with what was measured on a GPU.
//!
//! The measurements are in `validation/` at the root of the checkout. This crate makes the accuracy tables in `docs/`. Its
//! tests fail where an answer is off by more than is published.

pub mod allocator;
pub mod archive;
pub mod capped;
pub mod caps;
mod case_settings;
pub mod difference;
pub mod estimate;
pub mod max_batch;
pub mod measured;
pub mod price;
pub mod ranks;
pub mod recorded_answers;
pub mod recordings;
pub mod segments;
pub mod simulation;
mod statistics;
pub mod step_times;
pub mod workspaces;
