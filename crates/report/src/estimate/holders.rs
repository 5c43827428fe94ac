//! Who holds the memory at the peak: grouped by what it is for, by module and by line.

use std::collections::HashMap;

use serde::Serialize;
use vramfit_graph::bind::Bound;
use vramfit_graph::model::TensorId;
use vramfit_step::memory::Category;
use vramfit_step::training::{Held, Run};

use super::category_name;
use super::places::Places;

/// Memory of one kind that one line of one module holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Holder {
    /// Bytes of its blocks.
    pub bytes: u64,
    /// How many blocks.
    pub blocks: u32,
    /// What it is for.
    pub category: &'static str,
    /// The module; `None` where it belongs to the whole model.
    pub module: Option<String>,
    /// The operator that asked for it.
    pub op: Option<String>,
    /// The line of the model's code, as `file:line in function`.
    pub source: Option<String>,
}

/// All holders at the run's peak, the largest first.
pub fn holders(bound: &Bound<'_>, run: &Run, places: &Places<'_>, instant: u32) -> Vec<Holder> {
    let held = run.held_at(instant);
    let weights = weight_modules(bound, &held);
    let mut groups: HashMap<(Category, Option<&str>, u32), Holder> = HashMap::new();
    for held in &held {
        let module = weights.get(&held.id).copied().or_else(|| places.module(held.place));
        // Weights have no line: all of a module belong together.
        let place = if weights.contains_key(&held.id) { u32::MAX } else { held.place };
        let holder = groups.entry((held.category, module, place)).or_insert_with(|| Holder {
            bytes: 0,
            blocks: 0,
            category: category_name(held.category),
            module: module.map(str::to_owned),
            op: places.operator(place).map(str::to_owned),
            source: places
                .source(place)
                .map(|source| format!("{}:{} in {}", source.file, source.line, source.function)),
        });
        holder.bytes += held.block;
        holder.blocks += 1;
    }
    let mut holders: Vec<Holder> = groups.into_values().collect();
    holders.sort_by(|first, second| {
        let key = |holder: &Holder| (std::cmp::Reverse(holder.bytes), holder.category, holder.module.clone());
        key(first).cmp(&key(second)).then_with(|| first.source.cmp(&second.source))
    });
    holders
}

/// The module of each weight, by the number of its memory: the first pieces of memory are the weights, as they are moved.
fn weight_modules<'a>(bound: &'a Bound<'_>, held: &[Held]) -> HashMap<u32, &'a str> {
    let model = bound.model;
    let names: HashMap<_, &str> = model
        .parameters
        .iter()
        .chain(&model.buffers)
        .filter_map(|weight| Some((weight.tensor, weight.names.first()?.as_str())))
        .collect();
    // What is on the host or empty asks for no memory.
    let asks = |id: &&TensorId| !bound.tensor(**id).is_on_host && bound.tensor(**id).elements > 0;
    let moved = model.move_order.iter().filter(asks);
    let is_weight = |held: &&Held| held.category == Category::Parameters;
    let numbers: HashMap<u32, ()> = held.iter().filter(is_weight).map(|held| (held.id, ())).collect();
    moved
        .enumerate()
        .filter_map(|(index, tensor)| {
            let name = names.get(tensor)?;
            let module = name.rsplit_once('.').map_or("", |(module, _)| module);
            numbers.contains_key(&(index as u32)).then_some((index as u32, module))
        })
        .filter(|(_, module)| !module.is_empty())
        .collect()
}
