#![doc = include_str!("../README.md")]

mod intern;
mod pools;
pub mod read;
pub mod snapshot;
pub mod start;
