//! Parameters and buffers: which are tied, and in which order `model.cuda()` moves them.

use std::borrow::Cow;

use hashbrown::{HashMap, HashSet};

use super::document::{InputSpec, Payload, Program};
use super::graph::RawGraph;
use super::node::argument_tensors;
use super::tensor_meta::TensorMeta;

/// A parameter or buffer.
pub(super) struct RawWeight<'a> {
    /// Its names in the model, those it is tied to included.
    pub(super) names: Vec<&'a str>,
    /// Its names in the graph.
    pub(super) tensors: Vec<&'a str>,
    pub(super) meta: &'a TensorMeta<'a>,
    pub(super) requires_grad: bool,
}

/// All parameters and buffers.
pub(super) struct Weights<'a> {
    pub(super) parameters: Vec<RawWeight<'a>>,
    pub(super) buffers: Vec<RawWeight<'a>>,
    /// Parameters that are assumed to be tied although the file does not say so.
    pub(super) guessed: Vec<(&'a str, &'a str)>,
}

/// Finds the weights of a program.
pub(super) fn weights<'a>(
    program: &'a Program<'a>,
    metas: &HashMap<&'a str, &'a TensorMeta<'a>>,
    payloads: &'a [(Cow<'a, str>, Payload<'a>)],
) -> Weights<'a> {
    let payloads: HashMap<&str, &Payload<'_>> = payloads.iter().map(|(name, payload)| (&**name, payload)).collect();
    // On the meta device no weight has bytes, and all have the same path.
    let path_of = |name: &str| {
        let payload = payloads.get(name)?;
        let is_real = payload.meta.as_ref().is_some_and(|meta| meta.device != "meta");
        is_real.then_some(&*payload.path)
    };
    let used = used_tensors(&program.graph);
    let mut found = Weights { parameters: Vec::new(), buffers: Vec::new(), guessed: Vec::new() };
    let mut unused: Vec<RawWeight<'a>> = Vec::new();
    let mut order: HashMap<&str, usize> = HashMap::new();
    let mut by_path: HashMap<(bool, &str), usize> = HashMap::new();
    for (number, spec) in program.inputs.iter().enumerate() {
        let (tensor, name, is_parameter) = match spec {
            InputSpec::Parameter { tensor, name } => (&**tensor, &**name, true),
            InputSpec::Buffer { tensor, name } => (&**tensor, &**name, false),
            _ => continue,
        };
        order.insert(name, number);
        let in_graph = metas.get(tensor).copied();
        let payload = payloads.get(name).and_then(|payload| payload.meta.as_ref());
        let Some(meta) = in_graph.or(payload) else { continue };
        let requires_grad = is_parameter && payload.or(in_graph).is_some_and(|meta| meta.requires_grad);
        let list = if is_parameter { &mut found.parameters } else { &mut found.buffers };
        if let Some(path) = path_of(name) {
            let first = *by_path.entry((is_parameter, path)).or_insert(list.len());
            if let Some(same) = list.get_mut(first).filter(|same| is_alike(same.meta, meta)) {
                same.names.push(name);
                same.tensors.push(tensor);
                continue;
            }
        }
        let weight = RawWeight { names: vec![name], tensors: vec![tensor], meta, requires_grad };
        match is_parameter && path_of(name).is_none() && !used.contains(tensor) {
            true => unused.push(weight),
            false => list.push(weight),
        }
    }
    for weight in unused {
        let alike: Vec<usize> = (0..found.parameters.len())
            .filter(|&at| {
                is_alike(found.parameters[at].meta, weight.meta) && used.contains(found.parameters[at].tensors[0])
            })
            .collect();
        match alike[..] {
            [only] => {
                let same = &mut found.parameters[only];
                found.guessed.push((weight.names[0], same.names[0]));
                same.names.extend(weight.names);
                same.tensors.extend(weight.tensors);
            }
            _ => found.parameters.push(weight),
        }
    }
    for weight in &mut found.parameters {
        weight.names.sort_by_key(|name| order.get(name));
    }
    found.parameters.sort_by_key(|weight| weight.names.iter().filter_map(|name| order.get(name)).min().copied());
    found
}

fn is_alike(one: &TensorMeta<'_>, other: &TensorMeta<'_>) -> bool {
    one.dtype == other.dtype && one.shape == other.shape
}

/// The graph's tensors that some call or output uses.
fn used_tensors<'a>(graph: &'a RawGraph<'_>) -> HashSet<&'a str> {
    let mut used = HashSet::new();
    for node in &graph.nodes {
        for input in &node.inputs {
            argument_tensors(&input.argument, &mut |name| {
                used.insert(name);
            });
        }
    }
    for output in &graph.outputs {
        argument_tensors(output, &mut |name| {
            used.insert(name);
        });
    }
    used
}

/// The order in which `model.cuda()` moves weights: those of a module's parts first, then its own, parameters before
/// buffers. `modules` are the modules' paths in order; the result are numbers of `parameters`, then of `buffers`.
pub(super) fn move_order<'a>(modules: &[&'a str], weights: &Weights<'a>) -> Vec<u32> {
    let mut own: HashMap<&str, Vec<u32>> = HashMap::new();
    let mut paths: Vec<&str> = modules.to_vec();
    for (number, weight) in (0_u32..).zip(weights.parameters.iter().chain(&weights.buffers)) {
        for name in &weight.names {
            let path = name.rsplit_once('.').map_or("", |(path, _)| path);
            own.entry(path).or_default().push(number);
            paths.push(path);
        }
    }
    let mut children: HashMap<&str, Vec<&str>> = HashMap::new();
    let mut seen: HashSet<&str> = HashSet::from([""]);
    for path in paths {
        // A path's parents come before it, even if they are not listed.
        let parent_of = |path: &'a str| path.rsplit_once('.').map_or("", |(parent, _)| parent);
        let mut unseen: Vec<&str> = Vec::new();
        let mut part = path;
        while seen.insert(part) {
            unseen.push(part);
            part = parent_of(part);
        }
        for part in unseen.into_iter().rev() {
            children.entry(parent_of(part)).or_default().push(part);
        }
    }
    let count = weights.parameters.len() + weights.buffers.len();
    let mut order = Vec::with_capacity(count);
    let mut is_moved = vec![false; count];
    let mut open: Vec<(&str, bool)> = vec![("", false)];
    while let Some((path, is_done)) = open.pop() {
        if is_done {
            for number in own.get(path).into_iter().flatten() {
                if !std::mem::replace(&mut is_moved[*number as usize], true) {
                    order.push(*number);
                }
            }
            continue;
        }
        open.push((path, true));
        open.extend(children.get(path).into_iter().flatten().rev().map(|child| (*child, false)));
    }
    order
}
