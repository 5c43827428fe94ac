//! Who holds the memory at the peak: grouped by what it is for, by module and by line.

use std::collections::HashMap;

use serde::Serialize;
use vramfit_eager::memory::ADDED_LOSS;
use vramfit_eager::memory::Category;
use vramfit_graph::bind::Bound;
use vramfit_graph::model::TensorId;
use vramfit_training::answer::Answer;

use super::locations::Locations;
use crate::names::CategoryName;

/// Memory of one kind that one line of one module holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Holder {
    /// Bytes of its blocks.
    pub bytes: u64,
    /// How many blocks.
    pub blocks: u32,
    /// What it is for.
    pub category: CategoryName,
    /// The dotted path of the module, or words for a loss that was added; null where it belongs to the whole model.
    pub module: Option<String>,
    /// The ATen operator that requested it.
    pub op: Option<String>,
    /// The line of the model's code, as `file:line in function`.
    pub source: Option<String>,
}

/// All holders at the peak of the expected run, which kept its journal; the largest first.
pub fn at_peak(bound: &Bound<'_>, answer: &Answer, locations: &Locations<'_>) -> Vec<Holder> {
    let held = answer.expected.held_at(answer.peaks.map_or(0, |peaks| peaks.first.peak.instant));
    let weights = weights_of(bound);
    // A step has one module; weights have their own.
    let mut groups: HashMap<(Category, Option<&str>, u32), Holder> = HashMap::new();
    for held in &held {
        let weight = weights.get(held.id as usize).copied();
        let module = match (held.category, held.origin) {
            (Category::Inputs, ADDED_LOSS) => Some("the added loss's target"),
            _ => weight.filter(|module| !module.is_empty()).or_else(|| locations.module(held.origin)),
        };
        // Weights have no line: all of a module belong together.
        let step = if weight.is_some() { u32::MAX } else { held.origin };
        let holder = groups.entry((held.category, weight.and(module), step)).or_insert_with(|| Holder {
            bytes: 0,
            blocks: 0,
            category: held.category.into(),
            module: module.map(str::to_owned),
            op: locations.operator(step).map(str::to_owned),
            source: locations
                .source(step)
                .map(|source| format!("{}:{} in {}", source.file, source.line, source.function)),
        });
        holder.bytes += held.block;
        holder.blocks += 1;
    }
    let mut holders: Vec<(u32, Holder)> = groups.into_iter().map(|((_, _, step), holder)| (step, holder)).collect();
    holders.sort_by(|(first_step, first), (second_step, second)| {
        let by_size = second.bytes.cmp(&first.bytes).then_with(|| first.category.name().cmp(second.category.name()));
        let by_name = by_size.then_with(|| first.module.cmp(&second.module));
        // One line may call several operators.
        by_name.then_with(|| first.source.cmp(&second.source)).then_with(|| first_step.cmp(second_step))
    });
    holders.into_iter().map(|(_, holder)| holder).collect()
}

/// The modules of the weights in the order in which they are moved to the GPU, which is the order of the first pieces of
/// memory; empty for weights of the model itself.
pub fn weights_of<'a>(bound: &'a Bound<'_>) -> Vec<&'a str> {
    let model = bound.model;
    let names: HashMap<_, &str> = model
        .parameters
        .iter()
        .chain(&model.buffers)
        .filter_map(|weight| Some((weight.tensor, weight.names.first()?.as_str())))
        .collect();
    // What is on the host or empty requests no memory.
    let requests = |id: &&TensorId| !bound.tensor(**id).is_on_host && bound.tensor(**id).elements > 0;
    let module = |id: &TensorId| names.get(id).and_then(|name| name.rsplit_once('.')).map_or("", |(module, _)| module);
    model.move_order.iter().filter(requests).map(module).collect()
}
