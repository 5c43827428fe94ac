//! The setups that the search combines with free tricks.

use std::sync::OnceLock;

use vramfit_eager::forward::Choice;

use crate::control::Control;
use crate::effect::TrainingEffect;
use crate::max_batch::MaxBatch;
use crate::selective::CheckpointSubsets;
use crate::setup::Setup;
use crate::tricks::{
    Accumulation, Checkpointing, MixedPrecision, OtherOptimizer, SmallerBatch, SmallerDtype, SmallerSizes, Trick,
    differences,
};
use crate::workbench::Workbench;

/// A setup without free tricks.
pub struct BaseSetup {
    /// The settings.
    pub setup: Setup,
    /// Number of tricks it differs from the start in.
    pub changes: usize,
    /// Whether its peak live bytes exceed the capacity even with all free tricks. Computed on demand.
    pub cannot_fit: OnceLock<bool>,
}

/// Numbers of micro-batches to try.
const MICRO_BATCHES: usize = 16;
/// Changes of the training to combine, before the last resorts.
const MAX_CHANGES: usize = 2;
/// Subsets of checkpointed modules to try.
const SUBSETS: usize = 24;
/// The same if many other settings are combined with them.
const FEW_SUBSETS: usize = 6;

/// The subsets of modules to checkpoint, for each precision that is tried.
pub struct Checkpoints(Vec<(Setup, CheckpointSubsets)>);

impl Checkpoints {
    /// Computes the subsets for the start in each precision.
    pub fn of(bench: &Workbench<'_>, start: &Setup, control: &Control) -> Checkpoints {
        let mut bases = vec![start.clone()];
        bases.extend(precisions(bench, start));
        let subsets = control.map(&bases, |base| CheckpointSubsets::of(bench, base, control));
        Checkpoints(bases.into_iter().zip(subsets.into_iter().map(Option::unwrap_or_default)).collect())
    }

    /// For the start in one precision: its own choice, the cheapest subsets, every block, every second block and so on.
    fn choices(&self, bench: &Workbench<'_>, base: &Setup, count: usize) -> Vec<Choice> {
        let mut choices = vec![base.training.checkpoint.clone()];
        let subsets = self.0.iter().find(|(known, _)| known == base).map(|(_, subsets)| subsets.select(count));
        choices.extend(subsets.into_iter().flatten().map(|subset| Choice::modules(subset.names)));
        choices
            .extend(with(bench, &Checkpointing, base).split_off(1).into_iter().map(|setup| setup.training.checkpoint));
        let mut distinct: Vec<Choice> = Vec::with_capacity(choices.len());
        for choice in choices {
            if !distinct.contains(&choice) {
                distinct.push(choice);
            }
        }
        distinct
    }
}

/// The base setups of plans with an effect.
pub fn base_setups(
    bench: &Workbench<'_>,
    start: &Setup,
    effect: TrainingEffect,
    max_batch: Option<MaxBatch>,
    checkpoints: &Checkpoints,
) -> Vec<BaseSetup> {
    let mut setups: Vec<Setup> = Vec::new();
    match effect {
        TrainingEffect::None => {
            let checkpoints = checkpoints.choices(bench, start, SUBSETS);
            for micro in thinned(with(bench, &Accumulation, start), MICRO_BATCHES) {
                setups.extend(checkpoints.iter().map(|choice| checkpointed(&micro, choice)));
            }
        }
        TrainingEffect::Rounding => {
            for precise in precisions(bench, start) {
                let checkpoints = checkpoints.choices(bench, &precise, FEW_SUBSETS);
                for micro in thinned(with(bench, &Accumulation, &precise), MICRO_BATCHES) {
                    setups.extend(checkpoints.iter().map(|choice| checkpointed(&micro, choice)));
                }
            }
        }
        TrainingEffect::Training => {
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
    with_change_counts(bench, start, setups)
}

/// For trainings that fewer changes do not make fit: a smaller type for the whole model, other optimizers, smaller
/// batches and sizes, all combined.
pub fn last_resorts(bench: &Workbench<'_>, start: &Setup, checkpoints: &Checkpoints) -> Vec<BaseSetup> {
    let mut setups: Vec<Setup> = Vec::new();
    for base in in_each_precision(bench, start) {
        // In the start's precision and with autocast, combinations of few changes have been tried.
        let tried = if base.variant.dtype == start.variant.dtype { MAX_CHANGES } else { 0 };
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
    with_change_counts(bench, start, setups)
}

/// The setups that need least memory in each precision and with each optimizer: one sample of the smallest size, with
/// every checkpointing choice.
pub fn corners(bench: &Workbench<'_>, start: &Setup) -> Vec<Setup> {
    let mut setups = Vec::new();
    for base in in_each_precision(bench, start) {
        for optimizer in with(bench, &OtherOptimizer, &base) {
            let one = bench.with_batch(&optimizer, 1).unwrap_or(optimizer);
            let smallest = with(bench, &SmallerSizes, &one).pop().unwrap_or(one);
            setups.extend(with(bench, &Checkpointing, &smallest));
        }
    }
    setups
}

/// The start, the first mixed precision and the first smaller type; the others need as much memory.
fn in_each_precision(bench: &Workbench<'_>, start: &Setup) -> Vec<Setup> {
    let first = |trick: &dyn Trick| with(bench, trick, start).into_iter().nth(1);
    [Some(start.clone()), first(&MixedPrecision), first(&SmallerDtype)].into_iter().flatten().collect()
}

fn with_change_counts(bench: &Workbench<'_>, start: &Setup, setups: Vec<Setup>) -> Vec<BaseSetup> {
    let base = |setup: Setup| {
        let changes = differences(bench, start, &setup).len();
        BaseSetup { setup, changes, cannot_fit: OnceLock::new() }
    };
    setups.into_iter().map(base).collect()
}

/// The start, then the trick's alternatives if it applies.
fn with(bench: &Workbench<'_>, trick: &dyn Trick, start: &Setup) -> Vec<Setup> {
    let mut setups = vec![start.clone()];
    setups.extend(trick.alternatives(bench, start).unwrap_or_default());
    setups
}

/// The start in every other precision.
fn precisions(bench: &Workbench<'_>, start: &Setup) -> Vec<Setup> {
    let mut setups = with(bench, &MixedPrecision, start).split_off(1);
    setups.extend(with(bench, &SmallerDtype, start).split_off(1));
    setups
}

/// The base with one or two changes of the training itself.
fn other_trainings(bench: &Workbench<'_>, base: &Setup, max_batch: Option<MaxBatch>) -> Vec<Setup> {
    let mut setups = Vec::new();
    let mut smaller = with(bench, &SmallerBatch, base);
    // The largest batch that fits is the smallest change of the batch.
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
                if (1..=MAX_CHANGES).contains(&count) {
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

/// At most `count` setups: the first half of them, then an even selection of the rest, because the first ones
/// differ most from each other.
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
    fn thinning_keeps_the_first_half_the_next_and_the_last() {
        assert_eq!(thinned((0..16).collect(), 16).len(), 16);
        let kept: Vec<usize> = thinned((0..30).collect(), 16);
        assert_eq!(kept[..9], [0, 1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!((kept.len(), kept.last()), (16, Some(&29)));
    }
}
