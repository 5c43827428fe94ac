//! Makes a model of any number of layers from one of three.
//!
//! The first and the last layer stay, the middle one is repeated or left out. Numbers (of modules, tensors, storages) grow
//! from layer to layer, so a layer refers to numbers in itself, in the layer before, or outside of all layers.
//! Layers that differ from the others come before the three, and count as outside. The
//! stacks of a model are expanded one after another.

mod numbers;

use super::request::Stack;
use numbers::{Referrer, Regions, Tensors, sources};
use vramfit_graph::model::{Model, Step, Tensor, TensorId};

/// `list` with its layers repeated; `change` adapts an item to its layer.
fn relaid<T: Clone>(list: &[T], regions: Regions, change: impl Fn(&T, u32, u32) -> T) -> Vec<T> {
    let part = |from: u32, to: u32| &list[from as usize..to as usize];
    let mut made = part(0, regions.bounds[0]).to_vec();
    for (number, source) in sources(regions.layers) {
        let source_at = source as usize;
        let items = part(regions.bounds[source_at], regions.bounds[source_at + 1]);
        made.extend(items.iter().map(|item| change(item, source, number)));
    }
    made.extend_from_slice(&list[regions.bounds[3] as usize..]);
    made
}

/// The model with as many layers in a stack as it says, two at least after those that are kept, where the model has three
/// after them; `None` where its layers are not alike enough.
pub(super) fn expand(model: &Model, stack: Stack) -> Option<Model> {
    let layers = stack.layers.checked_sub(stack.kept).filter(|layers| *layers >= 2)?;
    let path = |layer: u32| format!("{}.{}", stack.path, layer + stack.kept);
    let paths = |layer: u32| (path(layer), format!("{}.", path(layer)));
    let layer_of = |name: &str| (0..3).find(|layer| name == paths(*layer).0 || name.starts_with(&paths(*layer).1));
    let regions = |names: &[Option<&str>]| -> Option<Regions> {
        let layers_of: Vec<Option<u32>> = names.iter().map(|name| name.and_then(layer_of)).collect();
        let first = layers_of.iter().position(|layer| layer.is_some()).unwrap_or(layers_of.len());
        let count = |layer: u32| layers_of.iter().filter(|found| **found == Some(layer)).count();
        let mut bounds = [first as u32; 4];
        for layer in 0..3 {
            bounds[layer + 1] = bounds[layer] + count(layer as u32) as u32;
            let range = bounds[layer] as usize..bounds[layer + 1] as usize;
            if layers_of.get(range)?.iter().any(|found| *found != Some(layer as u32)) {
                return None;
            }
        }
        Some(Regions { bounds, layers }).filter(|regions| regions.is_even())
    };
    let renamed = |name: &str, source: u32, number: u32| match name.strip_prefix(&paths(source).0) {
        Some(rest) => format!("{}{rest}", path(number)),
        None => name.to_owned(),
    };
    let modules = regions(&model.modules.iter().map(|module| module.path.as_deref()).collect::<Vec<_>>())?;
    let weights = |list: &[vramfit_graph::model::Weight]| {
        regions(&list.iter().map(|weight| weight.names.first().map(String::as_str)).collect::<Vec<_>>())
    };
    let (parameters, buffers) = (weights(&model.parameters)?, weights(&model.buffers)?);
    let relaid_weights = |list: &[vramfit_graph::model::Weight], regions: Regions| {
        relaid(list, regions, |weight, source, number| {
            let mut weight = weight.clone();
            weight.names.iter_mut().for_each(|name| *name = renamed(name, source, number));
            weight
        })
    };
    let mut made = model.clone();
    made.modules = relaid(&model.modules, modules, |module, source, number| {
        let mut module = module.clone();
        module.path = module.path.map(|path| renamed(&path, source, number));
        module
    });
    made.parameters = relaid_weights(&model.parameters, parameters);
    made.buffers = relaid_weights(&model.buffers, buffers);
    for (number, weight) in (0..).zip(made.parameters.iter_mut().chain(&mut made.buffers)) {
        weight.tensor = TensorId(number);
    }
    let counts = [model.parameters.len(), model.buffers.len(), model.given_count()].map(|count| count as u32);
    let new_counts = [made.parameters.len(), made.buffers.len(), made.given_count()].map(|count| count as u32);
    let nothing = Regions { bounds: [0; 4], layers };
    let given = Tensors { parameters, buffers, made: nothing, counts, new_counts };
    made.move_order = given.list(&model.move_order, Referrer::Outside)?;
    for input in made.inputs.iter_mut().chain(&mut made.targets) {
        input.tensor = given.one(input.tensor, Referrer::Outside)?;
    }
    made.tensors.clear();
    made.steps.clear();
    let mut known: Vec<((usize, usize), usize)> = Vec::new();
    for variant in &mut made.variants {
        let steps = &model.steps[variant.steps];
        let cuts = cuts(steps, modules.bounds)?;
        let bounds = made_bounds(steps, cuts, counts[2]);
        let tensors = Tensors { made: Regions { bounds, layers }, ..given };
        if !tensors.made.is_even() {
            return None;
        }
        for list in [&mut variant.constants, &mut variant.outputs, &mut variant.released, &mut variant.held] {
            *list = tensors.list(list, Referrer::Outside)?;
        }
        if let Some(loss) = &mut variant.loss {
            *loss = tensors.one(*loss, Referrer::Outside)?;
        }
        let pair = (variant.tensors, variant.steps);
        let section = match known.iter().find(|(known, _)| *known == pair) {
            Some((_, section)) => *section,
            None => {
                made.steps.push(new_steps(steps, cuts, &tensors, modules, layers)?);
                made.tensors.push(new_rows(&model.tensors[variant.tensors], &tensors)?);
                known.push((pair, made.steps.len() - 1));
                made.steps.len() - 1
            }
        };
        (variant.tensors, variant.steps) = (section, section);
    }
    Some(made)
}

