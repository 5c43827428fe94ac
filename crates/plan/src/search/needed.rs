//! Leaves out the changes that a plan does not need, and plans that do not need their risk.

use vramfit_training::answer::Fitting;

use super::by_role::Search;
use super::walk::SLOWDOWN_STEP;
use crate::setup::Setup;
use crate::tricks::differences;

/// A setup without the changes that it can do without: what is left fits, takes no more time, has the same risk, and its run is
/// enough. Candidates hold such changes because they are combined before it is known what the others save.
pub fn only_needed(
    search: &Search<'_, '_>,
    found: (Setup, Fitting),
    is_enough: impl Fn(&Fitting) -> bool + Sync,
) -> (Setup, Fitting) {
    let Search { bench, tricks, start, control, .. } = *search;
    let (mut setup, mut run) = found;
    let risk = search.risk(&setup);
    let mut candidates: Vec<_> =
        differences(bench, tricks, start, &setup).into_iter().map(|(trick, _)| trick).collect();
    while !candidates.is_empty() && !control.is_stopped() {
        let Some(slowdown) = bench.slowdown(start, &setup) else { break };
        let tried = control.map(&candidates, |trick| {
            let mut without = setup.clone();
            trick.adopt(bench, &mut without, start);
            let is_as_fast = |slower: f64| slower <= slowdown + SLOWDOWN_STEP;
            if without == setup
                || search.risk(&without) != risk
                || !bench.slowdown(start, &without).is_some_and(is_as_fast)
            {
                return None;
            }
            bench.fitting_run(&without, control).filter(&is_enough).map(|run| (without, run))
        });
        // What cannot be left out now cannot be left out later either: then there is less that saves memory.
        let mut left: Vec<_> =
            candidates.into_iter().zip(tried).filter_map(|(trick, tried)| Some((trick, tried??))).collect();
        if let Some((_, without)) = left.pop() {
            (setup, run) = without;
        }
        candidates = left.into_iter().map(|(trick, _)| trick).collect();
    }
    (setup, run)
}

/// Whether a setup needs the changes of its largest risk. Without them it does not fit, takes more time, or its run is not enough.
pub fn needs_its_risk(
    search: &Search<'_, '_>,
    (setup, _): &(Setup, Fitting),
    is_enough: impl Fn(&Fitting) -> bool,
) -> bool {
    let Search { bench, tricks, start, control, .. } = *search;
    let risk = search.risk(setup);
    let mut without = setup.clone();
    for (trick, after) in differences(bench, tricks, start, setup) {
        if trick.risk(bench, &after) == risk {
            trick.adopt(bench, &mut without, start);
        }
    }
    if without == *setup || search.risk(&without) >= risk {
        return true;
    }
    let (Some(with), Some(less)) = (bench.slowdown(start, setup), bench.slowdown(start, &without)) else { return true };
    less > with + SLOWDOWN_STEP || !bench.fitting_run(&without, control).is_some_and(|run| is_enough(&run))
}
