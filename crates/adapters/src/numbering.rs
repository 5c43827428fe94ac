//! The tables of the changed model: its new weights, and the numbers that all tensors get by them.

use vramfit_graph::dtype::Dtype;
use vramfit_graph::model::{Model, Quantization, Scheme, TensorId, Weight};

use crate::layers::Layer;
use crate::{FineTuning, Quantize};

/// Elements that share a scale, and scales that share one in turn.
pub(crate) const BLOCK: i64 = 64;
pub(crate) const NESTED_BLOCK: i64 = 256;
/// Entries of the table of values that four bits stand for.
const CODES: i64 = 16;

/// The weights of a changed layer, by their new numbers.
#[derive(Clone, Debug)]
pub(crate) struct LayerTensors {
    /// The weight.
    pub weight: TensorId,
    /// The bias.
    pub bias: Option<TensorId>,
    /// The adapter's two weights.
    pub adapter: Option<(TensorId, TensorId)>,
    /// What is stored beside a quantised weight, in the order of its [`Quantization`].
    pub states: Vec<TensorId>,
}

/// The changed model with new tables, its passes still as they were.
pub(crate) struct Numbered {
    /// The model.
    pub model: Model,
    /// The weights of each changed layer.
    pub layers: Vec<LayerTensors>,
    /// The new number of each tensor that existed before the step.
    given: Vec<TensorId>,
    /// How much higher the numbers of all others are.
    shift: u32,
}

impl Numbered {
    /// The new number of a tensor, or of a storage: they count alike.
    pub fn renumbered(&self, TensorId(old): TensorId) -> TensorId {
        self.given.get(old as usize).copied().unwrap_or(TensorId(old + self.shift))
    }
}

/// A new weight or buffer.
struct New {
    weight: Weight,
    /// The old parameter after which it is moved, and listed if it is a parameter.
    after: usize,
}

pub(crate) fn numbered(model: &Model, layers: &[Layer], how: &FineTuning) -> Numbered {
    let mut made = model.clone();
    let mut adapters: Vec<New> = Vec::new();
    let mut states: Vec<New> = Vec::new();
    for layer in layers {
        let path = model.modules[layer.module as usize].path.clone().unwrap_or_default();
        if let Some(lora) = how.lora.as_ref().filter(|_| layer.is_adapted) {
            let rank = i64::from(lora.rank);
            for (name, shape) in [("lora_A", [rank, layer.inputs]), ("lora_B", [layer.outputs, rank])] {
                let name = format!("{path}.{name}.default.weight");
                adapters.push(New { weight: weight(name, &shape, Dtype::Float32, true), after: layer.last });
            }
        }
        for (name, shape, dtype) in
            how.quantize.filter(|_| layer.is_quantized).map_or_else(Vec::new, |quantize| states_of(quantize, layer))
        {
            let name = format!("{path}.weight.{name}");
            states.push(New { weight: weight(name, &shape, dtype, false), after: layer.weight });
        }
    }
    for old in &mut made.parameters {
        old.requires_grad = false;
    }
    let parameters = inserted(&made.parameters, &adapters);
    let (count, buffers) = (parameters.len() as u32, made.buffers.len() as u32);
    let given_before = model.given_count() as u32;
    let place = |old: u32| parameters.iter().position(|(_, from)| *from == Some(old)).map_or(0, |place| place as u32);
    let old_parameters = model.parameters.len() as u32;
    let given: Vec<TensorId> = (0..given_before)
        .map(|old| match old.checked_sub(old_parameters) {
            None => TensorId(place(old)),
            Some(buffer) if buffer < buffers => TensorId(count + buffer),
            Some(later) => TensorId(count + states.len() as u32 + later),
        })
        .collect();
    let new_of = |places: &[(Weight, Option<u32>)], layer: &Layer| -> Option<(TensorId, TensorId)> {
        let last = given[layer.last].0;
        let is_new = |number: u32| places.get(number as usize).is_some_and(|(_, from)| from.is_none());
        (layer.is_adapted && is_new(last + 1)).then_some((TensorId(last + 1), TensorId(last + 2)))
    };
    let mut next_state = count + buffers;
    let tensors: Vec<LayerTensors> = layers
        .iter()
        .map(|layer| {
            let own = if layer.is_quantized {
                how.quantize.map_or(0, |quantize| states_of(quantize, layer).len())
            } else {
                0
            };
            let from = next_state;
            next_state += own as u32;
            LayerTensors {
                weight: given[layer.weight],
                bias: layer.bias.map(|bias| given[bias]),
                adapter: new_of(&parameters, layer),
                states: (from..next_state).map(TensorId).collect(),
            }
        })
        .collect();
    made.parameters = parameters.into_iter().map(|(weight, _)| weight).collect();
    made.buffers.extend(states.iter().map(|new| new.weight.clone()));
    for (number, weight) in (0..).zip(made.parameters.iter_mut().chain(&mut made.buffers)) {
        weight.tensor = TensorId(number);
    }
    for (layer, tensors) in layers.iter().zip(&tensors) {
        if let Some(quantize) = how.quantize.filter(|_| layer.is_quantized) {
            quantize_weight(&mut made.parameters[tensors.weight.0 as usize], quantize, layer, tensors);
        }
    }
    made.move_order = move_order(model, &given, layers, &tensors);
    let shift = made.given_count() as u32 - given_before;
    for input in made.inputs.iter_mut().chain(&mut made.targets) {
        input.tensor = given[input.tensor.0 as usize];
    }
    Numbered { model: made, layers: tensors, given, shift }
}

