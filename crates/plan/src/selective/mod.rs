//! Selective checkpointing: which modules to recompute to free enough memory in the least time.
//!
//! [`modules`] finds the modules that can be checkpointed. One module of each kind is simulated and priced alone.
//! [`CheckpointSubsets`] combines these savings by dynamic programming over the module tree into the cheapest subset for
//! each saving. The subsets are candidates like any other: each is simulated to see whether it fits.

mod earliest;
mod growing_lists;
mod kinds;
mod refine;
mod subsets;
mod tree;

use vramfit_eager::forward::Choice;
use vramfit_training::answer::Fitting;

use crate::control::Control;
use crate::setup::Setup;
use crate::workbench::Workbench;

pub use refine::refine;
pub use subsets::{CheckpointSubsets, Subset};
pub use tree::{ModuleTree, batch_norms, modules, updates_buffers};

/// The setup with the cheapest subset of checkpointed modules that fits; `None` if none fits.
pub fn cheapest(bench: &Workbench<'_>, setup: &Setup, count: usize, control: &Control) -> Option<(Setup, Fitting)> {
    if let Some(run) = bench.fitting_run(setup, control) {
        return Some((setup.clone(), run));
    }
    let mut priced: Vec<(f64, Setup)> = CheckpointSubsets::of(bench, setup, control)
        .select(count)
        .into_iter()
        .filter_map(|subset| {
            let mut changed = setup.clone();
            changed.training.checkpoint = Choice::modules(subset.names);
            Some((bench.seconds(&changed)?, changed))
        })
        .collect();
    priced.sort_by(|one, other| one.0.total_cmp(&other.0));
    let found = priced.into_iter().find_map(|(_, changed)| Some((bench.fitting_run(&changed, control)?, changed)));
    let (run, changed) = found?;
    Some(refine(bench, setup, (changed, run), control))
}
