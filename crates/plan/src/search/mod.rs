//! Searches for the cheapest combination of tricks that fits.
//!
//! Candidates are priced first, which needs no simulation. Then they are simulated from the cheapest on: the first that
//! fits is the best plan. There is one search per risk.

mod base_setups;
mod by_role;
mod fitting_plan;
mod free_tricks;
mod frontier;
mod needed;
mod outcome;
mod shortfall;
mod single_changes;
mod table;
mod walk;

use vramfit_training::answer::Device;
use vramfit_training::parallel;
use vramfit_training::script::Parallel;

use crate::control::Control;
use crate::error::Unanswerable;
use crate::max_batch::{MaxBatch, max_batch};
use crate::risk::Risk;
use crate::selective::refine;
use crate::setup::Setup;
use crate::tricks::{TRICKS, Trick};
use crate::workbench::{Peaks, Workbench};
use crate::written::written;

use base_setups::Checkpoints;
use by_role::Search;
use free_tricks::FreeTricks;
use needed::{needs_its_risk, only_needed};
use single_changes::single_changes;
use walk::Slowdowns;

pub use fitting_plan::Plan;
pub use frontier::FrontierPoint;
pub use outcome::{Group, Outcome};
pub use shortfall::{Shortfall, SufficientGpu};
pub use table::{TrickOption, TrickRow};

/// The largest batch is searched up to this multiple of the start's batch.
const MAX_BATCH_MULTIPLE: i64 = 4;
/// It is searched at least up to this batch.
const MIN_SEARCHED_BATCH: i64 = 512;

/// Plans that are slower than this are only shown if nothing faster fits.
const SLOW: f64 = 3.0;

/// What the search may use.
#[derive(Clone, Copy)]
pub struct SearchOptions<'a> {
    /// The tricks to combine, in the order in which changes are listed.
    pub tricks: &'a [&'static dyn Trick],
    /// Settings that must not change, as [`Trick::setting`] names them.
    pub keep: &'a [&'static str],
}

impl Default for SearchOptions<'_> {
    fn default() -> Self {
        SearchOptions { tricks: TRICKS, keep: &[] }
    }
}

/// Searches for plans with all tricks. If nothing fits, the outcome names the smallest of the GPUs `others` that is large
/// enough.
///
/// # Errors
/// The start cannot be simulated.
pub fn plan<'m>(
    bench: &Workbench<'m>,
    start: &Setup,
    others: &[Device<'m>],
    control: &Control,
) -> Result<Outcome, Unanswerable> {
    plan_with(SearchOptions::default(), bench, start, others, control)
}

/// [`plan`] with other tricks, or with settings that must not change.
///
/// # Errors
/// The start cannot be simulated.
pub fn plan_with<'m>(
    options: SearchOptions<'_>,
    bench: &Workbench<'m>,
    start: &Setup,
    others: &[Device<'m>],
    control: &Control,
) -> Result<Outcome, Unanswerable> {
    let SearchOptions { tricks, keep } = options;
    let search = Search { bench, tricks, keep, start, control };
    let answer = bench.answer(start, control).map_err(|error| Unanswerable::NotSimulated(Box::new(error)))?;
    let fit = answer.fit.clone().ok_or(Unanswerable::NoCapacity)?;
    let peaks = bench.try_peaks(start, control).map_err(|error| Unanswerable::NotSimulated(Box::new(error)))?;
    let seconds = bench.try_seconds(start).map_err(|error| Unanswerable::NotPriced(Box::new(error)))?;
    let limit =
        bench.batch_of(start).map_or(0, |batch| batch.saturating_mul(MAX_BATCH_MULTIPLE).max(MIN_SEARCHED_BATCH));
    let largest_start = max_batch(bench, start, limit, control);
    let free = FreeTricks::new(&search);
    let checkpoints = Checkpoints::of(&search);
    // Groups run in parallel: a core that one group leaves idle works for another.
    let groups_within = |slowdowns: Slowdowns| {
        parallel::map(&Risk::ALL, |&risk| group(&search, &free, &checkpoints, peaks, largest_start, risk, slowdowns))
    };
    let (mut groups, tricks) = parallel::both(
        || groups_within(Slowdowns { above: f64::NEG_INFINITY, up_to: SLOW }),
        || table::table(&search, peaks),
    );
    let has_plan = |groups: &[Group]| groups.iter().any(|group| group.best.is_some());
    if !has_plan(&groups) {
        let slower = groups_within(Slowdowns { above: SLOW, up_to: f64::INFINITY });
        for (group, slower) in groups.iter_mut().zip(slower) {
            *group = Group { candidates: group.candidates + slower.candidates, ..slower };
        }
    }
    let shortfall = if has_plan(&groups) { None } else { shortfall::shortfall(&search, &free, others) };
    let recommended = groups.iter().find_map(|group| group.best.as_ref());
    let spread = recommended.filter(|plan| plan.setup.training.parallel != Parallel::None);
    let max_batch_of_plan = spread.and_then(|plan| match plan.changes.is_empty() {
        true => largest_start,
        false => max_batch(bench, &plan.setup, limit, control),
    });
    Ok(Outcome {
        start: start.clone(),
        start_written: written(bench, search.tricks, start),
        needed: bench.device.taken_with(peaks.reserved, answer.expected.libraries),
        device_used: peaks.reserved + answer.context.expected,
        answer,
        fit,
        peaks,
        seconds,
        max_batch: largest_start,
        max_batch_of_plan,
        groups,
        tricks,
        shortfall,
        unbound: bench.unbound(),
        is_cut_short: control.is_stopped(),
        simulated: control.simulated(),
    })
}

