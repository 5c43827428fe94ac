//! The search: which combination of tricks fits and costs least.
//!
//! Candidates are priced first, which takes no simulation, and then simulated in the order of their price: the first
//! that fits is the cheapest. Three groups, by what a plan does to the training.

mod cells;
mod frontier;
mod nothing;
mod table;
mod walk;

use vramfit_training::Run;
use vramfit_training::answer::{Answer, Device, Fit};
use vramfit_training::parallel;

use crate::control::Control;
use crate::effect::Effect;
use crate::error::{Unanswerable, Unbound};
use crate::max_batch::{MaxBatch, max_batch};
use crate::selective::refine;
use crate::setup::Setup;
use crate::tricks::{Change, differences, effect};
use crate::workbench::{Peaks, Workbench};

pub use frontier::Point;
pub use nothing::{GpuThatDoes, Nothing};
pub use table::{Row, Shown};

/// The largest batch is searched up to so many times the start's, and at least up to so many: nobody trains with more.
const BEYOND: i64 = 4;
const BATCHES: i64 = 512;

/// A combination of changes that fits.
#[derive(Clone, Debug)]
pub struct Plan {
    /// All settings.
    pub setup: Setup,
    /// What differs from the start, one on top of the other.
    pub changes: Vec<Change>,
    /// The expected run under the cap.
    pub run: Run,
    /// What it takes of the capacity.
    pub taken: u64,
    /// Bytes on the device, the CUDA context included.
    pub device_used: u64,
    /// Seconds of a step.
    pub seconds: f64,
    /// The time for the same work, by that of the start.
    pub slowdown: f64,
    /// What it does to the training.
    pub effect: Effect,
}

/// The plans of one effect.
#[derive(Clone, Debug)]
pub struct Group {
    /// The effect.
    pub effect: Effect,
    /// The cheapest plan.
    pub best: Option<Plan>,
    /// Plans that need less memory and more time, by growing time.
    pub others: Vec<Plan>,
    /// Memory against time: what no other candidate of the group beats in both.
    pub frontier: Vec<Point>,
    /// How many combinations there were.
    pub candidates: usize,
}

/// Everything that the search found.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The setup that was asked for.
    pub start: Setup,
    /// What `vramfit estimate` answers for it.
    pub answer: Answer,
    /// Whether it fits as it is.
    pub fit: Fit,
    /// The start's peaks on a GPU of unlimited memory.
    pub peaks: Peaks,
    /// What it would take of the capacity then.
    pub needed: u64,
    /// What its process would take then, its CUDA context included.
    pub device_used: u64,
    /// Seconds of a step.
    pub seconds: f64,
    /// The largest batch with the given settings; `None` where the model has no batch to choose.
    pub max_batch: Option<MaxBatch>,
    /// One for each effect.
    pub groups: Vec<Group>,
    /// What each trick does alone.
    pub tricks: Vec<Row>,
    /// Where nothing fits: what is missing.
    pub nothing: Option<Nothing>,
    /// Candidates that were left out because the model could not be bound to them.
    pub unbound: Vec<Unbound>,
    /// Whether the search was stopped.
    pub is_cut_short: bool,
    /// How many candidates were simulated.
    pub simulated: u64,
}

impl Outcome {
    /// The plans, group by group, the cheapest first.
    pub fn plans(&self) -> impl Iterator<Item = &Plan> {
        self.groups.iter().flat_map(|group| group.best.iter().chain(&group.others))
    }
}

