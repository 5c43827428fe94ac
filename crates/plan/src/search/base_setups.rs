//! The setups that the search combines with free tricks.

use std::sync::OnceLock;

use vramfit_eager::forward::Choice;

use super::by_role::Search;
use crate::risk::Risk;
use crate::selective::CheckpointSubsets;
use crate::setup::Setup;
use crate::tricks::{Role, Trick};

/// A setup without free tricks.
pub struct BaseSetup {
    /// The settings.
    pub setup: Setup,
    /// Number of tricks it differs from the start in.
    pub changes: usize,
    /// Setups of a lower rank are tried first, whatever they cost.
    pub rank: u64,
    /// Whether its peak live bytes exceed the capacity even with all free tricks. Computed on demand.
    pub cannot_fit: OnceLock<bool>,
}

/// Splits of the batch to try.
const SPLITS: usize = 16;
/// The same if many other settings are combined with them.
const FEW_SPLITS: usize = 6;
/// Ranks between the start's size and nothing.
const SIZE_RANKS: f64 = 1000.0;
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
        bases.extend(precisions(search, false));
        bases.extend(precisions(search, true));
        let subsets = search.control.map(&bases, |base| CheckpointSubsets::of(search.bench, base, search.control));
        Checkpoints(bases.into_iter().zip(subsets.into_iter().map(Option::unwrap_or_default)).collect())
    }

    /// The start in one precision, with its own choice of saved tensors, with the cheapest subsets, and with what the
    /// tricks propose.
    pub fn choices(&self, search: &Search<'_, '_>, base: &Setup, count: usize) -> Vec<Setup> {
        let mut choices = vec![base.clone()];
        let subsets = self.0.iter().find(|(known, _)| known == base).map(|(_, subsets)| subsets.select(count));
        choices.extend(subsets.into_iter().flatten().map(|subset| {
            let mut setup = base.clone();
            setup.training.checkpoint = Choice::modules(subset.names);
            setup
        }));
        choices.extend(proposed(search, base));
        let mut distinct: Vec<Setup> = Vec::with_capacity(choices.len());
        for choice in choices {
            if !distinct.contains(&choice) {
                distinct.push(choice);
            }
        }
        distinct
    }
}

/// The base setups of plans with a risk. Those of a later tier change more and are only tried if no earlier tier has a plan;
/// `None` if there is no such tier.
pub fn base_setups(
    search: &Search<'_, '_>,
    risk: Risk,
    tier: usize,
    checkpoints: &Checkpoints,
) -> Option<Vec<BaseSetup>> {
    let start = search.start;
    let of_each = |bases: Vec<Setup>, subsets: usize| -> Vec<(u64, Setup)> {
        let split = |base: &Setup| {
            let choices = checkpoints.choices(search, base, subsets);
            with_choices(search, &splits(search, base, risk), &choices)
        };
        bases.iter().flat_map(split).map(|setup| (0, setup)).collect()
    };
    let setups = match (risk, tier) {
        (Risk::None, 0) => of_each(vec![start.clone()], SUBSETS),
        (Risk::MixedPrecision, 0) => of_each(precisions(search, false), FEW_SUBSETS),
        (Risk::WeightState, 0) => other_states(search, start, risk, checkpoints),
        (Risk::WeightState, 1) => {
            first_of(precisions(search, false), |base| other_states(search, base, risk, checkpoints))
        }
        (Risk::SmallerDtype, 0) => of_each(precisions(search, true), FEW_SUBSETS),
        (Risk::SmallerDtype, 1) => {
            first_of(precisions(search, true), |base| other_states(search, base, risk, checkpoints))
        }
        (Risk::SmallerTraining, 0) => smaller_trainings(search, start, checkpoints),
        (Risk::SmallerTraining, 1) => {
            first_of(precisions(search, false), |base| smaller_trainings(search, base, checkpoints))
        }
        (Risk::SmallerTraining, 2) => last_resorts(search, checkpoints),
        _ => return None,
    };
    Some(with_change_counts(search, setups))
}

/// What `setups` gives for the first base. Other element types of the same width need as much memory.
fn first_of(bases: Vec<Setup>, setups: impl Fn(&Setup) -> Vec<(u64, Setup)>) -> Vec<(u64, Setup)> {
    bases.first().map(setups).unwrap_or_default()
}

/// The base with other states per weight, ranked in the tricks' order: the closest to the base first.
fn other_states(search: &Search<'_, '_>, base: &Setup, risk: Risk, checkpoints: &Checkpoints) -> Vec<(u64, Setup)> {
    let choices = checkpoints.choices(search, base, FEW_SUBSETS);
    let mut setups = Vec::new();
    for (rank, state) in search.combined(Role::WeightState, base).into_iter().enumerate().skip(1) {
        let split = with_choices(search, &thinned(splits(search, &state, risk), FEW_SPLITS), &choices);
        setups.extend(split.into_iter().map(|setup| (rank as u64, setup)));
    }
    setups
}