/// The plans of one risk.
fn group(
    search: &Search<'_, '_>,
    free: &FreeTricks,
    checkpoints: &Checkpoints,
    peaks: Peaks,
    max_batch: Option<MaxBatch>,
    risk: Risk,
    slowdowns: Slowdowns,
) -> Group {
    let Search { bench, start, control, .. } = *search;
    let mut candidates = 0;
    if risk == Risk::SmallerTraining {
        let (found, considered) = single_changes(search, free, checkpoints, max_batch, slowdowns);
        candidates += considered;
        let plans = control.map(&found, |found| {
            let found = only_needed(search, found.clone(), |_| true);
            if needs_its_risk(search, &found, |_| true) { Plan::new(search, peaks, found) } else { None }
        });
        let mut plans = plans.into_iter().flatten().flatten().filter(|plan| slowdowns.contain(plan.slowdown));
        if let Some(best) = plans.next() {
            let others: Vec<Plan> = plans.collect();
            let frontier = frontier::of_plans(std::iter::once(&best).chain(&others));
            return Group { risk, best: Some(best), others, frontier, candidates, is_outdone: false };
        }
    }
    let mut tier = 0;
    let mut walked = (Vec::new(), None);
    while let Some(bases) = base_setups::base_setups(search, risk, tier, checkpoints) {
        let result = walk::walk(search, free, &bases, slowdowns);
        candidates += result.candidates;
        let is_found = result.best.is_some();
        walked = (bases, Some(result));
        if is_found || control.is_stopped() {
            break;
        }
        tier += 1;
    }
    let (bases, Some(walked)) = walked else {
        return Group::without_plans(risk, candidates);
    };
    // A training that fits is recommended as it is, even if a change would make it faster.
    let unchanged = || bench.fitting_run(start, control).map(|run| (start.clone(), run));
    let unchanged = if risk == Risk::None && slowdowns.contain(1.0) { unchanged() } else { None };
    let best = unchanged.or_else(|| walked.best.map(|found| refine(bench, start, found, control)));
    let best = best.map(|found| only_needed(search, found, |_| true));
    if best.as_ref().is_some_and(|found| !needs_its_risk(search, found, |_| true)) {
        return Group { is_outdone: true, ..Group::without_plans(risk, candidates) };
    }
    let best = best.and_then(|found| Plan::new(search, peaks, found));
    let frontier = frontier::frontier(search, free, &bases, &walked.slowdowns, best.as_ref(), slowdowns);
    let others = control.map(&frontier.plans, |plan| Plan::new(search, peaks, plan.clone()));
    let others = frontier::not_outdone(best.as_ref(), others.into_iter().flatten().flatten().collect());
    Group { risk, best, others, frontier: frontier.points, candidates, is_outdone: false }
}
