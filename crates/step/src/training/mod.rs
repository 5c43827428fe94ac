//! The training loop: steps of forward, backward, step, as a plain script writes them, and evaluation.

mod build;
mod held;
mod holders;
mod loss;
mod report;
mod settings;
mod steps;

pub use holders::Held;
pub use loss::AddedLoss;
pub use report::{Phase, PhaseReport, Run};
pub use settings::{H200, Loop, Machine, ZeroGrad};
pub use steps::{train, train_on, visit};
