//! Searches for the cheapest combination of tricks that fits.
//!
//! Candidates are priced first, which needs no simulation. Then they are simulated from the cheapest on: the first that
//! fits is the best plan. There is one search per effect on the training.

mod base_setups;
mod by_role;
mod fitting_plan;
mod free_tricks;
mod frontier;
mod outcome;
mod shortfall;
mod table;
mod walk;

use vramfit_training::answer::Device;
use vramfit_training::parallel;

use crate::control::Control;
use crate::effect::TrainingEffect;
use crate::error::Unanswerable;
use crate::max_batch::max_batch;
use crate::selective::refine;
use crate::setup::Setup;
use crate::tricks::{TRICKS, Trick};
use crate::workbench::Workbench;
use crate::written::written;

use by_role::Search;
use free_tricks::FreeTricks;

pub use fitting_plan::Plan;
pub use frontier::FrontierPoint;
pub use outcome::{Group, Outcome};
pub use shortfall::{Shortfall, SufficientGpu};
pub use table::{TrickOption, TrickRow};

/// The largest batch is searched up to this multiple of the start's batch.
const MAX_BATCH_MULTIPLE: i64 = 4;
/// It is searched at least up to this batch.
const MIN_SEARCHED_BATCH: i64 = 512;

/// Searches for plans. If nothing fits, the outcome names the smallest of the GPUs `others` that is large enough.
///
/// # Errors
/// The start cannot be simulated.
pub fn plan<'m>(
    bench: &Workbench<'m>,
    start: &Setup,
    others: &[Device<'m>],
    control: &Control,
) -> Result<Outcome, Unanswerable> {
    plan_with(TRICKS, bench, start, others, control)
}

/// [`plan`] with other tricks.
///
/// # Errors
/// The start cannot be simulated.
pub fn plan_with<'m>(
    tricks: &[&'static dyn Trick],
    bench: &Workbench<'m>,
    start: &Setup,
    others: &[Device<'m>],
    control: &Control,
) -> Result<Outcome, Unanswerable> {
    let search = Search { bench, tricks, start, control };
    let answer = bench.answer(start, control).map_err(|error| Unanswerable::NotSimulated(Box::new(error)))?;
    let fit = answer.fit.clone().ok_or(Unanswerable::NoCapacity)?;
    let peaks = bench.try_peaks(start, control).map_err(|error| Unanswerable::NotSimulated(Box::new(error)))?;
    let seconds = bench.try_seconds(start).map_err(|error| Unanswerable::NotPriced(Box::new(error)))?;
    let limit =
        bench.batch_of(start).map_or(0, |batch| batch.saturating_mul(MAX_BATCH_MULTIPLE).max(MIN_SEARCHED_BATCH));
    let max_batch = max_batch(bench, start, limit, control);
    let free = FreeTricks::new(&search);
    let checkpoints = base_setups::Checkpoints::of(&search);
    // Groups run in parallel: a core that one group leaves idle works for another.
    let group = |effect: &TrainingEffect| {
        let mut bases = base_setups::base_setups(&search, *effect, max_batch, &checkpoints);
        let mut walked = walk::walk(&search, &free, &bases);
        if *effect == TrainingEffect::Training && walked.best.is_none() {
            bases = base_setups::last_resorts(&search, &checkpoints);
            let again = walk::walk(&search, &free, &bases);
            walked = walk::WalkResult { candidates: walked.candidates + again.candidates, ..again };
        }
        let best = walked.best.map(|found| refine(bench, start, found, control));
        let best = best.and_then(|found| Plan::new(&search, peaks, found));
        let frontier = frontier::frontier(&search, &free, &bases, &walked.slowdowns, best.as_ref());
        let others = control.map(&frontier.plans, |plan| Plan::new(&search, peaks, plan.clone()));
        let others = others.into_iter().flatten().flatten().collect();
        let (frontier, candidates) = (frontier.points, walked.candidates);
        Group { effect: *effect, best, others, frontier, candidates }
    };
    let (groups, tricks) =
        parallel::both(|| parallel::map(&TrainingEffect::ALL, group), || table::table(&search, peaks));
    let fits = groups.iter().any(|group| group.best.is_some());
    let shortfall = if fits { None } else { shortfall::shortfall(&search, &free, others) };
    Ok(Outcome {
        start: start.clone(),
        start_written: written(bench, search.tricks, start),
        needed: bench.device.taken_with(peaks.reserved, answer.expected.libraries),
        device_used: peaks.reserved + answer.context.expected,
        answer,
        fit,
        peaks,
        seconds,
        max_batch,
        groups,
        tricks,
        shortfall,
        unbound: bench.unbound(),
        is_cut_short: control.is_stopped(),
        simulated: control.simulated(),
    })
}
