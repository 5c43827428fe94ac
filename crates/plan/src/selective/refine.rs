//! Removes modules from a subset that still fits without them and takes no more time.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use vramfit_eager::forward::Choice;
use vramfit_training::answer::Fitting;
use vramfit_training::parallel;

use super::kinds::kinds_by_path;
use crate::control::Control;
use crate::setup::Setup;
use crate::workbench::Workbench;

/// If this many modules of one kind in a row are needed, assume that the others are needed too.
const NEEDED_IN_A_ROW: usize = 8;

/// Removes checkpointed modules while the setup still fits: the most expensive first, of equal ones the last.
pub fn refine(bench: &Workbench<'_>, start: &Setup, found: (Setup, Fitting), control: &Control) -> (Setup, Fitting) {
    let (mut setup, mut run) = found;
    let Choice::Modules(names) = setup.training.checkpoint.clone() else { return (setup, run) };
    if setup.training.checkpoint == start.training.checkpoint {
        return (setup, run);
    }
    let without = |setup: &Setup, name: &str| -> Setup {
        let mut reduced = setup.clone();
        if let Choice::Modules(names) = &mut reduced.training.checkpoint {
            Arc::make_mut(names).retain(|known| known != name);
        }
        if matches!(&reduced.training.checkpoint, Choice::Modules(names) if names.is_empty()) {
            reduced.training.checkpoint = Choice::Nothing;
        }
        reduced
    };
    let mut order: Vec<(f64, usize)> = names
        .iter()
        .enumerate()
        .filter_map(|(index, name)| Some((bench.seconds(&without(&setup, name))?, index)))
        .collect();
    order.sort_by(|one, other| one.0.total_cmp(&other.0).then(other.1.cmp(&one.1)));
    let kinds = bench.bind(&setup).map(|bound| kinds_by_path(&bound)).unwrap_or_default();
    let kind = |index: usize| kinds.get(&names[index]).copied();
    // Needed modules in a row, by kind.
    let mut needed: HashMap<Option<usize>, usize> = HashMap::new();
    let mut left: VecDeque<usize> = order.into_iter().map(|(_, index)| index).collect();
    // If one module was not needed, the next may not be either: remove this many at once.
    let mut stride = 1;
    while !left.is_empty() && !control.is_stopped() {
        let next = |count: usize| -> Vec<usize> { left.iter().copied().take(count).collect() };
        let attempts: Vec<Vec<usize>> = match stride {
            // Try several in parallel. If one is not needed, those after it are tried again.
            1 => next(parallel::cores()).into_iter().map(|index| vec![index]).collect(),
            _ => vec![next(stride), next(1)],
        };
        // Less is copied to the host of a module that is checkpointed, so without it a step may take longer.
        let seconds = bench.seconds(&setup);
        let tried = control.map(&attempts, |indices| {
            let reduced = indices.iter().fold(setup.clone(), |setup, &index| without(&setup, &names[index]));
            let is_as_fast = bench.seconds(&reduced).zip(seconds).is_some_and(|(reduced, all)| reduced <= all);
            if !is_as_fast {
                return None;
            }
            bench.fitting_run(&reduced, control).map(|run| (reduced, run))
        });
        let found = tried.into_iter().map(Option::flatten).enumerate().find_map(|(at, found)| Some((at, found?)));
        let (tried, removed) = match (&found, stride) {
            (Some((at, _)), 1) => (at + 1, 1),
            (None, 1) => (attempts.len(), 0),
            (Some((at, _)), _) => (attempts[*at].len(), attempts[*at].len()),
            (None, _) => (1, 0),
        };
        let done: Vec<usize> = left.drain(..tried).collect();
        for &index in &done[..tried - removed] {
            *needed.entry(kind(index)).or_default() += 1;
        }
        for &index in &done[tried - removed..] {
            needed.remove(&kind(index));
        }
        stride = match removed {
            0 => 1,
            removed if removed == stride => 2 * stride,
            _ => (stride / 2).max(1),
        };
        if let Some((_, found)) = found {
            (setup, run) = found;
        }
        left.retain(|&index| needed.get(&kind(index)).is_none_or(|&count| count < NEEDED_IN_A_ROW));
    }
    (setup, run)
}
