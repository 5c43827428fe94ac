//! Each trick alone on this model.

use super::by_role::Search;
use crate::risk::Risk;
use crate::setup::Setup;
use crate::tricks::{Finding, Trick};
use crate::workbench::Peaks;

/// One trick.
#[derive(Clone, Debug)]
pub struct TrickRow {
    /// The name in reports.
    pub name: &'static str,
    /// What it risks.
    pub risk: Risk,
    /// Why it does not apply, if it does not.
    pub reason: Option<String>,
    /// The ways to apply it.
    pub options: Vec<TrickOption>,
    /// Findings that are not setups.
    pub findings: Vec<Finding>,
    /// What it cannot be combined with.
    pub conflicts: &'static str,
    /// Its code in PyTorch.
    pub code: &'static str,
}

/// One way to apply a trick.
#[derive(Clone, Debug)]
pub struct TrickOption {
    /// The settings in words.
    pub what: String,
    /// Peak reserved bytes saved; negative if it needs more.
    pub saving: i64,
    /// Peak allocated bytes saved.
    pub saving_allocated: i64,
    /// The time for the same work, over that of the start.
    pub slowdown: f64,
    /// A side effect.
    pub warning: Option<String>,
}

/// Simulates every trick alone.
pub fn table(search: &Search<'_, '_>, peaks: Peaks) -> Vec<TrickRow> {
    let Search { bench, tricks, start, control, .. } = *search;
    let alternatives = |trick: &'static dyn Trick| match search.is_kept(trick) {
        true => Err(format!("kept as it is: --keep {}", trick.setting())),
        false => trick.alternatives(bench, start),
    };
    let alternatives: Vec<_> = tricks.iter().map(|&trick| (trick, alternatives(trick))).collect();
    let ways: Vec<(usize, &'static dyn Trick, &Setup)> = alternatives
        .iter()
        .enumerate()
        .flat_map(|(row, (trick, setups))| setups.iter().flatten().map(move |setup| (row, *trick, setup)))
        .collect();
    let options = control.map(&ways, |(row, trick, setup)| {
        let now = bench.peaks(setup, control)?;
        let option = TrickOption {
            what: trick.describe(bench, setup),
            saving: peaks.reserved as i64 - now.reserved as i64,
            saving_allocated: peaks.allocated as i64 - now.allocated as i64,
            slowdown: bench.slowdown(start, setup)?,
            warning: trick.warning(bench, setup),
        };
        Some((*row, option))
    });
    let findings = control.map(tricks, |trick| trick.findings(bench, start, control));
    let mut rows: Vec<TrickRow> = alternatives
        .iter()
        .zip(findings)
        .map(|((trick, setups), findings)| TrickRow {
            name: trick.name(),
            risk: trick.risk(bench, start),
            reason: setups.as_ref().err().cloned(),
            options: Vec::new(),
            findings: findings.unwrap_or_default(),
            conflicts: trick.conflicts(),
            code: trick.code(bench),
        })
        .collect();
    for (row, option) in options.into_iter().flatten().flatten() {
        rows[row].options.push(option);
    }
    rows
}
