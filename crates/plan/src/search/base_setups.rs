//! The setups that the search combines with free tricks.

use std::sync::OnceLock;

use vramfit_eager::forward::Choice;

use super::by_role::Search;
use crate::effect::TrainingEffect;
use crate::max_batch::MaxBatch;
use crate::selective::CheckpointSubsets;
use crate::setup::Setup;
use crate::tricks::{Role, Trick};

/// A setup without free tricks.
pub struct BaseSetup {
    /// The settings.
    pub setup: Setup,
    /// Number of tricks it differs from the start in.
    pub changes: usize,
    /// Whether its peak live bytes exceed the capacity even with all free tricks. Computed on demand.
    pub cannot_fit: OnceLock<bool>,
}

/// Splits of the batch to try.
const SPLITS: usize = 16;
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
    pub fn of(search: &Search<'_, '_>) -> Checkpoints {
        if search.with_role(|role| role == Role::SavedTensors { by_module: true }).next().is_none() {
            return Checkpoints(Vec::new());
        }
        let mut bases = vec![search.start.clone()];
        bases.extend(precisions(search));
        let subsets = search.control.map(&bases, |base| CheckpointSubsets::of(search.bench, base, search.control));
        Checkpoints(bases.into_iter().zip(subsets.into_iter().map(Option::unwrap_or_default)).collect())
    }

    /// The start in one precision, with its own choice of saved tensors, with the cheapest subsets, and with what the
    /// tricks propose.
    fn choices(&self, search: &Search<'_, '_>, base: &Setup, count: usize) -> Vec<Setup> {
        let mut choices = vec![base.clone()];
        let subsets = self.0.iter().find(|(known, _)| known == base).map(|(_, subsets)| subsets.select(count));
        choices.extend(subsets.into_iter().flatten().map(|subset| {
            let mut setup = base.clone();
            setup.training.checkpoint = Choice::modules(subset.names);
            setup
        }));
        choices.extend(saved_tensors(search).flat_map(|trick| search.alternatives(trick, base)));
        let mut distinct: Vec<Setup> = Vec::with_capacity(choices.len());
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
    search: &Search<'_, '_>,
    effect: TrainingEffect,
    max_batch: Option<MaxBatch>,
    checkpoints: &Checkpoints,
) -> Vec<BaseSetup> {
    let start = search.start;
    let mut setups: Vec<Setup> = Vec::new();
    match effect {
        TrainingEffect::None => {
            let choices = checkpoints.choices(search, start, SUBSETS);
            let splits = splits(search, start, effect);
            setups.extend(with_choices(search, &splits, &choices));
        }
        TrainingEffect::Rounding => {
            for precise in precisions(search) {
                let choices = checkpoints.choices(search, &precise, FEW_SUBSETS);
                let splits = splits(search, &precise, effect);
                setups.extend(with_choices(search, &splits, &choices));
            }
        }
        TrainingEffect::Training => {
            let mut bases = vec![start.clone()];
            bases.extend(precisions(search).into_iter().next());
            for base in bases {
                let choices = checkpoints.choices(search, &base, FEW_SUBSETS);
                setups.extend(with_choices(search, &other_trainings(search, &base, max_batch), &choices));
                // Splits with a smaller effect belong to the other groups.
                let mut splits = splits(search, &base, effect);
                splits.retain(|setup| search_effect(search, setup) == effect);
                setups.extend(with_choices(search, &splits, &choices));
            }
        }
    }
    with_change_counts(search, setups)
}

/// A setup with its batch split in every way that has no larger effect.
fn splits(search: &Search<'_, '_>, setup: &Setup, effect: TrainingEffect) -> Vec<Setup> {
    let mut tricks = search.with_role(|role| role == Role::SplitsBatch);
    match tricks.all(|trick| trick.effect(search.bench, setup) <= effect) {
        true => thinned(search.combined(Role::SplitsBatch, setup), SPLITS),
        false => vec![setup.clone()],
    }
}

fn search_effect(search: &Search<'_, '_>, setup: &Setup) -> TrainingEffect {
    crate::tricks::effect(search.bench, search.tricks, search.start, setup)
}

