//! Which linear layers are split, by their names in known families.

use std::collections::BTreeMap;

use vramfit_graph::bind::Bound;
use vramfit_graph::model::{Model, Module};

/// How a linear layer is split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayerSplit {
    /// `ColwiseParallel`: each rank computes a part of the output.
    Columns,
    /// `RowwiseParallel`: each rank has a part of the input, and the outputs are added up.
    Rows,
}

/// The ends of names: projections of the hidden state into heads or into the MLP.
const COLUMNS: [&str; 14] = [
    "q_proj",
    "k_proj",
    "v_proj",
    "query",
    "key",
    "value",
    "q_lin",
    "k_lin",
    "v_lin",
    "gate_proj",
    "up_proj",
    "fc1",
    "lin1",
    "intermediate.dense",
];
/// The same for projections back.
const ROWS: [&str; 8] =
    ["o_proj", "out_proj", "out_lin", "self_attn.dense", "down_proj", "fc2", "lin2", "output.dense"];

/// The linear layers that are split, by module.
pub fn split_layers(bound: &Bound<'_>) -> BTreeMap<u32, LayerSplit> {
    let modules = bound.model.modules.iter().enumerate();
    modules.filter_map(|(index, module)| Some((index as u32, split_of(module)?))).collect()
}

fn split_of(module: &Module) -> Option<LayerSplit> {
    let path = module.path.as_deref().filter(|_| module.class == "Linear")?;
    let ends = |name: &&str| path.strip_suffix(name).is_some_and(|owner| owner.ends_with('.'));
    if COLUMNS.iter().any(ends) {
        Some(LayerSplit::Columns)
    } else if ROWS.iter().any(ends) && !path.contains("classifier.") {
        Some(LayerSplit::Rows)
    } else {
        None
    }
}

/// The numbers of a layer's weight and bias among the model's parameters.
pub fn weights_of(model: &Model, module: u32) -> [Option<usize>; 2] {
    let path = model.modules[module as usize].path.as_deref().unwrap_or_default();
    ["weight", "bias"].map(|name| {
        let is_it = |full: &String| full.strip_suffix(name).and_then(|rest| rest.strip_suffix('.')) == Some(path);
        model.parameters.iter().position(|weight| weight.names.iter().any(is_it))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_decide_how_a_layer_is_split_and_heads_of_classifiers_stay_whole() {
        let split =
            |path: &str, class: &str| split_of(&Module { path: Some(path.to_owned()), class: class.to_owned() });
        assert_eq!(split("model.layers.0.self_attn.q_proj", "Linear"), Some(LayerSplit::Columns));
        assert_eq!(split("encoder.layer.3.attention.output.dense", "Linear"), Some(LayerSplit::Rows));
        assert_eq!(split("encoder.layer.3.intermediate.dense", "Linear"), Some(LayerSplit::Columns));
        assert_eq!(split("classifier.out_proj", "Linear"), None);
        assert_eq!(split("model.layers.0.self_attn.q_proj", "Conv1D"), None);
        assert_eq!(split("pooler.dense", "Linear"), None);
    }
}
