//! Selective checkpointing: which modules to run again so that enough is freed at the least time.
//!
//! [`modules`] finds what may be checkpointed; each kind of module is simulated alone, which tells what it frees, and
//! priced; [`Family`] finds for growing savings the subset that costs least, by dynamic programming over the tree of
//! modules. The subsets are candidates like any other: whether one fits, its own simulation says.

mod family;
mod refine;
mod tree;

use vramfit_eager::forward::Choice;
use vramfit_training::Run;

use crate::control::Control;
use crate::setup::Setup;
use crate::workbench::Workbench;

pub use family::{Family, Member};
pub use refine::refine;
pub use tree::{ModuleTree, batch_norms, modules, updates_buffers};

/// The cheapest subset of modules with which a setup fits, nothing else changed; `None` where none makes it fit.
pub fn cheapest(bench: &Workbench<'_>, setup: &Setup, count: usize, control: &Control) -> Option<(Setup, Run)> {
    if let Some(run) = bench.fitting(setup, control) {
        return Some((setup.clone(), run));
    }
    let mut priced: Vec<(f64, Setup)> = Family::of(bench, setup, control)
        .members(count)
        .into_iter()
        .filter_map(|member| {
            let mut changed = setup.clone();
            changed.training.checkpoint = Choice::modules(member.names);
            Some((bench.seconds(&changed)?, changed))
        })
        .collect();
    priced.sort_by(|one, other| one.0.total_cmp(&other.0));
    let found = priced.into_iter().find_map(|(_, changed)| Some((bench.fitting(&changed, control)?, changed)));
    let (run, changed) = found?;
    Some(refine(bench, setup, (changed, run), control))
}
