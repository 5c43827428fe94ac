//! Workspaces of convolutions.

mod answers;
mod fallback;
mod features;
mod form;
mod layer_key;
mod plan_cache;
mod problem;
mod problem_map;
mod range;
mod series;
mod shipped;
mod table;
mod trees;

pub use answers::{Answers, workspace};
pub use plan_cache::{Assumption, PlanCache, PlanId, PlanTable, Planned};
pub use problem::{ConvolutionPass, ConvolutionProblem};
pub use range::WorkspaceRange;
pub use table::ConvolutionTable;
