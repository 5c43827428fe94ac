//! Makes a model of any number of layers from one of a few.
//!
//! Each layer is a copy of one of the template's ([`Order`](super::order::Order)). Numbers (of modules, tensors, storages) grow from layer to layer,
//! so a layer refers to numbers in itself, in the layer before, or outside of all layers. What is made for each layer before the
//! first one begins, such as the parts of a cache, counts as the layers'. Layers that differ from the others come before the
//! template's, and count as outside. The stacks of a model are expanded one after another.

mod numbers;
mod regions;

use std::collections::HashMap;

use numbers::Tensors;
use regions::Regions;
use vramfit_graph::model::{Model, RecordedBackward, Step, Tensor, TensorId, Weight};

use super::order::Referrer;
use super::request::Stack;

/// The model with the layers in a stack that it says; `None` where its layers are not alike enough.
pub(super) fn expand(model: &Model, stack: &Stack) -> Option<Model> {
    let (order, count) = (&stack.order, stack.order.count());
    let path = |layer: u32| match stack.is_shared {
        true => stack.path.to_owned(),
        false => format!("{}.{}", stack.path, layer + stack.kept),
    };
    let is_of =
        |name: &str, path: &str| name.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
    let paths: Vec<String> = (0..count).map(path).collect();
    // A layer that is run several times is one list of modules and weights, which counts as outside.
    let layer_of = |name: &str| (0..count).find(|layer| !stack.is_shared && is_of(name, &paths[*layer as usize]));
    let regions = |names: &[Option<&str>]| -> Option<Regions<'_>> {
        let layers_of: Vec<Option<u32>> = names.iter().map(|name| name.and_then(layer_of)).collect();
        let first = layers_of.iter().position(|layer| layer.is_some()).unwrap_or(layers_of.len());
        let mut bounds = vec![first as u32];
        for layer in 0..count {
            let begin = bounds[layer as usize];
            let end = begin + layers_of.iter().filter(|found| **found == Some(layer)).count() as u32;
            if layers_of.get(begin as usize..end as usize)?.iter().any(|found| *found != Some(layer)) {
                return None;
            }
            bounds.push(end);
        }
        Regions::new(vec![bounds], order)
    };
    let renamed = |name: &str, referrer: Referrer| match referrer {
        Referrer::Outside => name.to_owned(),
        Referrer::Layer { number, source } => match name.strip_prefix(&paths[source as usize]) {
            Some(rest) => format!("{}{rest}", path(number)),
            None => name.to_owned(),
        },
    };
    let modules = regions(&model.modules.iter().map(|module| module.path.as_deref()).collect::<Vec<_>>())?;
    let first_names = |list: &[Weight]| -> Option<Regions<'_>> {
        regions(&list.iter().map(|weight| weight.names.first().map(String::as_str)).collect::<Vec<_>>())
    };
    let (parameters, buffers) = (first_names(&model.parameters)?, first_names(&model.buffers)?);
    let weight_of = |weight: &Weight, referrer: Referrer| {
        let mut weight = weight.clone();
        weight.names.iter_mut().for_each(|name| *name = renamed(name, referrer));
        Some(weight)
    };
    let mut made = model.clone();
    made.modules = modules.relaid(&model.modules, |module, referrer| {
        let mut module = module.clone();
        module.path = module.path.map(|path| renamed(&path, referrer));
        Some(module)
    })?;
    made.parameters = parameters.relaid(&model.parameters, weight_of)?;
    made.buffers = buffers.relaid(&model.buffers, weight_of)?;
    for (number, weight) in (0..).zip(made.parameters.iter_mut().chain(&mut made.buffers)) {
        weight.tensor = TensorId(number);
    }
    let counts = [model.parameters.len(), model.buffers.len(), model.given_count()].map(|count| count as u32);
    let new_counts = [made.parameters.len(), made.buffers.len(), made.given_count()].map(|count| count as u32);
    let given = Tensors { parameters, buffers, made: Regions::new(Vec::new(), order)?, counts, new_counts };
    made.move_order = given.list(&model.move_order, Referrer::Outside)?;
    for input in made.inputs.iter_mut().chain(&mut made.targets) {
        input.tensor = given.one(input.tensor, Referrer::Outside)?;
    }
    made.tensors.clear();
    made.steps.clear();
    let module_of =
        |layer: u32| model.modules.iter().position(|module| module.path.as_ref() == paths.get(layer as usize));
    let run_of = |layer: u32| if stack.is_shared { layer + stack.kept } else { 0 };
    let entered: Vec<Run> = (0..count)
        .map(|layer| Some(Run { module: module_of(layer)? as u32, earlier: run_of(layer) as usize }))
        .collect::<Option<_>>()?;
    let mut known: Vec<((usize, usize), usize)> = Vec::new();
    for variant in &mut made.variants {
        let steps = &model.steps[variant.steps];
        let layer_steps = layer_steps(steps, &entered)?;
        let mut zones = vec![layer_steps];
        if let Some(zone) = made_ahead(steps, &zones[0]) {
            zones.insert(0, zone);
        }
        let step_regions = Regions::new(zones, order)?;
        let next = made_before(steps, counts[2]);
        let made_regions = step_regions.elsewhere(|cut| next[cut as usize])?;
        let tensors = Tensors { made: made_regions, ..given.clone() };
        for list in [&mut variant.constants, &mut variant.outputs, &mut variant.released, &mut variant.held] {
            *list = tensors.list(list, Referrer::Outside)?;
        }
        if let Some(loss) = &mut variant.loss {
            *loss = tensors.one(*loss, Referrer::Outside)?;
        }
        variant.functions = functions(&variant.functions, &step_regions, &tensors, &modules)?;
        let pair = (variant.tensors, variant.steps);
        let section = match known.iter().find(|(known, _)| *known == pair) {
            Some((_, section)) => *section,
            None => {
                made.steps.push(step_regions.relaid(steps, |step, referrer| tensors.step(step, &modules, referrer))?);
                made.tensors.push(new_rows(&model.tensors[variant.tensors], &tensors)?);
                known.push((pair, made.steps.len() - 1));
                made.steps.len() - 1
            }
        };
        (variant.tensors, variant.steps) = (section, section);
    }
    Some(made)
}

