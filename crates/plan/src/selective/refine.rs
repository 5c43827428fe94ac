//! Fewer modules checkpointed than the subset that was found: each that is not needed runs once only.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use vramfit_eager::forward::Choice;
use vramfit_training::Run;
use vramfit_training::parallel;

use super::family::kinds_by_path;
use crate::control::Control;
use crate::setup::Setup;
use crate::workbench::Workbench;

/// So many modules of one kind in a row that are needed, and the others are needed too.
const NEEDED: usize = 8;

/// Takes modules out of the checkpointed ones while it still fits: the ones that cost most first, of equal ones the
/// last.
pub fn refine(bench: &Workbench<'_>, start: &Setup, found: (Setup, Run), control: &Control) -> (Setup, Run) {
    let (mut setup, mut run) = found;
    let Choice::Modules(names) = setup.training.checkpoint.clone() else { return (setup, run) };
    if setup.training.checkpoint == start.training.checkpoint {
        return (setup, run);
    }
    let without = |setup: &Setup, name: &str| -> Setup {
        let mut less = setup.clone();
        if let Choice::Modules(names) = &mut less.training.checkpoint {
            Arc::make_mut(names).retain(|known| known != name);
        }
        if matches!(&less.training.checkpoint, Choice::Modules(names) if names.is_empty()) {
            less.training.checkpoint = Choice::Nothing;
        }
        less
    };
    let mut order: Vec<(f64, usize)> = names
        .iter()
        .enumerate()
        .filter_map(|(index, name)| Some((bench.seconds(&without(&setup, name))?, index)))
        .collect();
    order.sort_by(|one, other| one.0.total_cmp(&other.0).then(other.1.cmp(&one.1)));
    let kinds = bench.bind(&setup).map(|bound| kinds_by_path(&bound)).unwrap_or_default();
    let kind = |index: usize| kinds.get(&names[index]).copied();
    // How many of a kind, one after the other, were needed.
    let mut needed: HashMap<Option<usize>, usize> = HashMap::new();
    let mut left: VecDeque<usize> = order.into_iter().map(|(_, index)| index).collect();
    // Where one was not needed, the next may not be either: so many of them are taken out at once.
    let mut stride = 1;
    while !left.is_empty() && !control.is_stopped() {
        let next = |count: usize| -> Vec<usize> { left.iter().copied().take(count).collect() };
        let attempts: Vec<Vec<usize>> = match stride {
            // Several are asked about at once; where one is not needed, those after it are asked about again.
            1 => next(parallel::cores()).into_iter().map(|index| vec![index]).collect(),
            _ => vec![next(stride), next(1)],
        };
        let tried = control.map(&attempts, |indices| {
            let less = indices.iter().fold(setup.clone(), |setup, &index| without(&setup, &names[index]));
            bench.fitting(&less, control).map(|fits| (less, fits))
        });
        let found = tried.into_iter().map(Option::flatten).enumerate().find_map(|(at, found)| Some((at, found?)));
        let (tried, taken) = match (&found, stride) {
            (Some((at, _)), 1) => (at + 1, 1),
            (None, 1) => (attempts.len(), 0),
            (Some((at, _)), _) => (attempts[*at].len(), attempts[*at].len()),
            (None, _) => (1, 0),
        };
        let gone: Vec<usize> = left.drain(..tried).collect();
        for &index in &gone[..tried - taken] {
            *needed.entry(kind(index)).or_default() += 1;
        }
        for &index in &gone[tried - taken..] {
            needed.remove(&kind(index));
        }
        stride = match taken {
            0 => 1,
            taken if taken == stride => 2 * stride,
            _ => (stride / 2).max(1),
        };
        if let Some((_, found)) = found {
            (setup, run) = found;
        }
        left.retain(|&index| needed.get(&kind(index)).is_none_or(|&count| count < NEEDED));
    }
    (setup, run)
}
