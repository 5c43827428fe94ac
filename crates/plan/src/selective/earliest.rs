//! Prefers early modules among equal ones: tensors saved early stay in memory longest, and a module that is checkpointed
//! late is recomputed at once.

use std::collections::HashMap;

use super::tree::ModuleTree;

/// Moves the choice among modules of one kind to the earliest of them, the largest part first.
pub(super) fn earliest(tree: &ModuleTree, kinds: &[usize], chosen: Vec<usize>) -> Vec<usize> {
    let mut moved = chosen;
    arrange(tree, kinds, &tree.roots, &mut moved);
    moved
}

fn arrange(tree: &ModuleTree, kinds: &[usize], siblings: &[usize], chosen: &mut Vec<usize>) {
    let mut groups: HashMap<usize, Vec<usize>> = HashMap::new();
    for &node in siblings {
        groups.entry(kinds[node]).or_default().push(node);
    }
    for group in groups.values().filter(|group| group.len() > 1) {
        // The chosen descendants of each module, as indices that are valid for every module of the kind.
        let mut patterns: Vec<Vec<usize>> = group
            .iter()
            .map(|&node| {
                let all = descendants(tree, node);
                all.iter().enumerate().filter(|(_, inner)| chosen.contains(inner)).map(|(index, _)| index).collect()
            })
            .collect();
        let size = |pattern: &Vec<usize>| -> usize {
            let all = descendants(tree, group[0]);
            pattern
                .iter()
                .filter_map(|&index| all.get(index))
                .map(|&node| tree.nodes[node].steps.1 - tree.nodes[node].steps.0 + 1)
                .sum()
        };
        patterns.sort_by_key(|pattern| std::cmp::Reverse(size(pattern)));
        for &node in group {
            let all = descendants(tree, node);
            chosen.retain(|inner| !all.contains(inner));
        }
        for (&node, pattern) in group.iter().zip(&patterns) {
            let all = descendants(tree, node);
            chosen.extend(pattern.iter().filter_map(|&index| all.get(index).copied()));
        }
    }
    let singles = groups.values().filter(|group| group.len() == 1);
    for group in singles {
        arrange(tree, kinds, &tree.nodes[group[0]].children, chosen);
    }
}

/// A module and its descendants, in the same order for modules of one kind.
fn descendants(tree: &ModuleTree, node: usize) -> Vec<usize> {
    let mut all = vec![node];
    for &child in &tree.nodes[node].children {
        all.extend(descendants(tree, child));
    }
    all
}