/// The backwards of the custom functions of each layer, and of the others.
fn functions(
    found: &[RecordedBackward],
    steps: &Regions<'_>,
    tensors: &Tensors<'_>,
    modules: &Regions<'_>,
) -> Option<Vec<RecordedBackward>> {
    let order = steps.order();
    let mut made = Vec::new();
    for function in found {
        let end = u32::try_from(function.end).ok()?;
        let Some(source) = steps.layer(end) else {
            made.push(tensors.backward(function, steps.map(end, Referrer::Outside)?, modules, Referrer::Outside)?);
            continue;
        };
        for number in order.made_from(source) {
            let end = steps.in_layer(end, number)?;
            made.push(tensors.backward(function, end, modules, Referrer::Layer { number, source })?);
        }
    }
    made.sort_by_key(|function| function.end);
    Some(made)
}

/// A module's call that is one layer.
struct Run {
    module: u32,
    /// How often the module has been called before.
    earlier: usize,
}

/// Where the layers begin among the steps, and where the last one ends. What precedes a layer in the loop counts as part of the
/// layer before.
fn layer_steps(steps: &[Step], runs: &[Run]) -> Option<Vec<u32>> {
    let find = |run: &Run, is_it: fn(&Step, u32) -> bool| {
        let mut found = (0..).zip(steps).filter(|(_, step)| is_it(step, run.module));
        found.nth(run.earlier).map(|(at, _)| at)
    };
    let enter = |step: &Step, layer: u32| matches!(step, Step::Enter(module, _) if *module == layer);
    let exit = |step: &Step, layer: u32| matches!(step, Step::Exit(module, _) if *module == layer);
    let mut cuts: Vec<u32> = runs.iter().map(|run| find(run, enter)).collect::<Option<_>>()?;
    cuts.push(find(runs.last()?, exit)? + 1);
    Some(cuts)
}