/// For trainings that fewer changes do not make fit: every precision and all changes of the training combined.
pub fn last_resorts(search: &Search<'_, '_>, checkpoints: &Checkpoints) -> Vec<BaseSetup> {
    let mut setups: Vec<Setup> = Vec::new();
    for (base, casts_weights) in in_each_precision(search) {
        // Combinations of few changes have been tried, but not with other weights.
        let tried = if casts_weights { 0 } else { MAX_CHANGES };
        let choices = checkpoints.choices(search, &base, FEW_SUBSETS);
        for state in search.combined(Role::WeightState, &base) {
            let mut changed = search.combined(Role::BatchSize, &state);
            if let Some(smallest) = search.combined(Role::SampleSize, &state).split_off(1).pop() {
                changed.extend(search.combined(Role::BatchSize, &smallest));
            }
            changed.retain(|setup| search.changes(&base, setup) > tried);
            setups.extend(with_choices(search, &changed, &choices));
        }
    }
    with_change_counts(search, setups)
}

/// The setups that need least memory in each precision and with each state per weight: one sample of the smallest size,
/// with every choice of saved tensors.
pub fn corners(search: &Search<'_, '_>) -> Vec<Setup> {
    let mut setups = Vec::new();
    for (base, _) in in_each_precision(search) {
        for state in search.combined(Role::WeightState, &base) {
            let one = search.bench.with_batch(&state, 1).unwrap_or(state);
            let smallest = search.combined(Role::SampleSize, &one).pop().unwrap_or(one);
            let choices: Vec<Setup> =
                saved_tensors(search).flat_map(|trick| search.alternatives(trick, &smallest)).collect();
            setups.push(smallest);
            setups.extend(choices);
        }
    }
    setups
}

/// The start, and the first alternative of each precision, with whether it casts weights. Its other alternatives need as
/// much memory.
fn in_each_precision(search: &Search<'_, '_>) -> Vec<(Setup, bool)> {
    let mut setups = vec![(search.start.clone(), false)];
    for trick in search.tricks {
        if let Role::Precision { casts_weights } = trick.role() {
            let first = search.alternatives(*trick, search.start).into_iter().next();
            setups.extend(first.map(|setup| (setup, casts_weights)));
        }
    }
    setups
}

fn with_change_counts(search: &Search<'_, '_>, setups: Vec<Setup>) -> Vec<BaseSetup> {
    let base = |setup: Setup| {
        let changes = search.changes(search.start, &setup);
        BaseSetup { setup, changes, cannot_fit: OnceLock::new() }
    };
    setups.into_iter().map(base).collect()
}

/// The start in every other precision.
fn precisions(search: &Search<'_, '_>) -> Vec<Setup> {
    let tricks = search.with_role(|role| matches!(role, Role::Precision { .. }));
    tricks.flat_map(|trick| search.alternatives(trick, search.start)).collect()
}

/// The base with one or two changes of the training itself.
fn other_trainings(search: &Search<'_, '_>, base: &Setup, max_batch: Option<MaxBatch>) -> Vec<Setup> {
    let bench = search.bench;
    let mut setups = Vec::new();
    let mut smaller = search.combined(Role::BatchSize, base);
    // The largest batch that fits is the smallest change of the batch.
    if let Some(batch) = max_batch.map(|found| found.batch).filter(|&batch| batch > 0)
        && bench.batch_of(base).is_some_and(|given| batch < given)
    {
        smaller.extend(bench.with_batch(base, batch));
    }
    for state in search.combined(Role::WeightState, base) {
        for sizes in search.combined(Role::SampleSize, &state) {
            for batch in &smaller {
                let mut setup = sizes.clone();
                for trick in search.with_role(|role| role == Role::BatchSize) {
                    trick.adopt(bench, &mut setup, batch);
                }
                let is_supported = bench.batch_of(&setup) == bench.batch_of(batch);
                if is_supported && (1..=MAX_CHANGES).contains(&search.changes(base, &setup)) {
                    setups.push(setup);
                }
            }
        }
    }
    setups
}

fn saved_tensors(search: &Search<'_, '_>) -> impl Iterator<Item = &'static dyn Trick> {
    search.with_role(|role| matches!(role, Role::SavedTensors { .. }))
}

/// Each setup with each choice of saved tensors.
fn with_choices(search: &Search<'_, '_>, setups: &[Setup], choices: &[Setup]) -> Vec<Setup> {
    let tricks: Vec<&dyn Trick> = saved_tensors(search).collect();
    let with = |setup: &Setup, choice: &Setup| {
        let mut setup = setup.clone();
        tricks.iter().for_each(|trick| trick.adopt(search.bench, &mut setup, choice));
        setup
    };
    setups.iter().flat_map(|setup| choices.iter().map(move |choice| with(setup, choice))).collect()
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
