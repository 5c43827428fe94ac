//! A recording with a few of its steps changed.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use vramfit_graph::model::{Model, Step, TensorId};

/// What a change of the script does to its recorded steps. Positions are indices of steps as recorded.
#[derive(Clone, Debug, Default)]
pub(super) struct Edit {
    /// Tensors that are dropped before a step, instead of where they were.
    pub(super) drops: Vec<(TensorId, usize)>,
    /// Steps that run without a graph.
    pub(super) without_graph: Vec<Range<usize>>,
    /// Steps that are done before another one.
    pub(super) moves: Vec<(usize, usize)>,
}

/// The recording with all of these edits.
pub(super) fn edited(model: &Model, edits: &[&Edit]) -> Model {
    let mut changed = model.clone();
    let Some(variant) = model.variants.first() else { return changed };
    let (section, tensors) = (variant.steps, variant.tensors);
    let mut before: BTreeMap<usize, Vec<Step>> = BTreeMap::new();
    let moved: BTreeSet<usize> = edits.iter().flat_map(|edit| &edit.moves).map(|(from, _)| *from).collect();
    let dropped: BTreeSet<TensorId> = edits.iter().flat_map(|edit| &edit.drops).map(|(id, _)| *id).collect();
    for (from, to) in edits.iter().flat_map(|edit| &edit.moves) {
        before.entry(*to).or_default().push(model.steps[section][*from].clone());
    }
    for (id, at) in edits.iter().flat_map(|edit| &edit.drops) {
        before.entry(*at).or_default().push(Step::Free(vec![*id]));
    }
    for range in edits.iter().flat_map(|edit| &edit.without_graph) {
        before.entry(range.end).or_default().insert(0, Step::Grad(true));
        before.entry(range.start).or_default().push(Step::Grad(false));
        for step in &model.steps[section][range.clone()] {
            let Step::Call(call) = step else { continue };
            for id in call.results.iter().flatten() {
                changed.tensors[tensors][id.0 as usize].requires_grad = false;
            }
        }
    }
    let recorded = std::mem::take(&mut changed.steps[section]);
    let mut steps = Vec::with_capacity(recorded.len() + before.len());
    for (at, step) in recorded.into_iter().enumerate() {
        steps.extend(before.remove(&at).into_iter().flatten());
        match step {
            _ if moved.contains(&at) => {}
            Step::Free(mut tensors) => {
                tensors.retain(|id| !dropped.contains(id));
                if !tensors.is_empty() {
                    steps.push(Step::Free(tensors));
                }
            }
            step => steps.push(step),
        }
    }
    steps.extend(before.into_values().flatten());
    changed.steps[section] = steps;
    changed
}