/// What uses a tensor.
#[derive(Clone, Copy, PartialEq)]
enum Users {
    Layer(usize),
    Others,
}

/// Calls before the first layer whose results one layer each uses, one after the other: where those of each layer begin, and
/// where those of the last one end.
fn made_ahead(steps: &[Step], layers: &[u32]) -> Option<Vec<u32>> {
    let mut users: HashMap<TensorId, Users> = HashMap::new();
    for (at, step) in (0..).zip(steps) {
        let Step::Call(call) = step else { continue };
        let layer = layers.windows(2).position(|cuts| (cuts[0]..cuts[1]).contains(&at));
        let user = layer.map_or(Users::Others, Users::Layer);
        call.each_tensor(&mut |id| {
            let known = users.entry(id).or_insert(user);
            if *known != user {
                *known = Users::Others;
            }
        });
    }
    let user = |step: &Step| match step {
        Step::Call(call) => match call.results[..] {
            [Some(result)] => users.get(&result).copied(),
            _ => None,
        },
        _ => None,
    };
    let mut at = 0;
    while at < layers[0] as usize {
        let mut found: Vec<usize> = Vec::new();
        for step in &steps[at..layers[0] as usize] {
            match user(step) {
                Some(Users::Layer(layer)) if found.last().is_none_or(|last| *last < layer) => found.push(layer),
                _ => break,
            }
        }
        if found.len() > 1 {
            let before = |layer: usize| found.iter().filter(|found| **found < layer).count();
            return Some((0..layers.len()).map(|layer| (at + before(layer)) as u32).collect());
        }
        at += found.len().max(1);
    }
    None
}

/// How many tensors have been made before each step, and in all.
fn made_before(steps: &[Step], given: u32) -> Vec<u32> {
    let mut made = vec![0];
    let mut next = given;
    for step in steps {
        if let Step::Call(call) = step {
            next = call.results.iter().flatten().fold(next, |next, result| next.max(result.0 + 1));
        }
        made.push(next - given);
    }
    made
}

/// The rows of all tensors; their storages are numbered as they come up, as the tensors are.
fn new_rows(rows: &[Tensor], tensors: &Tensors<'_>) -> Option<Vec<Tensor>> {
    let [parameters, buffers, given] = tensors.counts.map(|count| count as usize);
    if rows[..given].iter().zip(0..).any(|(row, number)| row.storage != number) {
        return None;
    }
    // Where each kind of storage begins: as many as the tensors before have used.
    let begins = |count: u32| {
        let last = rows[..given + count as usize].iter().map(|row| row.storage + 1).max();
        last.unwrap_or(0).max(given as u32) - given as u32
    };
    let storages = tensors.made.elsewhere(begins)?;
    let storage = |old: u32, referrer: Referrer| -> Option<u32> {
        if old < given as u32 {
            tensors.one(TensorId(old), referrer).map(|id| id.0)
        } else {
            Some(storages.map(old - given as u32, referrer)? + tensors.new_counts[2])
        }
    };
    let same = |row: &Tensor, _: Referrer| Some(row.clone());
    let mut made = tensors.parameters.relaid(&rows[..parameters], same)?;
    made.extend(tensors.buffers.relaid(&rows[parameters..parameters + buffers], same)?);
    made.extend_from_slice(&rows[parameters + buffers..given]);
    made.iter_mut().zip(0..).for_each(|(row, number)| row.storage = number);
    made.extend(tensors.made.relaid(&rows[given..], |row, referrer| {
        Some(Tensor { storage: storage(row.storage, referrer)?, ..row.clone() })
    })?);
    Some(made)
}
