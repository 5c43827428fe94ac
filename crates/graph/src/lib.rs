//! The model as vramfit sees it: the ATen calls of one forward pass, with symbolic sizes.
//!
//! [`model`] holds the types, free of any file format; [`read`] has one folder a format; [`bind`] gives the symbols
//! their numbers. Nothing here knows about memory: what a call costs is for the `step` crate to say.

pub mod bind;
pub mod dims;
pub mod dtype;
pub mod expression;
pub mod model;
pub mod nearest;
pub mod packed;
pub mod read;
pub mod select;
