//! Memory of recurrent layers: the workspace of a call, and the reserve that training keeps.

mod problem;
mod workspace;

pub use problem::{Kind, Problem};
pub use workspace::Pass;
