//! Holds vramfit's answers against what was measured on a GPU.
//!
//! The measurements lie in `validation/` at the root of the checkout. What is computed here becomes the tables in
//! `docs/`, and the tests of this crate fail where an answer strays from its measurement.

pub mod allocator;
pub mod archive;
pub mod capped;
pub mod caps;
pub mod difference;
pub mod estimate;
pub mod max_batch;
pub mod measured;
pub mod price;
pub mod recordings;
pub mod segments;
