//! The trade-off between memory and time.

use vramfit_training::answer::Fitting;

use super::base_setups::BaseSetup;
use super::by_role::Search;
use super::fitting_plan::Plan;
use super::free_tricks::FreeTricks;
use super::needed::{needs_its_risk, only_needed};
use super::walk::Slowdowns;
use crate::setup::Setup;

/// A candidate in the plot of memory against time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FrontierPoint {
    /// Bytes counted against the GPU's memory or `--vram`, on a GPU of unlimited memory.
    pub taken: u64,
    /// The time for the same work, over that of the start.
    pub slowdown: f64,
    /// Whether `taken` is within the capacity.
    pub fits: bool,
}

/// The frontier of memory against time.
pub struct Frontier {
    /// Ordered by time.
    pub points: Vec<FrontierPoint>,
    /// Setups that fit, with less memory and more time than the best plan.
    pub plans: Vec<(Setup, Fitting)>,
}

/// Candidates simulated for a small model.
const MAX_CANDIDATES: usize = 64;
/// Candidates simulated for a large model.
const MIN_CANDIDATES: usize = 12;
/// Between these bounds: steps of the captured pass times candidates.
const WORK: usize = 60_000;
/// What saves less than half a percent is not worth a change.
const AS_SMALL: f64 = 1.005;
/// Plans besides the best one.
const RUNNERS_UP: usize = 3;

/// Simulates base setups with all free tricks, spread evenly over their times.
pub fn frontier(
    search: &Search<'_, '_>,
    free: &FreeTricks,
    bases: &[BaseSetup],
    slowdowns: &[Option<f64>],
    best: Option<&Plan>,
    limits: Slowdowns,
) -> Frontier {
    let (bench, control) = (search.bench, search.control);
    let mut priced: Vec<(f64, &BaseSetup)> =
        bases.iter().zip(slowdowns).filter_map(|(base, slowdown)| Some(((*slowdown)?, base))).collect();
    priced.sort_by(|one, other| one.0.total_cmp(&other.0));
    let steps = bases.first().and_then(|base| bench.bind(&base.setup)).map_or(1, |bound| bound.steps.len());
    let count = (WORK / steps.max(1)).clamp(MIN_CANDIDATES, MAX_CANDIDATES).min(priced.len());
    let chosen: Vec<(f64, Setup)> = (0..count)
        .map(|index| priced[index * (priced.len() - 1) / (count - 1).max(1)])
        .map(|(slowdown, base)| (slowdown, free.leanest(bench, &base.setup)))
        .collect();
    let capacity = bench.usable().unwrap_or(u64::MAX);
    let runs = control.map(&chosen, |(slowdown, setup)| {
        let run = bench.probe_run(setup, control)?;
        let taken = bench.device.taken(&run);
        Some(FrontierPoint { taken, slowdown: *slowdown, fits: taken <= capacity })
    });
    let mut simulated: Vec<(FrontierPoint, &Setup)> =
        chosen.iter().zip(runs).filter_map(|((_, setup), point)| point.flatten().map(|point| (point, setup))).collect();
    simulated.sort_by(|one, other| one.0.slowdown.total_cmp(&other.0.slowdown).then(one.0.taken.cmp(&other.0.taken)));
    let mut lowest = u64::MAX;
    simulated.retain(|(point, _)| {
        let is_better = point.taken < lowest;
        lowest = lowest.min(point.taken);
        is_better
    });
    let mut points: Vec<FrontierPoint> = simulated.iter().map(|(point, _)| *point).collect();
    let mut plans = Vec::new();
    if let Some(best) = best {
        let taken = best.taken;
        let slower: Vec<&Setup> = simulated
            .iter()
            .filter(|(point, _)| point.fits && point.taken < taken && point.slowdown > best.slowdown)
            .filter(|(point, _)| point.slowdown <= limits.up_to)
            .map(|(_, setup)| *setup)
            .collect();
        let spread: Vec<&Setup> = (0..RUNNERS_UP.min(slower.len()))
            .map(|index| {
                let last = slower.len() - 1;
                slower[if slower.len() <= RUNNERS_UP { index } else { index * last / (RUNNERS_UP - 1) }]
            })
            .collect();
        let fitting = control.map(&spread, |setup| {
            let run = bench.fitting_run(setup, control)?;
            let taken = bench.device.taken(&run.run);
            let is_as_small = |found: &Fitting| bench.device.taken(&found.run) as f64 <= taken as f64 * AS_SMALL;
            let found = only_needed(search, ((*setup).clone(), run), is_as_small);
            needs_its_risk(search, &found, is_as_small).then_some(found)
        });
        plans.extend(fitting.into_iter().flatten().flatten());
        points.retain(|point| point.slowdown < best.slowdown && !point.fits || point.taken < taken);
        points.push(FrontierPoint { taken, slowdown: best.slowdown, fits: true });
        points.sort_by(|one, other| one.slowdown.total_cmp(&other.slowdown));
    }
    Frontier { points, plans }
}

/// Plans by time, without those that take no less memory than a faster one.
pub fn not_outdone(best: Option<&Plan>, mut plans: Vec<Plan>) -> Vec<Plan> {
    plans.sort_by(|one, other| one.slowdown.total_cmp(&other.slowdown).then(one.taken.cmp(&other.taken)));
    let mut lowest = best.map_or(u64::MAX, |best| best.taken);
    plans.retain(|plan| {
        let is_better = plan.taken < lowest;
        lowest = lowest.min(plan.taken);
        is_better
    });
    plans
}

/// The points of plans, ordered by time.
pub fn of_plans<'a>(plans: impl Iterator<Item = &'a Plan>) -> Vec<FrontierPoint> {
    let mut points: Vec<FrontierPoint> =
        plans.map(|plan| FrontierPoint { taken: plan.taken, slowdown: plan.slowdown, fits: true }).collect();
    points.sort_by(|one, other| one.slowdown.total_cmp(&other.slowdown));
    points
}
