//! Graphs that no backward pass runs through.

use std::collections::{BTreeMap, BTreeSet};

use vramfit_eager::operators::{ScriptCall, facts};
use vramfit_graph::model::{Call, Step, TensorId};

use super::edit::Edit;
use super::lifetimes::Recorded;
use super::lines::Line;

/// The statements that build a graph each time, of which no backward pass uses anything.
pub(super) fn unused_graphs(recorded: &Recorded<'_>) -> Option<(Vec<Line>, Edit)> {
    let used = used_calls(recorded);
    // What comes after the last backward pass may be for one that was not recorded.
    let last =
        (0..recorded.steps.len()).rev().find(|at| recorded.call(*at).is_some_and(|it| is_backward(recorded, it)))?;
    let mut is_unused: BTreeMap<u32, bool> = BTreeMap::new();
    for at in 0..last {
        if let Some((statement, has_graph)) = statement_at(recorded, at) {
            let unused = is_unused.entry(statement).or_insert(false);
            *unused |= has_graph;
        }
    }
    for at in used.iter().filter(|at| **at < last) {
        if let Some((statement, _)) = statement_at(recorded, *at) {
            is_unused.insert(statement, false);
        }
    }
    let statements: BTreeSet<u32> =
        is_unused.into_iter().filter(|(_, unused)| *unused).map(|(statement, _)| statement).collect();
    let mut edit = Edit::default();
    let mut open: Option<(u32, std::ops::Range<usize>)> = None;
    for at in 0..last {
        let Some((statement, _)) = statement_at(recorded, at) else { continue };
        // A range begins and ends with grad on.
        if !recorded.is_grad_on(at) {
            edit.without_graph.extend(open.take().map(|(_, range)| range));
            continue;
        }
        match &mut open {
            Some((of, range)) if *of == statement => range.end = at + 1,
            _ => {
                edit.without_graph.extend(open.take().map(|(_, range)| range));
                open = statements.contains(&statement).then_some((statement, at..at + 1));
            }
        }
    }
    edit.without_graph.extend(open.map(|(_, range)| range));
    let lines: BTreeSet<Line> = statements.into_iter().map(|statement| recorded.lines.line(statement)).collect();
    (!lines.is_empty()).then(|| (lines.into_iter().collect(), edit))
}

/// The statement of a call, and whether the call adds to a graph.
fn statement_at(recorded: &Recorded<'_>, at: usize) -> Option<(u32, bool)> {
    let call = recorded.call(at)?;
    let row = call.source?;
    let has_graph = recorded.is_grad_on(at)
        && recorded.script_call(call).is_none()
        && !recorded.lines.is_of_library(row)
        && call.results.iter().flatten().any(|id| has_graph(recorded, *id));
    Some((recorded.lines.statement(row), has_graph))
}

fn has_graph(recorded: &Recorded<'_>, id: TensorId) -> bool {
    let tensor = &recorded.tensors[id.0 as usize];
    tensor.requires_grad && !tensor.is_leaf && !tensor.is_on_host
}

fn is_backward(recorded: &Recorded<'_>, call: &Call) -> bool {
    matches!(recorded.script_call(call), Some(ScriptCall::Backward | ScriptCall::Gradients))
}

/// The calls that a backward pass leads through: from its roots backwards.
fn used_calls(recorded: &Recorded<'_>) -> BTreeSet<usize> {
    let mut used: BTreeSet<TensorId> = BTreeSet::new();
    let mut storages: BTreeSet<u32> = BTreeSet::new();
    let mut calls = BTreeSet::new();
    let mut is_in_used_function = false;
    for (at, step) in recorded.steps.iter().enumerate().rev() {
        let is_used = match step {
            Step::Call(call) => {
                let first = call.arguments.first();
                let writes = facts(recorded.model.operators[call.operator as usize].id).effect.is_in_place();
                let mut is_written = false;
                if writes {
                    // Another view of the same memory may be what is used.
                    let storage = |id: TensorId| recorded.tensors[id.0 as usize].storage;
                    first
                        .into_iter()
                        .for_each(|it| it.each_tensor(&mut |id| is_written |= storages.contains(&storage(id))));
                }
                let has_used_result =
                    call.results.iter().flatten().any(|id| used.contains(id) && has_graph(recorded, *id));
                is_backward(recorded, call) || is_written || has_used_result
            }
            Step::EndFunction { results, .. } | Step::EndCheckpoint(results) => {
                is_in_used_function = results.iter().any(|id| used.contains(id));
                false
            }
            Step::Function { .. } | Step::Checkpoint { .. } => std::mem::take(&mut is_in_used_function),
            _ => false,
        };
        if is_used || (is_in_used_function && matches!(step, Step::Call(_))) {
            calls.insert(at);
            step.each_tensor(&mut |id| {
                used.insert(id);
                storages.insert(recorded.tensors[id.0 as usize].storage);
            });
        }
    }
    calls
}
