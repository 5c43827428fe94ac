//! What is combined: a cell is a setup without the free tricks, which go with every cell.

use std::sync::OnceLock;

use vramfit_eager::forward::Choice;

use crate::control::Control;
use crate::effect::Effect;
use crate::max_batch::MaxBatch;
use crate::selective::Family;
use crate::setup::Setup;
use crate::tricks::{
    Accumulation, Checkpointing, MixedPrecision, OtherOptimizer, SmallerBatch, SmallerDtype, SmallerSizes, Trick,
    differences,
};
use crate::workbench::Workbench;

/// A setup without the free tricks.
pub struct Cell {
    /// The setup.
    pub setup: Setup,
    /// How many tricks it takes.
    pub changes: usize,
    /// Whether not even all free tricks together can make it fit: what is held at once is more than there is. Found when
    /// first asked for.
    pub is_hopeless: OnceLock<bool>,
}

/// How many divisions into micro-batches are tried.
const MICRO_BATCHES: usize = 16;
/// How many changes of the training are tried together at first.
const TOGETHER: usize = 2;
/// How many subsets of modules are tried.
const SUBSETS: usize = 24;
/// The same where much else is combined with them.
const FEW_SUBSETS: usize = 6;

/// What may be checkpointed in every precision that is tried.
pub struct Checkpoints(Vec<(Setup, Family)>);

impl Checkpoints {
    /// Of a start.
    pub fn of(bench: &Workbench<'_>, start: &Setup, control: &Control) -> Checkpoints {
        let mut bases = vec![start.clone()];
        bases.extend(precisions(bench, start));
        let families = control.map(&bases, |base| Family::of(bench, base, control));
        Checkpoints(bases.into_iter().zip(families.into_iter().map(Option::unwrap_or_default)).collect())
    }

    /// Nothing new, the cheapest subsets, every block, every second, …, for the start in one of the precisions.
    fn choices(&self, bench: &Workbench<'_>, base: &Setup, count: usize) -> Vec<Choice> {
        let mut choices = vec![base.training.checkpoint.clone()];
        let family = self.0.iter().find(|(known, _)| known == base).map(|(_, family)| family.members(count));
        choices.extend(family.into_iter().flatten().map(|member| Choice::modules(member.names)));
        choices
            .extend(with(bench, &Checkpointing, base).split_off(1).into_iter().map(|setup| setup.training.checkpoint));
        let mut known: Vec<Choice> = Vec::with_capacity(choices.len());
        for choice in choices {
            if !known.contains(&choice) {
                known.push(choice);
            }
        }
        known
    }
}

/// All cells of a group.
pub fn cells(
    bench: &Workbench<'_>,
    start: &Setup,
    effect: Effect,
    max_batch: Option<MaxBatch>,
    checkpoints: &Checkpoints,
) -> Vec<Cell> {
    let mut setups: Vec<Setup> = Vec::new();
    match effect {
        Effect::None => {
            let checkpoints = checkpoints.choices(bench, start, SUBSETS);
            for micro in thinned(with(bench, &Accumulation, start), MICRO_BATCHES) {
                setups.extend(checkpoints.iter().map(|choice| checkpointed(&micro, choice)));
            }
        }
        Effect::Rounding => {
            for precise in precisions(bench, start) {
                let checkpoints = checkpoints.choices(bench, &precise, FEW_SUBSETS);
                for micro in thinned(with(bench, &Accumulation, &precise), MICRO_BATCHES) {
                    setups.extend(checkpoints.iter().map(|choice| checkpointed(&micro, choice)));
                }
            }
        }
        Effect::Training => {
            let mut bases = vec![start.clone()];
            bases.extend(precisions(bench, start).into_iter().next());
            for base in bases {
                let checkpoints = checkpoints.choices(bench, &base, FEW_SUBSETS);
                for changed in other_trainings(bench, &base, max_batch) {
                    setups.extend(checkpoints.iter().map(|choice| checkpointed(&changed, choice)));
                }
            }
        }
    }
    as_cells(bench, start, setups)
}

/// Where no gentler change of the training makes it fit: the whole model in a smaller type too, other optimizers, smaller batches
/// and sizes, all at once.
pub fn last_resorts(bench: &Workbench<'_>, start: &Setup, checkpoints: &Checkpoints) -> Vec<Cell> {
    let mut setups: Vec<Setup> = Vec::new();
    for base in coarser(bench, start) {
        // The start's precision and autocast have been tried with fewer changes.
        let tried = if base.variant.dtype == start.variant.dtype { TOGETHER } else { 0 };
        let checkpoints = checkpoints.choices(bench, &base, FEW_SUBSETS);
        for optimizer in with(bench, &OtherOptimizer, &base) {
            let mut changed = with(bench, &SmallerBatch, &optimizer);
            if let Some(smallest) = with(bench, &SmallerSizes, &optimizer).split_off(1).pop() {
                changed.extend(with(bench, &SmallerBatch, &smallest));
            }
            for setup in changed.iter().filter(|setup| differences(bench, &base, setup).len() > tried) {
                setups.extend(checkpoints.iter().map(|choice| checkpointed(setup, choice)));
            }
        }
    }
    as_cells(bench, start, setups)
}

