//! Kinds of modules: two modules are of one kind if they have the same class and call the same operators with results of
//! the same sizes.

use std::collections::HashMap;

use vramfit_graph::bind::{Bound, BoundStep};

use super::tree::{ModuleTree, modules};

/// The kind of each module as a number.
pub(super) fn kinds(bound: &Bound<'_>, tree: &ModuleTree) -> Vec<usize> {
    let mut known: HashMap<(String, Vec<(u32, u64)>), usize> = HashMap::new();
    tree.nodes
        .iter()
        .map(|node| {
            let calls = bound.steps[node.steps.0..=node.steps.1].iter().filter_map(|step| match step {
                BoundStep::Call(call) => {
                    Some((call.operator, call.results.iter().flatten().map(|&id| bound.tensor(id).bytes).sum()))
                }
                _ => None,
            });
            let number = known.len();
            *known.entry((node.class.clone(), calls.collect())).or_insert(number)
        })
        .collect()
}

/// The kind of each module by its path.
pub(super) fn kinds_by_path(bound: &Bound<'_>) -> HashMap<String, usize> {
    let tree = modules(bound);
    let kinds = kinds(bound, &tree);
    tree.nodes.into_iter().map(|node| node.path).zip(kinds).collect()
}
