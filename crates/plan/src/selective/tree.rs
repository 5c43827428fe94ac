//! The tree of module calls in a forward pass, and which of them can be checkpointed.

use std::collections::{BTreeSet, HashMap, HashSet};

use super::growing_lists::growing_lists;
use vramfit_eager::forward::{Choice, regions, updates_cache};
use vramfit_eager::operators::{Effect, facts};
use vramfit_graph::bind::{Bound, BoundStep};
use vramfit_graph::model::{Cast, TensorId};

/// A call of a module.
#[derive(Clone, Debug)]
pub struct ModuleCall {
    /// Dotted path.
    pub path: String,
    /// Class name.
    pub class: String,
    /// Indices of its first and last step.
    pub steps: (usize, usize),
    /// Indices of the calls directly inside it.
    pub children: Vec<usize>,
    /// Whether it can be checkpointed.
    pub can_checkpoint: bool,
    /// Why it cannot be recomputed, if it cannot.
    reason: Option<&'static str>,
}

/// The reason for modules that only inspect or count something.
const NOTHING_SAVED: &str = "no module saves anything for the backward pass";

/// The reason for modules that only keep a cache of keys and values beside their results.
const CACHE: &str = "modules put keys and values into a cache, which recomputation would fill twice (use_cache=False, or \
                     gradient_checkpointing_enable() for every block)";

/// The reason for modules that are called with a list which grows.
const GROWING_LIST: &str = "modules get a list to which their results are added: recomputation would find them in it";

/// All calls of modules with a path except the model itself, ordered by their ends.
#[derive(Clone, Debug, Default)]
pub struct ModuleTree {
    /// The calls.
    pub nodes: Vec<ModuleCall>,
    /// Indices of the calls inside no other.
    pub roots: Vec<usize>,
}

impl ModuleTree {
    /// Whether the module at this path can be checkpointed.
    pub fn can_checkpoint(&self, path: &str) -> bool {
        self.nodes.iter().any(|node| node.can_checkpoint && node.path == path)
    }

    /// Whether these modules could be checkpointed if they kept no cache of keys and values.
    pub fn is_kept_by_cache(&self, paths: &[String]) -> bool {
        let is_cached = |path: &String| self.nodes.iter().any(|node| node.path == *path && node.reason == Some(CACHE));
        !paths.is_empty()
            && paths.iter().all(|path| is_cached(path) || self.can_checkpoint(path))
            && paths.iter().any(is_cached)
    }

    /// Whether any module can be checkpointed.
    pub fn any(&self) -> bool {
        self.nodes.iter().any(|node| node.can_checkpoint)
    }

    /// The outermost modules that can be checkpointed, in the order of their calls.
    pub fn outermost(&self) -> Vec<&str> {
        let mut found: Vec<&ModuleCall> = Vec::new();
        let mut open: Vec<usize> = self.roots.clone();
        while let Some(at) = open.pop() {
            let node = &self.nodes[at];
            if node.can_checkpoint {
                found.push(node);
            } else {
                open.extend(&node.children);
            }
        }
        found.sort_by_key(|node| node.steps.0);
        found.into_iter().map(|node| node.path.as_str()).collect()
    }

    /// Why the modules at these paths cannot be checkpointed; with no paths, why any module cannot.
    pub fn why_not(&self, paths: &[String]) -> Option<&'static str> {
        let asked = self.nodes.iter().filter(|node| paths.is_empty() || paths.contains(&node.path));
        let reasons: Vec<&str> = asked.filter_map(|node| node.reason).collect();
        reasons.iter().find(|reason| **reason != NOTHING_SAVED).or(reasons.first()).copied()
    }
}

/// The module calls of a forward pass.
pub fn modules(bound: &Bound<'_>) -> ModuleTree {
    let mut tree = ModuleTree::default();
    let mut open: Vec<(u32, usize, Vec<usize>)> = Vec::new();
    let mut calls: HashMap<u32, u32> = HashMap::new();
    let (lifetimes, growing) = (Lifetimes::of(bound), growing_lists(bound));
    let own: Vec<(usize, usize)> = regions(bound, &Choice::Nothing)
        .map(|regions| regions.iter().map(|region| (region.first, region.last)).collect())
        .unwrap_or_default();
    for (index, step) in bound.steps.iter().enumerate() {
        match step {
            BoundStep::Enter(module, _) => {
                *calls.entry(*module).or_default() += 1;
                open.push((*module, index, Vec::new()));
            }
            BoundStep::Exit(_, results) => {
                let Some((module, first, children)) = open.pop() else { continue };
                let known = &bound.model.modules[module as usize];
                let node = match known.path.as_deref() {
                    Some(path) if !path.is_empty() => {
                        let steps = (first, index);
                        let meets_own = own.iter().any(|own| own.0 <= index && first <= own.1);
                        let reason = lifetimes.why_not(bound, steps, results);
                        let reason = reason.or_else(|| growing.contains(&first).then_some(GROWING_LIST));
                        let can_checkpoint = !meets_own && reason.is_none();
                        tree.nodes.push(ModuleCall {
                            path: path.to_owned(),
                            class: known.class.clone(),
                            steps,
                            children,
                            can_checkpoint,
                            reason,
                        });
                        vec![tree.nodes.len() - 1]
                    }
                    _ => children,
                };
                match open.last_mut() {
                    Some((_, _, siblings)) => siblings.extend(node),
                    None => tree.roots.extend(node),
                }
            }
            _ => {}
        }
    }
    // A wrapper would checkpoint every call of a module: skip modules that are called more than once.
    let repeated: HashSet<&str> = calls
        .iter()
        .filter(|(_, count)| **count > 1)
        .filter_map(|(module, _)| bound.model.modules[*module as usize].path.as_deref())
        .collect();
    for node in &mut tree.nodes {
        node.can_checkpoint &= !repeated.contains(node.path.as_str());
    }
    tree
}