/// The leanest setups of every precision and optimizer: one sample of the smallest size, as much recomputed as possible.
pub fn corners(bench: &Workbench<'_>, start: &Setup) -> Vec<Setup> {
    let mut setups = Vec::new();
    for base in coarser(bench, start) {
        for optimizer in with(bench, &OtherOptimizer, &base) {
            let one = bench.with_batch(&optimizer, 1).unwrap_or(optimizer);
            let smallest = with(bench, &SmallerSizes, &one).pop().unwrap_or(one);
            setups.extend(with(bench, &Checkpointing, &smallest));
        }
    }
    setups
}

/// The start, and of mixed precision and of smaller types the first: others take as much.
fn coarser(bench: &Workbench<'_>, start: &Setup) -> Vec<Setup> {
    let first = |trick: &dyn Trick| with(bench, trick, start).into_iter().nth(1);
    [Some(start.clone()), first(&MixedPrecision), first(&SmallerDtype)].into_iter().flatten().collect()
}

fn as_cells(bench: &Workbench<'_>, start: &Setup, setups: Vec<Setup>) -> Vec<Cell> {
    let cell = |setup: Setup| {
        let changes = differences(bench, start, &setup).len();
        Cell { setup, changes, is_hopeless: OnceLock::new() }
    };
    setups.into_iter().map(cell).collect()
}

/// The start, then what a trick makes of it; nothing more where the trick does not apply.
fn with(bench: &Workbench<'_>, trick: &dyn Trick, start: &Setup) -> Vec<Setup> {
    let mut setups = vec![start.clone()];
    setups.extend(trick.alternatives(bench, start).unwrap_or_default());
    setups
}

/// Every other precision.
fn precisions(bench: &Workbench<'_>, start: &Setup) -> Vec<Setup> {
    let mut setups = with(bench, &MixedPrecision, start).split_off(1);
    setups.extend(with(bench, &SmallerDtype, start).split_off(1));
    setups
}

/// One or two changes of the training itself.
fn other_trainings(bench: &Workbench<'_>, base: &Setup, max_batch: Option<MaxBatch>) -> Vec<Setup> {
    let mut setups = Vec::new();
    let mut smaller = with(bench, &SmallerBatch, base);
    // The largest batch that fits as it is is the smallest change.
    if let Some(batch) = max_batch.map(|found| found.batch).filter(|&batch| batch > 0)
        && bench.batch_of(base).is_some_and(|given| batch < given)
    {
        smaller.extend(bench.with_batch(base, batch));
    }
    for optimizer in with(bench, &OtherOptimizer, base) {
        for sizes in with(bench, &SmallerSizes, &optimizer) {
            for batch in &smaller {
                let mut setup = sizes.clone();
                if let Some(number) = bench.batch_of(batch).filter(|number| bench.batch_of(&setup) != Some(*number)) {
                    let Some(changed) = bench.with_batch(&setup, number) else { continue };
                    setup = changed;
                }
                let count = differences(bench, base, &setup).len();
                if (1..=TOGETHER).contains(&count) {
                    setups.push(setup);
                }
            }
        }
    }
    setups
}

fn checkpointed(setup: &Setup, choice: &Choice) -> Setup {
    let mut setup = setup.clone();
    setup.training.checkpoint.clone_from(choice);
    setup
}

/// The first half, and as many of the others, evenly spread: near the start each step matters most.
fn thinned<T>(mut setups: Vec<T>, count: usize) -> Vec<T> {
    if setups.len() <= count {
        return setups;
    }
    let others = setups.split_off(count / 2);
    let wanted = count - setups.len();
    let last = others.len() - 1;
    let chosen: Vec<usize> = (0..wanted).map(|index| index * last / (wanted - 1)).collect();
    setups.extend(others.into_iter().enumerate().filter(|(index, _)| chosen.contains(index)).map(|(_, setup)| setup));
    setups
}

#[cfg(test)]
mod tests {
    use super::thinned;

    #[test]
    fn the_first_half_the_next_and_the_last_are_kept() {
        assert_eq!(thinned((0..16).collect(), 16).len(), 16);
        let kept: Vec<usize> = thinned((0..30).collect(), 16);
        assert_eq!(kept[..9], [0, 1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!((kept.len(), kept.last()), (16, Some(&29)));
    }
}
