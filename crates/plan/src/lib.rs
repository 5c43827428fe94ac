//! What makes a training fit: the tricks, one file each, and the search over them.
//!
//! A [`Setup`] is all that a plan may change. The [`Workbench`] simulates setups on one GPU, as `vramfit estimate` does,
//! and prices them. A trick ([`tricks`]) says which other setups it knows; [`search`] combines them, cheapest first;
//! [`selective`] chooses what to checkpoint; [`max_batch`] tries one batch after another.

pub mod control;
pub mod effect;
pub mod max_batch;
mod memo;
mod pricing;
pub mod search;
pub mod selective;
pub mod setup;
pub mod tricks;
pub mod workbench;

pub use control::Control;
pub use effect::Effect;
pub use max_batch::max_batch;
pub use search::{Answer, Group, Plan, plan};
pub use setup::Setup;
pub use workbench::{Judged, Peaks, Workbench};
