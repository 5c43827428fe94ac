//! The linear layers of a model, and what is done with each.

use std::collections::BTreeSet;

use vramfit_eager::forward::is_transformers_model;
use vramfit_graph::model::{Model, Step, Weight};

use crate::{FineTuning, Refusal, targets};

/// The class of GPT-2's linear layers, whose weights are turned round. Quantised weights are not.
pub const TURNED: &str = "Conv1D";

/// A linear layer that is changed.
#[derive(Clone, Debug)]
pub(crate) struct Layer {
    /// Its module.
    pub module: u32,
    /// The index of its weight among the parameters.
    pub weight: usize,
    /// The index of its bias.
    pub bias: Option<usize>,
    /// The index of its last parameter, the bias if it has one.
    pub last: usize,
    /// How many numbers it takes for a sample.
    pub inputs: i64,
    /// How many it returns.
    pub outputs: i64,
    /// Whether it gets an adapter.
    pub is_adapted: bool,
    /// Whether its weight is quantised.
    pub is_quantized: bool,
}

/// The layers that are changed, in the order of the modules.
pub(crate) fn of(model: &Model, how: &FineTuning) -> Result<Vec<Layer>, Refusal> {
    let is_quantized = model.parameters.iter().any(|weight| weight.quantization.is_some());
    if is_quantized && how.quantize.is_some() {
        return Err(Refusal::Already { flag: "--quantize", what: "quantised weights" });
    }
    let is_adapter = |weight: &Weight| weight.names.iter().any(|name| name.contains(".lora_A."));
    if how.lora.is_some() && model.parameters.iter().any(is_adapter) {
        return Err(Refusal::Already { flag: "--lora", what: "adapters" });
    }
    let called: Vec<u32> = calls(model);
    let linear: Vec<(u32, Layer)> = called.iter().filter_map(|&module| Some((module, layer(model, module)?))).collect();
    let path = |module: u32| model.modules[module as usize].path.as_deref().unwrap_or_default();
    let Some(&(output, _)) = linear.last() else {
        let flag = if how.lora.is_some() { "--lora" } else { "--quantize" };
        let what = if how.lora.is_some() { "adapted" } else { "quantised" };
        return Err(Refusal::NoLinearLayers { flag, class: model.class.clone(), what });
    };
    let paths: Vec<&str> = linear.iter().map(|(module, _)| path(*module)).collect();
    let adapted = match &how.lora {
        Some(lora) => {
            let last = linear.last().filter(|(_, layer)| is_output_embedding(model, layer));
            targets::chosen(model, &paths, last.map(|(module, _)| path(*module)), &lora.targets)?
        }
        None => vec![false; linear.len()],
    };
    // transformers leaves out the layer that makes the output, and weights that an embedding shares.
    let is_quantized = |module: u32, layer: &Layer| {
        let is_plain = matches!(model.modules[module as usize].class.as_str(), "Linear" | TURNED);
        how.quantize.is_some() && is_plain && module != output && model.parameters[layer.weight].names.len() == 1
    };
    let mut layers: Vec<Layer> = linear
        .into_iter()
        .zip(adapted)
        .map(|((module, layer), is_adapted)| {
            let is_quantized = is_quantized(module, &layer);
            Layer { is_adapted, is_quantized, ..layer }
        })
        .filter(|layer| layer.is_adapted || layer.is_quantized)
        .collect();
    if how.quantize.is_some() && !layers.iter().any(|layer| layer.is_quantized) {
        return Err(Refusal::NoLinearLayers { flag: "--quantize", class: model.class.clone(), what: "quantised" });
    }
    layers.sort_by_key(|layer| layer.module);
    Ok(layers)
}

/// Whether a model of transformers has this layer as its output embedding: it gives a number for each entry of an embedding of
/// tokens, which is the first that its parent calls.
fn is_output_embedding(model: &Model, layer: &Layer) -> bool {
    let embeddings = calls(model).into_iter().filter_map(|module| {
        let found = &model.modules[module as usize];
        let path = found.path.as_deref().filter(|_| found.class.ends_with("Embedding"))?;
        let name = format!("{path}.weight");
        let weight = model.parameters.iter().find(|weight| weight.names.contains(&name))?;
        Some((path.rsplit_once('.').map_or("", |(parent, _)| parent), weight.shape.first()))
    });
    let mut parents = BTreeSet::new();
    let mut of_tokens = embeddings.filter(|(parent, _)| parents.insert(*parent));
    is_transformers_model(model) && of_tokens.any(|(_, entries)| entries == Some(&layer.outputs))
}

/// The path of the last linear layer that is called.
pub(crate) fn output(model: &Model) -> Option<&str> {
    let last = calls(model).into_iter().rfind(|module| layer(model, *module).is_some())?;
    model.modules[last as usize].path.as_deref()
}

/// The modules that the first pass calls, in the order of their first calls.
fn calls(model: &Model) -> Vec<u32> {
    let mut seen = BTreeSet::new();
    let steps = model.variants.first().map(|variant| model.steps[variant.steps].as_slice()).unwrap_or_default();
    let entered = steps.iter().filter_map(|step| match step {
        Step::Enter(module, _) => Some(*module),
        _ => None,
    });
    entered.filter(|module| seen.insert(*module)).collect()
}

/// A linear layer, or the layer of GPT-2 that is one with its weight turned round.
fn layer(model: &Model, module: u32) -> Option<Layer> {
    let found = &model.modules[module as usize];
    let path = found.path.as_deref()?;
    let own = |name: &str| {
        let wanted = if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
        model.parameters.iter().position(|weight| weight.names.contains(&wanted))
    };
    let weight = own("weight")?;
    let &[first, second] = model.parameters[weight].shape.as_slice() else { return None };
    let (outputs, inputs) = match found.class.as_str() {
        "Linear" | "NonDynamicallyQuantizableLinear" => (first, second),
        TURNED => (second, first),
        _ => return None,
    };
    let bias = own("bias");
    let last = bias.map_or(weight, |bias| bias.max(weight));
    Some(Layer { module, weight, bias, last, inputs, outputs, is_adapted: false, is_quantized: false })
}