/// The base with smaller samples or fewer of them, the smallest change first.
fn smaller_trainings(search: &Search<'_, '_>, base: &Setup, checkpoints: &Checkpoints) -> Vec<(u64, Setup)> {
    let choices = checkpoints.choices(search, base, FEW_SUBSETS);
    let mut changed = Vec::new();
    for sizes in search.combined(Role::SampleSize, base) {
        changed.extend(thinned(splits(search, &sizes, Risk::SmallerTraining), FEW_SPLITS));
        changed.extend(search.combined(Role::BatchSize, &sizes).split_off(1));
    }
    changed.retain(|setup| search.risk(setup) == Risk::SmallerTraining);
    by_size(search, with_choices(search, &changed, &choices))
}

/// For trainings that fewer changes do not make fit: every precision and all changes of the training combined.
fn last_resorts(search: &Search<'_, '_>, checkpoints: &Checkpoints) -> Vec<(u64, Setup)> {
    let mut setups: Vec<Setup> = Vec::new();
    for (base, casts_weights) in in_each_precision(search) {
        let choices = checkpoints.choices(search, &base, FEW_SUBSETS);
        // The base's own state per weight has been tried, but not with other weights.
        for state in search.combined(Role::WeightState, &base).split_off(usize::from(!casts_weights)) {
            let mut changed = search.combined(Role::BatchSize, &state).split_off(1);
            if let Some(smallest) = search.combined(Role::SampleSize, &state).split_off(1).pop() {
                changed.extend(search.combined(Role::BatchSize, &smallest));
            }
            setups.extend(with_choices(search, &changed, &choices));
        }
    }
    by_size(search, setups)
}

/// Ranks setups by how much less than the start they train on in a step.
fn by_size(search: &Search<'_, '_>, setups: Vec<Setup>) -> Vec<(u64, Setup)> {
    let of_start = search.bench.elements(search.start);
    let rank = |setup: &Setup| ((1.0 - search.bench.elements(setup) / of_start) * SIZE_RANKS).round() as u64;
    setups.into_iter().map(|setup| (rank(&setup), setup)).collect()
}

/// A setup with its batch split in every way that has no larger risk.
pub fn splits(search: &Search<'_, '_>, setup: &Setup, risk: Risk) -> Vec<Setup> {
    let is_allowed =
        search.with_role(|role| role == Role::SplitsBatch).all(|trick| trick.risk(search.bench, setup) <= risk);
    if is_allowed { thinned(search.combined(Role::SplitsBatch, setup), SPLITS) } else { vec![setup.clone()] }
}

/// The setups that need least memory in each precision and with each state per weight: one sample of the smallest size,
/// with every choice of saved tensors.
pub fn corners(search: &Search<'_, '_>) -> Vec<Setup> {
    let mut setups = Vec::new();
    for (base, _) in in_each_precision(search) {
        for state in search.combined(Role::WeightState, &base) {
            let one = search.bench.with_batch(&state, 1).unwrap_or(state);
            let smallest = search.combined(Role::SampleSize, &one).pop().unwrap_or(one);
            let choices = proposed(search, &smallest);
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
    for trick in search.with_role(|role| matches!(role, Role::Precision { .. })) {
        if let Role::Precision { casts_weights } = trick.role() {
            let first = search.alternatives(trick, search.start).into_iter().next();
            setups.extend(first.map(|setup| (setup, casts_weights)));
        }
    }
    setups
}

/// Base setups of ranked setups.
pub fn with_change_counts(search: &Search<'_, '_>, setups: Vec<(u64, Setup)>) -> Vec<BaseSetup> {
    let base = |(rank, setup): (u64, Setup)| {
        let changes = search.changes(search.start, &setup);
        BaseSetup { setup, changes, rank, cannot_fit: OnceLock::new() }
    };
    setups.into_iter().map(base).collect()
}

/// The start in every other precision that casts the weights, or does not.
fn precisions(search: &Search<'_, '_>, casts_weights: bool) -> Vec<Setup> {
    let tricks = search.with_role(|role| role == Role::Precision { casts_weights });
    tricks.flat_map(|trick| search.alternatives(trick, search.start)).collect()
}

fn saved_tensors(search: &Search<'_, '_>) -> impl Iterator<Item = &'static dyn Trick> {
    search.with_role(|role| matches!(role, Role::SavedTensors { .. }))
}

/// What the tricks propose for saved tensors: checkpointed modules, and each other trick on the base and on all of these
/// modules, in every combination.
fn proposed(search: &Search<'_, '_>, base: &Setup) -> Vec<Setup> {
    let is_by_module = |trick: &&dyn Trick| trick.role() == Role::SavedTensors { by_module: true };
    let (by_module, others): (Vec<_>, Vec<_>) = saved_tensors(search).partition(is_by_module);
    let mut modules: Vec<Setup> = by_module.iter().flat_map(|trick| search.alternatives(*trick, base)).collect();
    let mut combined = vec![base.clone()];
    combined.extend(modules.first().cloned());
    for trick in others {
        let more: Vec<Setup> = combined.iter().flat_map(|setup| search.alternatives(trick, setup)).collect();
        for setup in more {
            if !combined.contains(&setup) {
                combined.push(setup);
            }
        }
    }
    modules.extend(combined.into_iter().skip(1));
    modules
}

/// Each setup with each choice of saved tensors.
pub fn with_choices(search: &Search<'_, '_>, setups: &[Setup], choices: &[Setup]) -> Vec<Setup> {
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
