//! The reader of torch.export archives, from outside.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod bad_graph;
mod bad_zip;
mod good;
mod opened;
mod small;
