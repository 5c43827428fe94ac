//! Memory of recurrent layers: the workspace of a call, and the reserve space that training keeps until the backward pass.

mod packed;
mod problem;
mod workspace;

pub use problem::{Kind, RecurrentProblem};
pub use workspace::RecurrentPass;