fn weight(name: String, shape: &[i64], dtype: Dtype, requires_grad: bool) -> Weight {
    let names = vec![name];
    Weight { names, tensor: TensorId(0), shape: shape.to_vec(), dtype, requires_grad, quantization: None }
}

/// The parameters with the new ones after those they belong to, each old one with its old number.
fn inserted(old: &[Weight], new: &[New]) -> Vec<(Weight, Option<u32>)> {
    let mut all = Vec::with_capacity(old.len() + new.len());
    for (at, weight) in old.iter().enumerate() {
        all.push((weight.clone(), Some(at as u32)));
        all.extend(new.iter().filter(|new| new.after == at).map(|new| (new.weight.clone(), None)));
    }
    all
}

/// Children first: a layer's weight with what is stored beside it, its bias, its adapter.
fn move_order(model: &Model, given: &[TensorId], layers: &[Layer], tensors: &[LayerTensors]) -> Vec<TensorId> {
    let mut order = Vec::new();
    for TensorId(old) in &model.move_order {
        order.push(given[*old as usize]);
        for (layer, tensors) in layers.iter().zip(tensors) {
            if *old as usize == layer.weight {
                order.extend(&tensors.states);
            }
            if *old as usize == layer.last {
                order.extend(tensors.adapter.into_iter().flat_map(|(first, second)| [first, second]));
            }
        }
    }
    order
}

/// What is stored beside a quantised weight: names, shapes and types, in the order in which quantising makes them.
fn states_of(quantize: Quantize, layer: &Layer) -> Vec<(&'static str, Vec<i64>, Dtype)> {
    match quantize {
        Quantize::Int8 => vec![("SCB", vec![layer.outputs], Dtype::Float32)],
        Quantize::Nf4 { .. } => {
            let blocks = (layer.inputs * layer.outputs + BLOCK - 1) / BLOCK;
            vec![
                ("quant_map", vec![CODES], Dtype::Float32),
                ("nested_offset", Vec::new(), Dtype::Float32),
                ("nested_absmax", vec![(blocks + NESTED_BLOCK - 1) / NESTED_BLOCK], Dtype::Float32),
                ("absmax", vec![blocks], Dtype::Uint8),
                ("nested_quant_map", vec![NESTED_BLOCK], Dtype::Float32),
            ]
        }
    }
}

fn quantize_weight(weight: &mut Weight, quantize: Quantize, layer: &Layer, tensors: &LayerTensors) {
    let shape = vec![layer.outputs, layer.inputs];
    let scheme = match quantize {
        Quantize::Nf4 { .. } => Scheme::FourBit { block: BLOCK, is_nested: true },
        Quantize::Int8 => Scheme::EightBit,
    };
    let states = tensors.states.clone();
    let elements: i64 = shape.iter().product();
    let dtype = weight.dtype;
    (weight.shape, weight.dtype) = match quantize {
        Quantize::Nf4 { .. } => (vec![(elements + 1) / 2, 1], Dtype::Uint8),
        Quantize::Int8 => (shape.clone(), Dtype::Int8),
    };
    weight.quantization = Some(Box::new(Quantization { scheme, shape, dtype, states, is_moved_packed: false }));
}
