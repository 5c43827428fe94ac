//! What each trick does alone on this model.

use crate::control::Control;
use crate::effect::Effect;
use crate::setup::Setup;
use crate::tricks::{Finding, TRICKS, Trick};
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
    /// What else it found.
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
    let known = TRICKS.map(|trick| (trick, trick.alternatives(bench, start)));
    let ways: Vec<(usize, &'static dyn Trick, &Setup)> = known
        .iter()
        .enumerate()
        .flat_map(|(row, (trick, setups))| setups.iter().flatten().map(move |setup| (row, *trick, setup)))
        .collect();
    let shown = control.map(&ways, |(row, trick, setup)| {
        let now = bench.peaks(setup, control)?;
        let shown = Shown {
            what: trick.state(bench, setup),
            saving: peaks.reserved as i64 - now.reserved as i64,
            saving_allocated: peaks.allocated as i64 - now.allocated as i64,
            slowdown: bench.slowdown(start, setup)?,
            warning: trick.warning(bench, setup),
        };
        Some((*row, shown))
    });
    let findings = control.map(&TRICKS, |trick| trick.findings(bench, start, control));
    let mut rows: Vec<Row> = known
        .iter()
        .zip(findings)
        .map(|((trick, setups), findings)| Row {
            name: trick.name(),
            effect: trick.effect(),
            reason: setups.as_ref().err().cloned(),
            shown: Vec::new(),
            findings: findings.unwrap_or_default(),
            conflicts: trick.conflicts(),
            written: trick.written(),
        })
        .collect();
    for (row, shown) in shown.into_iter().flatten().flatten() {
        rows[row].shown.push(shown);
    }
    rows
}