/// Where the three layers begin among the steps, and where the last one ends.
fn cuts(steps: &[Step], modules: [u32; 4]) -> Option<[usize; 4]> {
    let is_enter = |step: &Step, layer: usize| matches!(step, Step::Enter(module, _) if *module == modules[layer]);
    let enter = |layer: usize| steps.iter().position(|step| is_enter(step, layer));
    let exit = steps.iter().position(|step| matches!(step, Step::Exit(module, _) if *module == modules[2]))?;
    Some([enter(0)?, enter(1)?, enter(2)?, exit + 1])
}

/// How many tensors the step has made before each cut.
fn made_bounds(steps: &[Step], cuts: [usize; 4], given: u32) -> [u32; 4] {
    let mut bounds = [0; 4];
    let mut next = given;
    for (at, step) in steps.iter().enumerate() {
        for (bound, cut) in bounds.iter_mut().zip(cuts) {
            if at == cut {
                *bound = next - given;
            }
        }
        if let Step::Call(call) = step {
            next = call.results.iter().flatten().fold(next, |next, result| next.max(result.0 + 1));
        }
    }
    for (bound, cut) in bounds.iter_mut().zip(cuts) {
        if cut >= steps.len() {
            *bound = next - given;
        }
    }
    bounds
}

fn new_steps(steps: &[Step], cuts: [usize; 4], tensors: &Tensors, modules: Regions, layers: u32) -> Option<Vec<Step>> {
    let mut made = Vec::new();
    let mut add = |steps: &[Step], referrer: Referrer| -> Option<()> {
        for step in steps {
            made.push(tensors.step(step, modules, referrer)?);
        }
        Some(())
    };
    add(&steps[..cuts[0]], Referrer::Outside)?;
    for (number, source) in sources(layers) {
        let source_at = source as usize;
        add(&steps[cuts[source_at]..cuts[source_at + 1]], Referrer::Layer { number, source })?;
    }
    add(&steps[cuts[3]..], Referrer::Outside)?;
    Some(made)
}

/// The rows of all tensors; their storages are numbered as they come up, as the tensors are.
fn new_rows(rows: &[Tensor], tensors: &Tensors) -> Option<Vec<Tensor>> {
    let given = tensors.counts[2] as usize;
    if rows[..given].iter().zip(0..).any(|(row, number)| row.storage != number) {
        return None;
    }
    // Where each kind of storage begins: as many as the tensors before have used.
    let bound = |count: u32| {
        let last = rows[..given + count as usize].iter().map(|row| row.storage + 1).max();
        last.unwrap_or(0).max(given as u32) - given as u32
    };
    let storages = Regions { bounds: tensors.made.bounds.map(bound), layers: tensors.made.layers };
    if !storages.is_even() {
        return None;
    }
    let storage = |old: u32, referrer: Referrer| -> Option<u32> {
        if old < given as u32 {
            tensors.one(TensorId(old), referrer).map(|id| id.0)
        } else {
            Some(storages.map(old - given as u32, referrer)? + tensors.new_counts[2])
        }
    };
    let all_given = relaid_given(&rows[..given], tensors);
    let mut made: Vec<Tensor> =
        all_given.into_iter().zip(0..).map(|(row, number)| Tensor { storage: number, ..row }).collect();
    let mut add = |range: std::ops::Range<u32>, referrer: Referrer| -> Option<()> {
        for row in &rows[given + range.start as usize..given + range.end as usize] {
            made.push(Tensor { storage: storage(row.storage, referrer)?, ..row.clone() });
        }
        Some(())
    };
    let bounds = tensors.made.bounds;
    add(0..bounds[0], Referrer::Outside)?;
    for (number, source) in sources(tensors.made.layers) {
        let source_at = source as usize;
        add(bounds[source_at]..bounds[source_at + 1], Referrer::Layer { number, source })?;
    }
    add(bounds[3]..(rows.len() - given) as u32, Referrer::Outside)?;
    Some(made)
}

fn relaid_given(rows: &[Tensor], tensors: &Tensors) -> Vec<Tensor> {
    let [parameters, buffers, _] = tensors.counts.map(|count| count as usize);
    let same = |row: &Tensor, _: u32, _: u32| row.clone();
    let mut made = relaid(&rows[..parameters], tensors.parameters, same);
    made.extend(relaid(&rows[parameters..parameters + buffers], tensors.buffers, same));
    made.extend_from_slice(&rows[parameters + buffers..]);
    made
}