/// Searches. `others` are the GPUs among which the smallest that would do is looked for where nothing fits.
///
/// # Errors
/// The start cannot be simulated.
pub fn plan<'m>(
    bench: &Workbench<'m>,
    start: &Setup,
    others: &[Device<'m>],
    control: &Control,
) -> Result<Outcome, Unanswerable> {
    let answer = bench.answer(start, control).map_err(|error| Unanswerable::NotSimulated(Box::new(error)))?;
    let fit = answer.fit.clone().ok_or(Unanswerable::NoCapacity)?;
    let peaks = bench.try_peaks(start, control).map_err(|error| Unanswerable::NotSimulated(Box::new(error)))?;
    let seconds = bench.try_seconds(start).map_err(|error| Unanswerable::NotPriced(Box::new(error)))?;
    let limit = bench.batch_of(start).map_or(0, |batch| batch.saturating_mul(BEYOND).max(BATCHES));
    let max_batch = max_batch(bench, start, limit, control);
    let free = walk::Free::new(bench, start);
    let checkpoints = cells::Checkpoints::of(bench, start, control);
    // The groups wait at different times; what one leaves idle serves the others.
    let group = |effect: &Effect| {
        let mut cells = cells::cells(bench, start, *effect, max_batch, &checkpoints);
        let mut walked = walk::walk(bench, start, &free, &cells, control);
        if *effect == Effect::Training && walked.best.is_none() {
            cells = cells::last_resorts(bench, start, &checkpoints);
            let again = walk::walk(bench, start, &free, &cells, control);
            walked = walk::Walked { candidates: walked.candidates + again.candidates, ..again };
        }
        let best = walked.best.map(|found| refine(bench, start, found, control));
        let best = best.and_then(|(setup, run)| make(bench, start, peaks, (setup, run), control));
        let seen = frontier::frontier(bench, &free, &cells, &walked.slowdowns, best.as_ref(), control);
        let others = control.map(&seen.plans, |plan| make(bench, start, peaks, plan.clone(), control));
        let others = others.into_iter().flatten().flatten().collect();
        let (frontier, candidates) = (seen.points, walked.candidates);
        Group { effect: *effect, best, others, frontier, candidates }
    };
    let (groups, tricks) =
        parallel::both(|| parallel::map(&Effect::ALL, group), || table::table(bench, start, peaks, control));
    let fits = groups.iter().any(|group| group.best.is_some());
    let nothing = if fits { None } else { nothing::nothing(bench, start, &free, others, control) };
    Ok(Outcome {
        start: start.clone(),
        needed: bench.device.taken_with(peaks.reserved, answer.expected.libraries),
        device_used: peaks.reserved + answer.context,
        answer,
        fit,
        peaks,
        seconds,
        max_batch,
        groups,
        tricks,
        nothing,
        unbound: bench.unbound(),
        is_cut_short: control.is_stopped(),
        simulated: control.simulated(),
    })
}

/// A plan with all that is reported about it; `peaks` are those of the start.
fn make(
    bench: &Workbench<'_>,
    start: &Setup,
    peaks: Peaks,
    (setup, run): (Setup, Run),
    control: &Control,
) -> Option<Plan> {
    let mut before = start.clone();
    let mut reserved = peaks.reserved as i64;
    let mut changes = Vec::new();
    let differences = differences(bench, start, &setup);
    // On a GPU of unlimited memory: what PyTorch gives back because of a cap is no saving of the trick's.
    let lowered = control.map(&differences, |(_, after)| bench.peaks(after, control));
    for ((trick, after), now) in differences.into_iter().zip(lowered) {
        // What was found is reported also where the search has been stopped.
        let now = now.flatten().or_else(|| bench.peaks(&after, control))?.reserved as i64;
        changes.push(Change {
            trick: trick.name(),
            effect: trick.effect(),
            before: trick.state(bench, &before),
            after: trick.state(bench, &after),
            warning: trick.warning(bench, &after),
            saving: reserved - now,
            slowdown: bench.slowdown(&before, &after)?,
        });
        (reserved, before) = (now, after);
    }
    Some(Plan {
        taken: bench.device.taken(&run),
        device_used: bench.device.used(&run),
        seconds: bench.seconds(&setup)?,
        slowdown: bench.slowdown(start, &setup)?,
        effect: effect(bench, start, &setup),
        changes,
        run,
        setup,
    })
}
