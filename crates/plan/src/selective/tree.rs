//! The calls of a pass as a tree of modules, and which of them may be checkpointed.

use std::collections::{BTreeSet, HashMap, HashSet};

use vramfit_eager::forward::{Choice, regions};
use vramfit_eager::operators::{Effect, facts};
use vramfit_graph::bind::{Bound, BoundStep, Value};
use vramfit_graph::model::{Cast, TensorId};

/// A call of a module.
#[derive(Clone, Debug)]
pub struct Node {
    /// Its dotted path.
    pub path: String,
    /// Its class.
    pub class: String,
    /// Its first and last step.
    pub steps: (usize, usize),
    /// The calls within it.
    pub children: Vec<usize>,
    /// Whether it may be checkpointed.
    pub may: bool,
    /// Why it may not run twice, if it may not.
    reason: Option<&'static str>,
}

/// Of modules that only look at or count something.
const NOTHING_SAVED: &str = "no module saves anything for the backward pass";

/// All calls of modules with a path, in order of their ends; the model itself is no node.
#[derive(Clone, Debug, Default)]
pub struct ModuleTree {
    /// The calls.
    pub nodes: Vec<Node>,
    /// Those within no other.
    pub roots: Vec<usize>,
}

impl ModuleTree {
    /// Whether the module of this name may be checkpointed.
    pub fn may_checkpoint(&self, path: &str) -> bool {
        self.nodes.iter().any(|node| node.may && node.path == path)
    }

    /// Whether any may.
    pub fn any(&self) -> bool {
        self.nodes.iter().any(|node| node.may)
    }

    /// The outermost modules that may, in the order of their calls.
    pub fn outermost(&self) -> Vec<&str> {
        let mut found: Vec<&Node> = Vec::new();
        let mut open: Vec<usize> = self.roots.clone();
        while let Some(at) = open.pop() {
            let node = &self.nodes[at];
            if node.may {
                found.push(node);
            } else {
                open.extend(&node.children);
            }
        }
        found.sort_by_key(|node| node.steps.0);
        found.into_iter().map(|node| node.path.as_str()).collect()
    }

    /// Why the modules of these names may not; where no names are given, why any may not.
    pub fn why_not(&self, paths: &[String]) -> Option<&'static str> {
        let asked = self.nodes.iter().filter(|node| paths.is_empty() || paths.contains(&node.path));
        let reasons: Vec<&str> = asked.filter_map(|node| node.reason).collect();
        reasons.iter().find(|reason| **reason != NOTHING_SAVED).or(reasons.first()).copied()
    }
}

/// The module calls of a pass.
pub fn modules(bound: &Bound<'_>) -> ModuleTree {
    let mut tree = ModuleTree::default();
    let mut open: Vec<(u32, usize, Vec<usize>)> = Vec::new();
    let mut calls: HashMap<u32, u32> = HashMap::new();
    let lives = Lives::of(bound);
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
                        let reason = lives.why_not(bound, steps, results);
                        let may = !meets_own && reason.is_none();
                        tree.nodes.push(Node {
                            path: path.to_owned(),
                            class: known.class.clone(),
                            steps,
                            children,
                            may,
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
    // One wrapper would checkpoint every call of a module: what is called more than once is left alone.
    let often: HashSet<&str> = calls
        .iter()
        .filter(|(_, count)| **count > 1)
        .filter_map(|(module, _)| bound.model.modules[*module as usize].path.as_deref())
        .collect();
    for node in &mut tree.nodes {
        node.may &= !often.contains(node.path.as_str());
    }
    tree
}

/// When tensors are made and last used.
struct Lives {
    made: HashMap<TensorId, usize>,
    used: HashMap<TensorId, usize>,
    casts: HashSet<TensorId>,
}

impl Lives {
    fn of(bound: &Bound<'_>) -> Lives {
        let mut lives = Lives { made: HashMap::new(), used: HashMap::new(), casts: HashSet::new() };
        for (index, step) in bound.steps.iter().enumerate() {
            if let BoundStep::Call(call) = step {
                for id in call.results.iter().flatten() {
                    lives.made.entry(*id).or_insert(index);
                    if call.cast == Cast::Kept {
                        lives.casts.insert(*id);
                    }
                }
                call.arguments.iter().for_each(|value| {
                    each_tensor(value, &mut |id| {
                        lives.used.insert(id, index);
                    })
                });
            }
        }
        let variant = bound.variant;
        for id in variant.held.iter().chain(&variant.outputs).chain(&variant.loss) {
            lives.used.insert(*id, usize::MAX);
        }
        lives
    }

    /// Why a call of a module may not run twice, if it may not.
    fn why_not(&self, bound: &Bound<'_>, (first, last): (usize, usize), results: &[TensorId]) -> Option<&'static str> {
        let given = bound.model.parameters.len() + bound.model.buffers.len();
        let mut saves = false;
        for step in &bound.steps[first..=last] {
            match step {
                BoundStep::Call(call) => {
                    for id in call.results.iter().flatten() {
                        let is_later = self.used.get(id).is_some_and(|&used| used > last);
                        let is_inside = self.made.get(id).is_some_and(|&made| made >= first);
                        let is_left_behind = is_inside && is_later && id.0 as usize >= given;
                        if is_left_behind && !results.contains(id) && !self.casts.contains(id) {
                            return Some(
                                "modules leave tensors behind that are no results of theirs, such as a cache of keys and \
                                 values: running them again would change them (set use_cache=False and capture again)",
                            );
                        }
                        saves |= bound.tensor(*id).requires_grad;
                        // Written in place: what was there before is gone when the module runs again.
                        if !is_inside && id.0 as usize >= given && facts(bound.operator(call)).effect.is_in_place() {
                            return Some(
                                "modules write into what they are given: running them again would start from that",
                            );
                        }
                    }
                }
                BoundStep::Function { .. } | BoundStep::Checkpoint { .. } => {
                    return Some("modules have functions or checkpoints of their own in them");
                }
                _ => {}
            }
        }
        (!saves).then_some(NOTHING_SAVED)
    }
}

fn each_tensor(value: &Value, look: &mut impl FnMut(TensorId)) {
    match value {
        Value::Tensor(id) => look(*id),
        Value::List(values) => values.iter().for_each(|value| each_tensor(value, look)),
        _ => {}
    }
}

/// How many batch norms a pass runs.
pub fn batch_norms(bound: &Bound<'_>) -> usize {
    let is_norm = |step: &&BoundStep<'_>| match step {
        BoundStep::Call(call) => facts(bound.operator(call)).effect == Effect::UpdatesStatistics,
        _ => false,
    };
    bound.steps.iter().filter(is_norm).count()
}

/// Whether what is checkpointed writes into buffers, as batch norms do.
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
    let places: BTreeSet<usize> =
        bound.steps.iter().enumerate().filter(|(_, step)| updates(step)).map(|(place, _)| place).collect();
    regions
        .iter()
        .filter(|region| region.is_checkpointed)
        .any(|region| places.range(region.first..=region.last).next().is_some())
}
