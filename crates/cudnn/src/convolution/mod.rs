//! Workspaces of convolutions.

mod answers;
mod blocks;
mod by_capability;
mod deflated;
mod fallback;
mod features;
mod form;
mod fourier;
mod layer_key;
mod lines;
mod live;
mod numbers;
mod plan_cache;
mod problem;
mod problem_map;
mod products;
mod range;
mod search;
mod series;
mod shipped;
mod split_tiles;
mod table;
mod trees;

pub use answers::{Answers, workspace};
pub use live::{CudnnVersion, LiveAnswers, LiveEngine, LivePlan, LiveReport};
pub use plan_cache::{Assumption, PlanCache, PlanId, PlanTable, Planned};
pub use problem::{ConvolutionPass, ConvolutionProblem};
pub use range::{Evidence, WorkspaceRange};
pub use search::{Trial, search};
pub use shipped::shipped_version;
pub use table::ConvolutionTable;
