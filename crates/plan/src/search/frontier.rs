//! Memory against time: what more time would save.

use vramfit_training::Run;

use super::Plan;
use super::cells::Cell;
use super::walk::Free;
use crate::control::Control;
use crate::setup::Setup;
use crate::workbench::Workbench;

/// One candidate in the plot.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Bytes of the device or of `--vram` that it takes on a GPU of unlimited memory.
    pub taken: u64,
    /// The time for the same work, by that of the start.
    pub slowdown: f64,
    /// Whether that is less than there is.
    pub fits: bool,
}

/// What the frontier shows.
pub struct Seen {
    /// By growing time.
    pub points: Vec<Point>,
    /// Setups that fit, need less than the best plan and take longer.
    pub plans: Vec<(Setup, Run)>,
}

/// Cells that are simulated for it where the model is small.
const MOST: usize = 64;
/// The same where it is large.
const LEAST: usize = 12;
/// Steps of a captured pass, times cells.
const WORK: usize = 60_000;
/// Plans beside the best one.
const RUNNERS_UP: usize = 3;

/// Simulates cells with all free tricks, spread over their prices.
pub fn frontier(
    bench: &Workbench<'_>,
    free: &Free,
    cells: &[Cell],
    slowdowns: &[Option<f64>],
    best: Option<&Plan>,
    control: &Control,
) -> Seen {
    let mut priced: Vec<(f64, &Cell)> =
        cells.iter().zip(slowdowns).filter_map(|(cell, slowdown)| Some(((*slowdown)?, cell))).collect();
    priced.sort_by(|one, other| one.0.total_cmp(&other.0));
    let steps = cells.first().and_then(|cell| bench.bind(&cell.setup)).map_or(1, |bound| bound.steps.len());
    let count = (WORK / steps.max(1)).clamp(LEAST, MOST).min(priced.len());
    let chosen: Vec<(f64, Setup)> = (0..count)
        .map(|index| priced[index * (priced.len() - 1) / (count - 1).max(1)])
        .map(|(slowdown, cell)| (slowdown, free.leanest(bench, &cell.setup)))
        .collect();
    let capacity = bench.device.capacity().map_or(u64::MAX, |capacity| capacity.low);
    let runs = control.map(&chosen, |(slowdown, setup)| {
        let run = bench.run_free(setup, control)?;
        let taken = bench.device.taken(&run);
        Some(Point { taken, slowdown: *slowdown, fits: taken <= capacity })
    });
    let mut seen: Vec<(Point, &Setup)> =
        chosen.iter().zip(runs).filter_map(|((_, setup), point)| point.flatten().map(|point| (point, setup))).collect();
    seen.sort_by(|one, other| one.0.slowdown.total_cmp(&other.0.slowdown).then(one.0.taken.cmp(&other.0.taken)));
    let mut least = u64::MAX;
    seen.retain(|(point, _)| {
        let is_better = point.taken < least;
        least = least.min(point.taken);
        is_better
    });
    let mut points: Vec<Point> = seen.iter().map(|(point, _)| *point).collect();
    let mut plans = Vec::new();
    if let Some(best) = best {
        let taken = best.taken;
        let slower: Vec<&Setup> = seen
            .iter()
            .filter(|(point, _)| point.fits && point.taken < taken && point.slowdown > best.slowdown)
            .map(|(_, setup)| *setup)
            .collect();
        let spread: Vec<&Setup> = (0..RUNNERS_UP.min(slower.len()))
            .map(|index| {
                let last = slower.len() - 1;
                slower[if slower.len() <= RUNNERS_UP { index } else { index * last / (RUNNERS_UP - 1) }]
            })
            .collect();
        let fitting = control.map(&spread, |setup| Some(((*setup).clone(), bench.fitting(setup, control)?)));
        plans.extend(fitting.into_iter().flatten().flatten());
        points.retain(|point| point.slowdown < best.slowdown && !point.fits || point.taken < taken);
        points.push(Point { taken, slowdown: best.slowdown, fits: true });
        points.sort_by(|one, other| one.slowdown.total_cmp(&other.slowdown));
    }
    Seen { points, plans }
}
