//! Subsets of modules for growing savings, each the cheapest of its kind.

use std::collections::HashMap;

use vramfit_eager::forward::{Choice, block_names};
use vramfit_graph::bind::{Bound, BoundStep};

use super::tree::{ModuleTree, modules};
use crate::control::Control;
use crate::setup::Setup;
use crate::workbench::Workbench;

/// How many points are kept where subsets are combined.
const KEPT: usize = 64;

/// So few blocks that all their subsets are tried.
const FEW_BLOCKS: usize = 4;

/// A subset of modules.
#[derive(Clone, Debug, PartialEq)]
pub struct Member {
    /// Their names, in the order of their calls.
    pub names: Vec<String>,
    /// What they free by the end of the forward pass, each simulated alone.
    pub freed: u64,
    /// What they cost.
    pub seconds: f64,
}

/// What a module's call frees and costs.
#[derive(Clone, Copy, Debug)]
struct Worth {
    freed: u64,
    seconds: f64,
}

/// A choice among the modules of a part of the tree.
#[derive(Clone, Debug)]
struct Point {
    freed: u64,
    seconds: f64,
    nodes: Vec<usize>,
}

/// The subsets of a setup's modules.
#[derive(Debug, Default)]
pub struct Family {
    tree: ModuleTree,
    kinds: Vec<usize>,
    /// The best choices, by growing saving.
    points: Vec<Point>,
    /// The repeated blocks, in order.
    blocks: Vec<(String, Worth)>,
}

impl Family {
    /// Of a setup; empty where nothing may be checkpointed or something is already.
    pub fn of(bench: &Workbench<'_>, setup: &Setup, control: &Control) -> Family {
        let Some(bound) = bench.bind(setup).filter(|_| setup.training.checkpoint == Choice::Nothing) else {
            return Family::default();
        };
        let tree = modules(&bound);
        let kinds = kinds(&bound, &tree);
        let worths = worths(bench, setup, &tree, &kinds, control);
        let mut points = combine(&tree, &tree.roots, &worths);
        points.retain(|point| !point.nodes.is_empty());
        let block = |name: String| {
            let node = tree.nodes.iter().position(|node| node.path == name)?;
            Some((name, worths[node]?))
        };
        let blocks = block_names(&bound).into_iter().filter_map(block).collect();
        Family { tree, kinds, points, blocks }
    }

    /// Subsets by growing saving, each cheaper than any other that frees as much; about `count` of them.
    pub fn members(&self, count: usize) -> Vec<Member> {
        let Family { tree, kinds, points, blocks } = self;
        let chosen = thinned(points.clone(), count);
        let mut members: Vec<Member> = chosen
            .into_iter()
            .map(|point| {
                let mut nodes = earliest(tree, kinds, point.nodes);
                nodes.sort_by_key(|&node| tree.nodes[node].steps.0);
                let names = nodes.into_iter().map(|node| tree.nodes[node].path.clone()).collect();
                Member { names, freed: point.freed, seconds: point.seconds }
            })
            .collect();
        members.extend(some_blocks(blocks, count));
        members.sort_by(|one, other| one.freed.cmp(&other.freed).then(one.seconds.total_cmp(&other.seconds)));
        members.dedup_by(|one, other| one.names == other.names);
        members
    }
}

/// The first blocks, in about `count` numbers up to all there are; of few blocks all subsets. What is freed alone does
/// not tell what is freed together, and the first hold least when the backward pass begins. A plan with a few blocks more
/// than it needs loses them again when it is refined.
fn some_blocks(known: &[(String, Worth)], count: usize) -> Vec<Member> {
    let member = |chosen: Vec<&(String, Worth)>| Member {
        names: chosen.iter().map(|(name, _)| name.clone()).collect(),
        freed: chosen.iter().map(|(_, worth)| worth.freed).sum(),
        seconds: chosen.iter().map(|(_, worth)| worth.seconds).sum(),
    };
    if known.len() <= FEW_BLOCKS {
        let subset = |mask: u32| known.iter().enumerate().filter(move |(index, _)| mask >> index & 1 == 1);
        return (1..1 << known.len()).map(|mask| member(subset(mask).map(|(_, block)| block).collect())).collect();
    }
    let numbers = count.min(known.len());
    (1..=numbers).map(|step| member(known[..step * known.len() / numbers].iter().collect())).collect()
}

