//! Gradients that are set to `None` long after their last use.

use std::collections::BTreeMap;

use vramfit_eager::operators::ScriptCall;
use vramfit_graph::model::{Argument, Call, TensorId};

use super::edit::Edit;
use super::lifetimes::Recorded;
use super::lines::Line;

/// A statement that sets gradients to `None`, and the one after which it could be done.
pub(super) struct LateZeroGrad {
    pub(super) line: Line,
    pub(super) last_line: Line,
    pub(super) edit: Edit,
}

/// Every statement that sets gradients to `None` later than it could.
pub(super) fn late_zero_grads(recorded: &Recorded<'_>) -> Vec<LateZeroGrad> {
    let mut gradients: BTreeMap<TensorId, Held> = BTreeMap::new();
    let mut of_line: BTreeMap<Line, LateZeroGrad> = BTreeMap::new();
    let mut execution: Vec<(usize, Held)> = Vec::new();
    let mut executed: Option<u32> = None;
    for at in 0..recorded.steps.len() {
        let Some(call) = recorded.call(at) else { continue };
        let what = recorded.script_call(call);
        let leaf = call.arguments.first().and_then(tensor);
        let is_cleared = what == Some(ScriptCall::SetGradient) && call.arguments.get(1).and_then(tensor).is_none();
        if executed != call.source || !is_cleared {
            add(recorded, &mut of_line, executed.take(), &std::mem::take(&mut execution));
        }
        match (what, leaf) {
            (Some(ScriptCall::SetGradient), Some(leaf)) if is_cleared => {
                executed = call.source;
                execution.extend(gradients.remove(&leaf).map(|gradient| (at, gradient)));
            }
            (Some(ScriptCall::SetGradient), Some(leaf)) => {
                gradients.remove(&leaf);
            }
            (Some(ScriptCall::Backward), _) => reach(&mut gradients, call, at),
            _ => {}
        }
    }
    of_line.into_values().collect()
}

/// The gradient of a leaf.
#[derive(Clone, Copy)]
struct Held {
    gradient: TensorId,
    /// The last backward pass that added to it.
    reached: usize,
}

/// A backward pass makes gradients, and adds to those that there are.
fn reach(gradients: &mut BTreeMap<TensorId, Held>, call: &Call, at: usize) {
    let Some(Argument::List(leaves)) = call.arguments.get(2) else { return };
    for (leaf, result) in leaves.iter().zip(&call.results) {
        let Some(leaf) = tensor(leaf) else { continue };
        match (gradients.get_mut(&leaf), result) {
            (Some(held), None) => held.reached = at,
            (_, Some(gradient)) => {
                gradients.insert(leaf, Held { gradient: *gradient, reached: at });
            }
            (None, None) => {}
        }
    }
}

/// One `zero_grad()`: all of its gradients must be done with.
fn add(
    recorded: &Recorded<'_>,
    of_line: &mut BTreeMap<Line, LateZeroGrad>,
    row: Option<u32>,
    cleared: &[(usize, Held)],
) {
    let (Some(row), Some((first, _))) = (row, cleared.first()) else { return };
    let statement = recorded.lines.statement(row);
    let frame = recorded.lines.frame(statement);
    let used = |held: &Held| recorded.lifetimes[held.gradient.0 as usize].last_use.max(held.reached);
    let Some(last_use) = cleared.iter().map(|(_, held)| used(held)).max() else { return };
    let Some(to) = recorded.after_statement(last_use, frame).filter(|to| to < first) else { return };
    let is_earlier = (to..*first).any(|at| recorded.call(at).is_some_and(|call| recorded.script_call(call).is_none()));
    let row_before = (0..=last_use).rev().find_map(|at| recorded.call(at)?.source);
    let last_line = row_before.and_then(|row| recorded.lines.within(frame, row));
    let (true, Some(last_line)) = (is_earlier, last_line) else { return };
    let line = recorded.lines.line(statement);
    let late = of_line.entry(line.clone()).or_insert_with(|| LateZeroGrad { line, last_line, edit: Edit::default() });
    for (from, held) in cleared {
        late.edit.moves.push((*from, to));
        if recorded.lifetimes[held.gradient.0 as usize].dropped.is_some() {
            late.edit.drops.push((held.gradient, to));
        }
    }
}

fn tensor(argument: &Argument) -> Option<TensorId> {
    match argument {
        Argument::Tensor(id) => Some(*id),
        _ => None,
    }
}
