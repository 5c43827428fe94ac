//! The reader of torch.export archives, from outside.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod attends;
mod bad_graph;
mod bad_zip;
mod branches;
mod good;
mod lifetime;
mod opened;
mod pads;
mod sizes;
mod small;
