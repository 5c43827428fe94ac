//! Modules that are called with a list to which their own result is added afterwards, as the layers of a dense block are: by the
//! time of a recomputation, the list holds more than it did.

use std::collections::{HashMap, HashSet};

use vramfit_graph::bind::{Bound, BoundStep};
use vramfit_graph::model::TensorId;

/// A module call: the index of its first step, and its arguments.
type CallStart<'a> = (usize, &'a [TensorId]);

/// The first steps of such calls.
pub(super) fn growing_lists(bound: &Bound<'_>) -> HashSet<usize> {
    let mut open: Vec<CallStart<'_>> = Vec::new();
    let mut by_result: HashMap<TensorId, Vec<CallStart<'_>>> = HashMap::new();
    let mut found = HashSet::new();
    for (index, step) in bound.steps.iter().enumerate() {
        match step {
            BoundStep::Enter(_, arguments) => {
                for (at, argument) in arguments.iter().enumerate().skip(1) {
                    let earlier = by_result.get(argument).into_iter().flatten();
                    found.extend(earlier.filter(|(_, given)| **given == arguments[..at]).map(|(first, _)| *first));
                }
                open.push((index, arguments));
            }
            BoundStep::Exit(_, results) => {
                let Some(call) = open.pop() else { continue };
                results.iter().for_each(|result| by_result.entry(*result).or_default().push(call));
            }
            _ => {}
        }
    }
    found
}
