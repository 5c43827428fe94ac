//! Subsets of modules to checkpoint, each the cheapest for its saving.

use std::collections::HashMap;

use vramfit_eager::forward::{Choice, block_names};

use super::earliest::earliest;
use super::kinds::kinds;
use super::tree::{ModuleTree, modules};
use crate::control::Control;
use crate::setup::Setup;
use crate::workbench::Workbench;

/// Choices kept when parts of the tree are combined.
const KEPT_CHOICES: usize = 64;

/// Up to this many blocks, all their subsets are tried.
const FEW_BLOCKS: usize = 4;

/// A subset of modules.
#[derive(Clone, Debug, PartialEq)]
pub struct Subset {
    /// Module paths in the order of their calls.
    pub names: Vec<String>,
    /// Bytes freed at the end of the forward pass: the sum over modules simulated alone.
    pub freed: u64,
    /// Time added to a step.
    pub seconds: f64,
}

/// Bytes that checkpointing a module frees, and the time it adds.
#[derive(Clone, Copy, Debug)]
struct ModuleSaving {
    freed: u64,
    seconds: f64,
}

/// A choice among the modules of a part of the tree.
#[derive(Clone, Debug)]
struct PartialChoice {
    freed: u64,
    seconds: f64,
    nodes: Vec<usize>,
}

/// The subsets of a setup's modules.
#[derive(Debug, Default)]
pub struct CheckpointSubsets {
    tree: ModuleTree,
    kinds: Vec<usize>,
    /// The best choices, ordered by saving.
    choices: Vec<PartialChoice>,
    /// The repeated blocks, in order.
    blocks: Vec<(String, ModuleSaving)>,
}

impl CheckpointSubsets {
    /// Empty if no module can be checkpointed, if the setup checkpoints some already, or if its activations are in place.
    pub fn of(bench: &Workbench<'_>, setup: &Setup, control: &Control) -> CheckpointSubsets {
        let is_free = setup.training.checkpoint == Choice::Nothing && !bench.is_in_place(setup);
        let Some(bound) = bench.bind(setup).filter(|_| is_free) else {
            return CheckpointSubsets::default();
        };
        let tree = modules(&bound);
        let kinds = kinds(&bound, &tree);
        let savings = savings(bench, setup, &tree, &kinds, control);
        let mut choices = combine(&tree, &tree.roots, &savings);
        choices.retain(|choice| !choice.nodes.is_empty());
        let block = |name: String| {
            let node = tree.nodes.iter().position(|node| node.path == name)?;
            Some((name, savings[node]?))
        };
        let blocks = block_names(&bound).into_iter().filter_map(block).collect();
        CheckpointSubsets { tree, kinds, choices, blocks }
    }

    /// About `count` subsets ordered by saving, each the cheapest for its saving.
    pub fn select(&self, count: usize) -> Vec<Subset> {
        let CheckpointSubsets { tree, kinds, choices, blocks } = self;
        let chosen = thinned(choices.clone(), count);
        let mut subsets: Vec<Subset> = chosen
            .into_iter()
            .map(|choice| {
                let mut nodes = earliest(tree, kinds, choice.nodes);
                nodes.sort_by_key(|&node| tree.nodes[node].steps.0);
                let names = nodes.into_iter().map(|node| tree.nodes[node].path.clone()).collect();
                Subset { names, freed: choice.freed, seconds: choice.seconds }
            })
            .collect();
        subsets.extend(block_subsets(blocks, count));
        subsets.sort_by(|one, other| one.freed.cmp(&other.freed).then(one.seconds.total_cmp(&other.seconds)));
        subsets.dedup_by(|one, other| one.names == other.names);
        subsets
    }
}

/// All subsets of few blocks; of many blocks, the first `n` for about `count` values of `n`. These complement the choices
/// from single modules, because savings do not add up exactly. The first blocks are best: the backward pass reaches them
/// last. `refine` later removes blocks that a plan does not need.
fn block_subsets(blocks: &[(String, ModuleSaving)], count: usize) -> Vec<Subset> {
    let subset_of = |chosen: Vec<&(String, ModuleSaving)>| Subset {
        names: chosen.iter().map(|(name, _)| name.clone()).collect(),
        freed: chosen.iter().map(|(_, saving)| saving.freed).sum(),
        seconds: chosen.iter().map(|(_, saving)| saving.seconds).sum(),
    };
    if blocks.len() <= FEW_BLOCKS {
        let subset = |mask: u32| blocks.iter().enumerate().filter(move |(index, _)| mask >> index & 1 == 1);
        return (1..1 << blocks.len()).map(|mask| subset_of(subset(mask).map(|(_, block)| block).collect())).collect();
    }
    let numbers = count.min(blocks.len());
    (1..=numbers).map(|step| subset_of(blocks[..step * blocks.len() / numbers].iter().collect())).collect()
}

