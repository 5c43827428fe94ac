//! Plans that make one change to the training and nothing else: the smallest that fits.

use vramfit_training::answer::Fitting;

use super::base_setups::{Checkpoints, splits, with_change_counts, with_choices};
use super::by_role::Search;
use super::free_tricks::FreeTricks;
use super::walk::{Slowdowns, walk};
use crate::max_batch::MaxBatch;
use crate::risk::Risk;
use crate::selective::refine;
use crate::setup::Setup;
use crate::tricks::Role;

/// Below this many samples, statistics over a micro-batch are so noisy that a larger one is worth some time.
const FEW_SAMPLES: i64 = 16;
/// That much time.
const LARGER_MICRO_BATCH: f64 = 1.05;
/// Checkpointed subsets to try with a larger micro-batch.
const SUBSETS: usize = 6;

/// Setups that fit with one change of the training each, the smallest change first, and the number of setups considered.
pub fn single_changes(
    search: &Search<'_, '_>,
    free: &FreeTricks,
    checkpoints: &Checkpoints,
    max_batch: Option<MaxBatch>,
    slowdowns: Slowdowns,
) -> (Vec<(Setup, Fitting)>, usize) {
    let mut found = Vec::new();
    let mut considered = 0;
    if search.bench.fitting_run(search.start, search.control).is_some() {
        return (found, considered);
    }
    let risky = search
        .with_role(|role| role == Role::SplitsBatch)
        .any(|trick| trick.risk(search.bench, search.start) == Risk::SmallerTraining);
    if risky {
        found.extend(largest_micro_batch(search, free, checkpoints, slowdowns, &mut considered));
    }
    for role in [Role::BatchSize, Role::SampleSize] {
        for trick in search.with_role(|known| known == role) {
            let mut steps = trick.round_steps(search.bench, search.start);
            if let (Role::BatchSize, Some(max)) = (role, max_batch.filter(|max| max.is_final)) {
                // Some larger batch may fit too, but not every one up to it.
                steps.retain(|setup| search.bench.batch_of(setup).is_none_or(|batch| batch <= max.batch));
            }
            considered += steps.len();
            found.extend(first_that_fits(search, steps));
        }
    }
    (found, considered)
}

/// The largest micro-batch that fits without recomputation, or a larger one that takes hardly more time with it.
fn largest_micro_batch(
    search: &Search<'_, '_>,
    free: &FreeTricks,
    checkpoints: &Checkpoints,
    slowdowns: Slowdowns,
    considered: &mut usize,
) -> Option<(Setup, Fitting)> {
    let (bench, start) = (search.bench, search.start);
    let splits = splits(search, start, Risk::SmallerTraining).split_off(1);
    let mut walked = |setups: Vec<Setup>, slowdowns: Slowdowns| {
        let bases = with_change_counts(search, setups.into_iter().map(|setup| (0, setup)).collect());
        let walked = walk(search, free, &bases, slowdowns);
        *considered += walked.candidates;
        walked.best
    };
    let at = splits.iter().enumerate().find_map(|(at, split)| Some((at, walked(vec![split.clone()], slowdowns)?)));
    let (larger, up_to) = match &at {
        Some((at, (setup, _))) if bench.batch_of(setup).is_some_and(|samples| samples < FEW_SAMPLES) => {
            (&splits[..*at], LARGER_MICRO_BATCH * bench.slowdown(start, setup)?)
        }
        Some(_) => return at.map(|(_, found)| found),
        None => (&splits[..], slowdowns.up_to),
    };
    let up_to = up_to.min(slowdowns.up_to);
    let choices = checkpoints.choices(search, start, SUBSETS);
    let checkpointed = larger.iter().find_map(|split| {
        let setups = with_choices(search, std::slice::from_ref(split), &choices);
        walked(setups, Slowdowns { up_to, ..slowdowns })
    });
    let checkpointed = checkpointed.map(|found| refine(bench, start, found, search.control));
    checkpointed.or_else(|| at.map(|(_, found)| found))
}

/// The first setup of a list that fits, found by bisection: memory grows with sizes but for details, and every setup that is
/// returned was simulated.
fn first_that_fits(search: &Search<'_, '_>, setups: Vec<Setup>) -> Option<(Setup, Fitting)> {
    let fitting = |setup: &Setup| -> Option<Fitting> {
        if search.control.is_stopped() { None } else { search.bench.fitting_run(setup, search.control) }
    };
    let setups: Vec<Setup> = setups.into_iter().filter(|setup| search.bench.bind(setup).is_some()).collect();
    let (mut low, mut high) = (0, setups.len().checked_sub(1)?);
    let mut run = fitting(&setups[high])?;
    while low < high {
        let middle = usize::midpoint(low, high);
        match fitting(&setups[middle]) {
            Some(found) => (high, run) = (middle, found),
            None => low = middle + 1,
        }
    }
    Some((setups[high].clone(), run))
}
