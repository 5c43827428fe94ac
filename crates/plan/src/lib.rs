//! Finds the cheapest changes that make a training fit.
//!
//! A [`Setup`] holds everything that a plan may change. A [`Workbench`] simulates setups on one GPU, as `vramfit estimate`
//! does, and predicts their step times. Each of the [`tricks`] proposes other setups; [`search`] combines them and tries
//! the cheapest first. [`selective`] chooses modules to checkpoint. [`written()`] prints a setup as a training loop.
//! [`mod@max_batch`] finds the largest batch.

mod alloc_conf;
mod batch_split;
mod cluster;
pub mod control;
pub mod effect;
mod error;
mod forms;
mod loss;
pub mod max_batch;
mod memo;
mod parts;
mod pricing;
mod printed_loop;
mod recorded;
pub mod risk;
pub mod search;
pub mod selective;
pub mod setup;
pub mod tricks;
pub mod workbench;
mod written;

pub use alloc_conf::{AllocConf, AllocatorSetting};
pub use batch_split::SplitCause;
pub use cluster::Cluster;
pub use control::Control;
pub use effect::TrainingEffect;
pub use error::{SetupError, Unanswerable, Unbound};
pub use forms::{Adapters, Forms, OtherForms};
pub use loss::Loss;
pub use max_batch::max_batch;
pub use parts::Parts;
pub use printed_loop::{Lines, PrintedLoop};
pub use recorded::{Line, RecordedOutcome, RecordedPlan, RecordedTraining, ScriptChange};
pub use risk::Risk;
pub use search::{Group, Outcome, Plan, SearchOptions, plan, plan_with};
pub use setup::Setup;
pub use workbench::{Peaks, Workbench};
pub use written::{Written, written};