/// The saving of each module, from a simulation of the middle module of its kind.
fn savings(
    bench: &Workbench<'_>,
    setup: &Setup,
    tree: &ModuleTree,
    kinds: &[usize],
    control: &Control,
) -> Vec<Option<ModuleSaving>> {
    let (Some(before), Some(seconds)) = (bench.allocated_after_forward(setup, control), bench.seconds(setup)) else {
        return vec![None; tree.nodes.len()];
    };
    let mut nodes_of_kind: HashMap<usize, Vec<usize>> = HashMap::new();
    for (node, kind) in kinds.iter().enumerate().filter(|(node, _)| tree.nodes[*node].can_checkpoint) {
        nodes_of_kind.entry(*kind).or_default().push(node);
    }
    let mut examples: Vec<(usize, usize)> =
        nodes_of_kind.iter().map(|(kind, nodes)| (*kind, nodes[nodes.len() / 2])).collect();
    examples.sort_unstable();
    let found = control.map(&examples, |&(_, node)| {
        let mut setup = setup.clone();
        setup.training.checkpoint = Choice::modules(vec![tree.nodes[node].path.clone()]);
        let freed = before.saturating_sub(bench.allocated_after_forward(&setup, control)?);
        let seconds = (bench.seconds(&setup)? - seconds).max(1e-9);
        (freed > 0).then_some(ModuleSaving { freed, seconds })
    });
    let by_kind: HashMap<usize, ModuleSaving> =
        examples.iter().zip(found).filter_map(|((kind, _), saving)| Some((*kind, saving.flatten()?))).collect();
    let saving = |node: usize| by_kind.get(&kinds[node]).copied().filter(|_| tree.nodes[node].can_checkpoint);
    (0..tree.nodes.len()).map(saving).collect()
}

/// The best choices among these modules and their descendants, ordered by saving.
fn combine(tree: &ModuleTree, nodes: &[usize], savings: &[Option<ModuleSaving>]) -> Vec<PartialChoice> {
    let mut combined = vec![PartialChoice { freed: 0, seconds: 0.0, nodes: Vec::new() }];
    for &node in nodes {
        let mut choices = combine(tree, &tree.nodes[node].children, savings);
        if let Some(saving) = savings[node] {
            choices.push(PartialChoice { freed: saving.freed, seconds: saving.seconds, nodes: vec![node] });
            choices = best(choices);
        }
        if choices.len() == 1 {
            continue;
        }
        let mut sums = Vec::with_capacity(combined.len() * choices.len());
        for one in &combined {
            for other in &choices {
                let nodes = one.nodes.iter().chain(&other.nodes).copied().collect();
                sums.push(PartialChoice {
                    freed: one.freed + other.freed,
                    seconds: one.seconds + other.seconds,
                    nodes,
                });
            }
        }
        combined = thinned(best(sums), KEPT_CHOICES);
    }
    combined
}

/// The choices that no other beats in both saving and time, ordered by saving.
fn best(mut choices: Vec<PartialChoice>) -> Vec<PartialChoice> {
    choices.sort_by(|one, other| other.freed.cmp(&one.freed).then(one.seconds.total_cmp(&other.seconds)));
    let mut cheapest = f64::INFINITY;
    choices.retain(|choice| {
        let is_better = choice.seconds < cheapest;
        cheapest = cheapest.min(choice.seconds);
        is_better
    });
    choices.reverse();
    choices
}

/// About `count` choices, spread over the savings; always with the first and the last.
fn thinned(choices: Vec<PartialChoice>, count: usize) -> Vec<PartialChoice> {
    if choices.len() <= count {
        return choices;
    }
    let max = choices.last().map_or(0, |choice| choice.freed);
    let mut next = 0;
    let last = choices.len() - 1;
    choices
        .into_iter()
        .enumerate()
        .filter(|(index, choice)| {
            let is_kept = *index == 0 || *index == last || choice.freed >= max / count as u64 * next;
            if is_kept {
                next = choice.freed / (max / count as u64).max(1) + 1;
            }
            is_kept
        })
        .map(|(_, choice)| choice)
        .collect()
}
