//! Turns numbers into what people and scripts read: text, JSON, HTML. Nothing here computes memory.
//!
//! Text is styled with ANSI codes; whoever prints it decides whether they reach the terminal.

pub mod catalogue;
pub mod estimate;
pub mod explain;
pub mod gpus;
pub mod layers;
pub mod lint;
pub mod memory_summary;
pub mod models;
mod names;
pub mod out_of_memory;
pub mod page;
pub mod plan;
pub mod replay;
#[cfg(test)]
mod schema;
mod settings;
pub mod size;
mod viewer;