/// Calls of one kind have the same number: same class, same operators on the same shapes.
fn kinds(bound: &Bound<'_>, tree: &ModuleTree) -> Vec<usize> {
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

/// The kinds of a pass's modules by their paths.
pub fn kinds_by_path(bound: &Bound<'_>) -> HashMap<String, usize> {
    let tree = modules(bound);
    let kinds = kinds(bound, &tree);
    tree.nodes.into_iter().map(|node| node.path).zip(kinds).collect()
}

/// What each kind frees and costs: one of it is simulated, the middle one.
fn worths(
    bench: &Workbench<'_>,
    setup: &Setup,
    tree: &ModuleTree,
    kinds: &[usize],
    control: &Control,
) -> Vec<Option<Worth>> {
    let (Some(before), Some(seconds)) = (bench.held_after_forward(setup, control), bench.seconds(setup)) else {
        return vec![None; tree.nodes.len()];
    };
    let mut members: HashMap<usize, Vec<usize>> = HashMap::new();
    for (node, kind) in kinds.iter().enumerate().filter(|(node, _)| tree.nodes[*node].may) {
        members.entry(*kind).or_default().push(node);
    }
    let mut examples: Vec<(usize, usize)> =
        members.iter().map(|(kind, nodes)| (*kind, nodes[nodes.len() / 2])).collect();
    examples.sort_unstable();
    let found = control.map(&examples, |&(_, node)| {
        let mut setup = setup.clone();
        setup.training.checkpoint = Choice::modules(vec![tree.nodes[node].path.clone()]);
        let freed = before.saturating_sub(bench.held_after_forward(&setup, control)?);
        let seconds = (bench.seconds(&setup)? - seconds).max(1e-9);
        (freed > 0).then_some(Worth { freed, seconds })
    });
    let by_kind: HashMap<usize, Worth> =
        examples.iter().zip(found).filter_map(|((kind, _), worth)| Some((*kind, worth.flatten()?))).collect();
    let worth = |node: usize| by_kind.get(&kinds[node]).copied().filter(|_| tree.nodes[node].may);
    (0..tree.nodes.len()).map(worth).collect()
}

/// The best choices among these calls and what is in them, by growing saving.
fn combine(tree: &ModuleTree, nodes: &[usize], worths: &[Option<Worth>]) -> Vec<Point> {
    let mut points = vec![Point { freed: 0, seconds: 0.0, nodes: Vec::new() }];
    for &node in nodes {
        let mut choices = combine(tree, &tree.nodes[node].children, worths);
        if let Some(worth) = worths[node] {
            choices.push(Point { freed: worth.freed, seconds: worth.seconds, nodes: vec![node] });
            choices = best(choices);
        }
        if choices.len() == 1 {
            continue;
        }
        let mut sums = Vec::with_capacity(points.len() * choices.len());
        for point in &points {
            for choice in &choices {
                let nodes = point.nodes.iter().chain(&choice.nodes).copied().collect();
                sums.push(Point { freed: point.freed + choice.freed, seconds: point.seconds + choice.seconds, nodes });
            }
        }
        points = thinned(best(sums), KEPT);
    }
    points
}

/// Those that no other beats in both: by growing saving, and growing cost.
fn best(mut points: Vec<Point>) -> Vec<Point> {
    points.sort_by(|one, other| other.freed.cmp(&one.freed).then(one.seconds.total_cmp(&other.seconds)));
    let mut cheapest = f64::INFINITY;
    points.retain(|point| {
        let is_better = point.seconds < cheapest;
        cheapest = cheapest.min(point.seconds);
        is_better
    });
    points.reverse();
    points
}

/// At most `count` of them, spread over the savings; the first and the last stay.
fn thinned(points: Vec<Point>, count: usize) -> Vec<Point> {
    if points.len() <= count {
        return points;
    }
    let most = points.last().map_or(0, |point| point.freed);
    let mut next = 0;
    let last = points.len() - 1;
    points
        .into_iter()
        .enumerate()
        .filter(|(index, point)| {
            let is_kept = *index == 0 || *index == last || point.freed >= most / count as u64 * next;
            if is_kept {
                next = point.freed / (most / count as u64).max(1) + 1;
            }
            is_kept
        })
        .map(|(_, point)| point)
        .collect()
}

/// The same choice with the largest savings in the earliest of equal modules: what is saved early lies there longest, and
/// the last to be checkpointed is run again at once.
fn earliest(tree: &ModuleTree, kinds: &[usize], chosen: Vec<usize>) -> Vec<usize> {
    let mut result = chosen;
    arrange(tree, kinds, &tree.roots, &mut result);
    result
}

fn arrange(tree: &ModuleTree, kinds: &[usize], siblings: &[usize], chosen: &mut Vec<usize>) {
    let mut groups: HashMap<usize, Vec<usize>> = HashMap::new();
    for &node in siblings {
        groups.entry(kinds[node]).or_default().push(node);
    }
    for group in groups.values().filter(|group| group.len() > 1) {
        // Each member's choice by place within it, so that it can be moved to another member.
        let mut patterns: Vec<Vec<usize>> = group
            .iter()
            .map(|&node| {
                let all = descendants(tree, node);
                all.iter().enumerate().filter(|(_, inner)| chosen.contains(inner)).map(|(place, _)| place).collect()
            })
            .collect();
        let weight = |pattern: &Vec<usize>| -> usize {
            let all = descendants(tree, group[0]);
            pattern
                .iter()
                .filter_map(|&place| all.get(place))
                .map(|&node| tree.nodes[node].steps.1 - tree.nodes[node].steps.0 + 1)
                .sum()
        };
        patterns.sort_by_key(|pattern| std::cmp::Reverse(weight(pattern)));
        for &node in group {
            let all = descendants(tree, node);
            chosen.retain(|inner| !all.contains(inner));
        }
        for (&node, pattern) in group.iter().zip(&patterns) {
            let all = descendants(tree, node);
            chosen.extend(pattern.iter().filter_map(|&place| all.get(place).copied()));
        }
    }
    let singles = groups.values().filter(|group| group.len() == 1);
    for group in singles {
        arrange(tree, kinds, &tree.nodes[group[0]].children, chosen);
    }
}

/// A call and all within it, in the same order for calls of one kind.
fn descendants(tree: &ModuleTree, node: usize) -> Vec<usize> {
    let mut all = vec![node];
    for &child in &tree.nodes[node].children {
        all.extend(descendants(tree, child));
    }
    all
}
