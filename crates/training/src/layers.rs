//! A model's modules with the shapes, weights, saved bytes and FLOPs of what runs inside each.

use std::collections::HashMap;

use vramfit_eager::autograd::Visits;
use vramfit_eager::flops::{self, Flops};
use vramfit_graph::bind::{Bound, BoundStep};
use vramfit_graph::dims::Dims;

/// A module with the sums over everything inside it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layer {
    /// Its dotted path; empty for the model itself.
    pub path: String,
    /// Its class.
    pub class: String,
    /// How many modules it is nested in.
    pub depth: usize,
    /// Whether it calls no other module.
    pub is_leaf: bool,
    /// How often it is called.
    pub calls: u32,
    /// The shapes of its last outputs.
    pub outputs: Vec<Dims>,
    /// Bytes of all its outputs.
    pub output_bytes: u64,
    /// The number of its weights; tied ones count once, where they come first.
    pub parameters: u64,
    /// Bytes saved for backward.
    pub saved_bytes: u64,
    /// FLOPs.
    pub flops: Flops,
}

/// The modules of a pass in the order of their first calls: the model itself is the first.
pub fn layers(bound: &Bound<'_>, visits: &Visits) -> Vec<Layer> {
    let flops = flops::count(bound, visits);
    let mut layers: Vec<Layer> = Vec::new();
    let mut numbers: HashMap<u32, usize> = HashMap::new();
    let mut open: Vec<usize> = Vec::new();
    for (index, step) in bound.steps.iter().enumerate() {
        match step {
            BoundStep::Enter(module, _) => {
                let number = *numbers.entry(*module).or_insert_with(|| {
                    let module = &bound.model.modules[*module as usize];
                    let path = module.path.clone().unwrap_or_default();
                    let class = module.class.clone();
                    layers.push(Layer { path, class, depth: open.len(), is_leaf: true, ..Layer::default() });
                    layers.len() - 1
                });
                if let Some(&outer) = open.last() {
                    layers[outer].is_leaf = false;
                }
                layers[number].calls += 1;
                open.push(number);
            }
            BoundStep::Exit(_, results) => {
                if let Some(number) = open.pop() {
                    let outputs = results.iter().map(|&id| bound.tensor(id));
                    layers[number].output_bytes += outputs.clone().map(|tensor| tensor.bytes).sum::<u64>();
                    layers[number].outputs = outputs.map(|tensor| tensor.shape.clone()).collect();
                }
            }
            BoundStep::Call(_) => {
                for &number in &open {
                    layers[number].flops += flops[index];
                    layers[number].saved_bytes += visits.saved(index);
                }
            }
            _ => {}
        }
    }
    count_parameters(bound, &mut layers);
    layers
}

fn count_parameters(bound: &Bound<'_>, layers: &mut [Layer]) {
    for weight in &bound.model.parameters {
        let Some(name) = weight.names.first() else { continue };
        let elements = weight.elements().unwrap_or(u64::MAX);
        for layer in layers.iter_mut() {
            let is_inside = match layer.path.as_str() {
                "" => layer.depth == 0,
                path => name.strip_prefix(path).is_some_and(|rest| rest.starts_with('.')),
            };
            if is_inside {
                layer.parameters = layer.parameters.saturating_add(elements);
            }
        }
    }
}

/// Sums over a whole pass, the loss function included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Bytes of the outputs of leaf modules.
    pub leaf_output_bytes: u64,
    /// Bytes saved for backward.
    pub saved_bytes: u64,
    /// FLOPs.
    pub flops: Flops,
}

/// The sums over a whole pass.
pub fn totals(bound: &Bound<'_>, visits: &Visits, layers: &[Layer]) -> Totals {
    Totals {
        leaf_output_bytes: layers.iter().filter(|layer| layer.is_leaf).map(|layer| layer.output_bytes).sum(),
        saved_bytes: (0..bound.steps.len()).map(|index| visits.saved(index)).sum::<u64>()
            + visits.saved_by_added_loss(),
        flops: flops::total(bound, visits),
    }
}
