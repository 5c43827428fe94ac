//! Turns numbers into what people and scripts read: text, JSON, HTML. Nothing here computes memory.
//!
//! Text is styled with ANSI codes; whoever prints it decides whether they reach the terminal.

#![cfg_attr(
    not(feature = "simulate"),
    allow(dead_code, unused_imports, reason = "only reports of simulated runs use some parts of pages")
)]

pub mod catalogue;
#[cfg(feature = "simulate")]
pub mod cudnn;
#[cfg(feature = "simulate")]
pub mod estimate;
#[cfg(not(target_family = "wasm"))]
pub mod explain;
pub mod failure;
#[cfg(not(target_family = "wasm"))]
pub mod gpus;
#[cfg(feature = "simulate")]
pub mod layers;
#[cfg(not(target_family = "wasm"))]
pub mod lint;
pub mod memory_summary;
pub mod models;
#[cfg(feature = "simulate")]
mod names;
pub mod out_of_memory;
pub mod page;
#[cfg(feature = "simulate")]
pub mod plan;
#[cfg(feature = "simulate")]
mod ranks;
#[cfg(not(target_family = "wasm"))]
pub mod replay;
#[cfg(all(feature = "simulate", not(target_family = "wasm")))]
pub mod run;
#[cfg(all(test, feature = "simulate"))]
mod schema;
#[cfg(feature = "simulate")]
pub mod settings;
pub mod size;
mod viewer;
