//! What each trick does alone on this model.

use crate::control::Control;
use crate::effect::Effect;
use crate::setup::Setup;
use crate::tricks::{Finding, TRICKS};
use crate::workbench::{Peaks, Workbench};

/// A trick on this model.
#[derive(Clone, Debug)]
pub struct Row {
    /// Its name.
    pub name: &'static str,
    /// What it does to the training.
    pub effect: Effect,
    /// Why it does not apply, where it does not.
    pub reason: Option<String>,
    /// What it does.
    pub shown: Vec<Shown>,
    /// What else it tells.
    pub findings: Vec<Finding>,
    /// What it does not go together with.
    pub conflicts: &'static str,
    /// How it is written.
    pub written: &'static str,
}

/// One way to use a trick.
#[derive(Clone, Debug)]
pub struct Shown {
    /// Which.
    pub what: String,
    /// Bytes that are no longer reserved at the peak; 0 where it saves nothing.
    pub saving: i64,
    /// The same for what is allocated.
    pub saving_allocated: i64,
    /// The time for the same work, by that of the start.
    pub slowdown: f64,
    /// What to know of it.
    pub warning: Option<String>,
}

/// Every trick alone.
pub fn table(bench: &Workbench<'_>, start: &Setup, peaks: Peaks, control: &Control) -> Vec<Row> {
    let rows = TRICKS.into_iter().map(|trick| {
        let (setups, reason) = match trick.alternatives(bench, start) {
            Ok(setups) => (setups, None),
            Err(reason) => (Vec::new(), Some(reason)),
        };
        let shown = control.map(&setups, |setup| {
            let now = bench.peaks(setup, control)?;
            Some(Shown {
                what: trick.state(bench, setup),
                saving: peaks.reserved as i64 - now.reserved as i64,
                saving_allocated: peaks.allocated as i64 - now.allocated as i64,
                slowdown: bench.slowdown(start, setup)?,
                warning: trick.warning(bench, setup),
            })
        });
        Row {
            name: trick.name(),
            effect: trick.effect(),
            reason,
            shown: shown.into_iter().flatten().flatten().collect(),
            findings: if control.is_stopped() { Vec::new() } else { trick.findings(bench, start, control) },
            conflicts: trick.conflicts(),
            written: trick.written(),
        }
    });
    rows.collect()
}
