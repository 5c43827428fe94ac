//! Training on a simulated GPU: what a script does, what it requests, and whether that fits.
//!
//! A [`script`] is a list of actions on models and optimizers; [`training_loop`] makes the one of a plain loop. A simulated
//! process runs it ([`record_script`]) and leaves a [`Program`]: the requests to the allocator. A program is answered under
//! any settings and cap ([`Program::run`]) and gives a [`Run`]. [`optimizer`] has a file for each optimizer,
//! [`answer`] bounds the peaks over all scenarios and decides whether they fit a GPU.

pub mod answer;
mod holders;
pub mod layers;
pub mod optimizer;
pub mod parallel;
mod process;
mod program;
mod record;
mod report;
mod run;
pub mod script;
#[doc(hidden)]
pub mod shortcuts;

pub use holders::Holder;
pub use process::{Traffic, sharded_modules};
pub use program::Program;
pub use record::{check, record, record_forward, record_script, visit};
pub use report::{Account, Failure, Label, LaterPeaks, Peak, Phase, PhaseReport, Run};
pub use run::{address_orders, train};
pub use script::{AddedLoss, Loop, Script, StatePlace, ZeroGrad, training_loop};
