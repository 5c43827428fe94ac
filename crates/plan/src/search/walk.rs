//! Candidates in the order of their price, until one fits.

use vramfit_step::training::Run;

use super::cells::Cell;
use crate::control::{Control, cores};
use crate::setup::Setup;
use crate::tricks::{FREE, Trick};
use crate::workbench::Workbench;

/// What the walk found.
pub struct Walked {
    /// The cheapest that fits.
    pub best: Option<(Setup, Run)>,
    /// How many candidates there were.
    pub candidates: usize,
}

/// A combination of free tricks: each with the setup that has it.
type Combination = Vec<(&'static dyn Trick, Setup)>;

/// Candidates whose prices differ by less are equally cheap: then the one with fewer changes is better.
const STEP: f64 = 0.005;
/// What a fused optimizer keeps on the GPU beside its state, for each weight: a step counter.
const COUNTER: u64 = 512;

/// A cell with free tricks.
struct Candidate {
    cell: usize,
    setup: Setup,
    key: (i64, usize, f64),
}

/// Simulates candidates from the cheapest on, all cores at once, until one fits.
pub fn walk(bench: &Workbench<'_>, start: &Setup, cells: &[Cell], control: &Control) -> Walked {
    let combinations = combinations(bench, start);
    let mut candidates: Vec<Candidate> = Vec::with_capacity(cells.len() * combinations.len());
    for (index, cell) in cells.iter().enumerate() {
        for combination in &combinations {
            let setup = applied(bench, &cell.setup, combination);
            let Some(slowdown) = bench.slowdown(start, &setup) else { continue };
            let key = ((slowdown / STEP).round() as i64, cell.changes + combination.len(), slowdown);
            candidates.push(Candidate { cell: index, setup, key });
        }
    }
    let order = |one: &Candidate, other: &Candidate| {
        one.key.0.cmp(&other.key.0).then(one.key.1.cmp(&other.key.1)).then(one.key.2.total_cmp(&other.key.2))
    };
    candidates.sort_by(order);
    let count = candidates.len();
    let mut at = 0;
    let wave = 4 * cores();
    while at < count && !control.is_stopped() {
        // The cells that have shown to be hopeless are left out without a look.
        let mut next: Vec<&Candidate> = Vec::with_capacity(wave);
        while at < count && next.len() < wave {
            if cells[candidates[at].cell].is_hopeless.get() != Some(&true) {
                next.push(&candidates[at]);
            }
            at += 1;
        }
        let found = control.map(&next, |candidate| {
            let cell = &cells[candidate.cell];
            let is_hopeless =
                *cell.is_hopeless.get_or_init(|| is_hopeless(bench, &leanest(bench, start, &cell.setup), control));
            if is_hopeless { None } else { bench.fitting(&candidate.setup, control) }
        });
        for (candidate, run) in next.into_iter().zip(found) {
            if let Some(run) = run.flatten() {
                return Walked { best: Some((candidate.setup.clone(), run)), candidates: count };
            }
        }
    }
    Walked { best: None, candidates: count }
}

/// A cell with every free trick that lets go of something.
pub fn leanest(bench: &Workbench<'_>, start: &Setup, cell: &Setup) -> Setup {
    let mut setup = cell.clone();
    for trick in FREE.into_iter().filter(|trick| trick.name() != "allocator settings") {
        // The first alternative is the leanest.
        if let Some(first) = trick.alternatives(bench, start).ok().and_then(|found| found.into_iter().next()) {
            trick.adopt(bench, &mut setup, &first);
        }
    }
    setup
}

/// Whether more is held at once than there is, whatever the allocator does.
fn is_hopeless(bench: &Workbench<'_>, setup: &Setup, control: &Control) -> bool {
    let Some((least, cap)) = bench.least_bytes(setup, control) else { return true };
    least.saturating_sub(COUNTER * bench.model.parameters.len() as u64) > cap
}

/// Every combination of free tricks, the empty one included.
fn combinations(bench: &Workbench<'_>, start: &Setup) -> Vec<Combination> {
    let mut all: Vec<Combination> = vec![Vec::new()];
    for trick in FREE {
        let alternatives = trick.alternatives(bench, start).unwrap_or_default();
        // Rounding sizes up to fewer classes costs memory; it is shown, not searched.
        let useful = alternatives.into_iter().filter(|setup| {
            !setup.alloc_conf.contains("roundup_power2_divisions")
                || start.alloc_conf.contains("roundup_power2_divisions")
        });
        let useful: Vec<Setup> = useful.collect();
        let mut more = Vec::new();
        for combination in &all {
            for setup in &useful {
                let mut with: Combination = combination.clone();
                with.push((trick, setup.clone()));
                more.push(with);
            }
        }
        all.extend(more);
    }
    all
}

fn applied(bench: &Workbench<'_>, cell: &Setup, combination: &Combination) -> Setup {
    let mut setup = cell.clone();
    for (trick, with) in combination {
        trick.adopt(bench, &mut setup, with);
    }
    setup
}
