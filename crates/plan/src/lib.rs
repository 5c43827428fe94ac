//! What makes a training fit: the tricks, one file each, and the search over them.
//!
//! A [`Setup`] is all that a plan may change. The [`Workbench`] simulates setups on one GPU, as `vramfit estimate` does,
//! and prices them. A trick ([`tricks`]) proposes other setups; [`search`] combines them, cheapest first; [`selective`] chooses
//! what to checkpoint; [`max_batch`] tries one batch after another.

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
pub use effect::Effect;
pub use error::{SetupError, Unanswerable, Unbound};
pub use max_batch::max_batch;
pub use search::{Group, Outcome, Plan, plan};
pub use setup::Setup;
pub use workbench::{Peaks, Workbench};