/// When tensors are produced and last used, as step indices.
struct Lifetimes {
    produced: HashMap<TensorId, usize>,
    last_used: HashMap<TensorId, usize>,
    casts: HashSet<TensorId>,
}

impl Lifetimes {
    fn of(bound: &Bound<'_>) -> Lifetimes {
        let mut lifetimes = Lifetimes { produced: HashMap::new(), last_used: HashMap::new(), casts: HashSet::new() };
        for (index, step) in bound.steps.iter().enumerate() {
            if let BoundStep::Call(call) = step {
                for id in call.results.iter().flatten() {
                    lifetimes.produced.entry(*id).or_insert(index);
                    if call.cast == Cast::Kept {
                        lifetimes.casts.insert(*id);
                    }
                }
                call.each_tensor(&mut |id| {
                    lifetimes.last_used.insert(id, index);
                });
            }
        }
        let variant = bound.variant;
        for id in variant.held.iter().chain(&variant.outputs).chain(&variant.loss) {
            lifetimes.last_used.insert(*id, usize::MAX);
        }
        lifetimes
    }

    /// Why a module call cannot be recomputed, if it cannot.
    fn why_not(&self, bound: &Bound<'_>, (first, last): (usize, usize), results: &[TensorId]) -> Option<&'static str> {
        let persistent = bound.model.parameters.len() + bound.model.buffers.len();
        let (mut saves, mut is_cached) = (false, false);
        for step in &bound.steps[first..=last] {
            match step {
                BoundStep::Call(call) => {
                    for id in call.results.iter().flatten() {
                        let is_later = self.last_used.get(id).is_some_and(|&used| used > last);
                        let is_inside = self.produced.get(id).is_some_and(|&produced| produced >= first);
                        let is_left_behind = is_inside && is_later && id.0 as usize >= persistent;
                        if is_left_behind && !results.contains(id) && !self.casts.contains(id) {
                            if !updates_cache(bound, call) {
                                return Some(
                                    "modules keep tensors other than their results: recomputation would change them",
                                );
                            }
                            is_cached = true;
                        }
                        saves |= bound.tensor(*id).requires_grad;
                        // An in-place write: recomputation would start from the overwritten tensor.
                        if !is_inside && id.0 as usize >= persistent && facts(bound.operator(call)).effect.is_in_place()
                        {
                            return Some(
                                "modules write into their inputs: recomputation would start from the overwritten values",
                            );
                        }
                    }
                }
                BoundStep::Function { .. } | BoundStep::Checkpoint { .. } => {
                    return Some("modules contain autograd functions or checkpoints of their own");
                }
                _ => {}
            }
        }
        is_cached.then_some(CACHE).or((!saves).then_some(NOTHING_SAVED))
    }
}

/// The number of batch norm calls in a forward pass.
pub fn batch_norms(bound: &Bound<'_>) -> usize {
    let is_norm = |step: &&BoundStep<'_>| match step {
        BoundStep::Call(call) => facts(bound.operator(call)).effect == Effect::UpdatesStatistics,
        _ => false,
    };
    bound.steps.iter().filter(is_norm).count()
}

/// Whether checkpointed modules update buffers, as batch norms do.
pub fn updates_buffers(bound: &Bound<'_>, choice: &Choice) -> bool {
    let Ok(regions) = regions(bound, choice) else { return false };
    let parameters = bound.model.parameters.len();
    let buffers = parameters..parameters + bound.model.buffers.len();
    let updates = |step: &BoundStep<'_>| match step {
        BoundStep::Call(call) => {
            let effect = facts(bound.operator(call)).effect;
            let is_buffer = |id: &TensorId| buffers.contains(&(id.0 as usize));
            effect == Effect::UpdatesStatistics
                || (effect.is_in_place() && call.results.iter().flatten().any(is_buffer))
        }
        _ => false,
    };
    let updating: BTreeSet<usize> =
        bound.steps.iter().enumerate().filter(|(_, step)| updates(step)).map(|(index, _)| index).collect();
    regions
        .iter()
        .filter(|region| region.is_checkpointed)
        .any(|region| updating.range(region.first..=region.last).next().is_some())
}
