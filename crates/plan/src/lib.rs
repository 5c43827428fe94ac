//! Finds the cheapest changes that make a training fit.
//!
//! A [`Setup`] holds everything that a plan may change. A [`Workbench`] simulates setups on one GPU, as `vramfit estimate`
//! does, and predicts their step times. Each of the [`tricks`] proposes other setups; [`search`] combines them and tries
//! the cheapest first. [`selective`] chooses modules to checkpoint. [`mod@max_batch`] finds the largest batch.

mod alloc_conf;
pub mod control;
pub mod effect;
mod error;
pub mod max_batch;
mod memo;
mod pricing;
pub mod search;
pub mod selective;
pub mod setup;
pub mod tricks;
pub mod workbench;

pub use alloc_conf::{AllocConf, AllocatorSetting};
pub use control::Control;
pub use effect::TrainingEffect;
pub use error::{SetupError, Unanswerable, Unbound};
pub use max_batch::max_batch;
pub use search::{Group, Outcome, Plan, plan};
pub use setup::Setup;
pub use workbench::{Peaks, Workbench};
