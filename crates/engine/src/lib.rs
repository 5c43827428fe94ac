//! What is between the flags of a training and the answers: the flags, the models that they name, and the code behind `estimate`,
//! `plan` and `max-batch`. [`calculator`] answers the questions of the calculator in the browser with it.
//!
//! It prints nothing. It compiles for `wasm32-unknown-unknown` too: there nothing opens a file, starts a thread or asks for the time.

pub mod arguments;
mod bound_model;
pub mod built_in;
pub mod calculator;
pub mod cudnn;
pub mod deepspeed_config;
pub mod estimate;
mod hub_cache;
mod hub_names;
pub mod known_gpus;
mod limits;
pub mod plan;
pub mod recording;
