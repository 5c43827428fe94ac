//! The training loop: steps of forward, backward, step, as a plain script writes them, and evaluation.

mod addresses;
mod answer;
mod build;
mod held;
mod holders;
mod loss;
mod micro;
mod program;
mod report;
mod second;
mod settings;
mod settled;
mod state;
mod steps;

pub use addresses::address_orders;
pub use holders::Held;
pub use loss::AddedLoss;
pub use program::Program;
pub use report::{Account, Failure, Label, Peak, Phase, PhaseReport, Run};
pub use settings::{Loop, ZeroGrad};
pub use steps::{record, record_every_step, record_forward, train, visit};
pub use vramfit_eager::forward::SCRATCH;
