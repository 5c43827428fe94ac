//! The model as vramfit sees it: the ATen calls of one forward pass, with symbolic sizes.
//!
//! [`model`] holds the types, free of any file format; [`select`] picks a variant and its sizes; [`bind`] replaces the
//! symbols by numbers. Nothing here knows about memory or files.

pub mod bind;
mod broadcast;
pub mod dims;
pub mod dtype;
pub mod expression;
pub mod format;
pub mod layout;
pub mod model;
pub mod nearest;
pub mod select;
