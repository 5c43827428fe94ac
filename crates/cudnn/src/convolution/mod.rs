//! Workspaces of convolutions.

mod alternatives;
mod features;
mod form;
mod plan_cache;
mod problem;
mod recorded;
mod series;
mod trees;

pub use alternatives::elsewhere;
pub use plan_cache::{Assumption, PlanCache, PlanId, PlanTable, Planned};
pub use problem::{Pass, Problem};
pub use recorded::{Spread, workspace};
