//! What the model returns: which tensor is the loss, and the order in which Python frees the rest.

use serde_json::Value as Json;

use super::document::{OutputSpec, Program};
use super::flatten::Flat;
use super::graph::RawArgument;
use super::precision::is_real;
use super::scope::Scope;
use crate::error::ReadError;
use vramfit_graph::model::TensorId;

/// What the model returns.
pub(super) struct Outputs {
    /// In order.
    pub(super) tensors: Vec<TensorId>,
    /// In the order in which Python frees them.
    pub(super) released: Vec<TensorId>,
    /// The scalar that backward starts from.
    pub(super) loss: Option<TensorId>,
}

/// Finds what the graph returns.
pub(super) fn outputs(program: &Program<'_>, flat: &Flat<'_>, scope: &Scope<'_>) -> Result<Outputs, ReadError> {
    let mut loss = None;
    // One for each leaf of the returned value, `None` where it is not a tensor.
    let mut leaves: Vec<Option<TensorId>> = Vec::new();
    for (at, spec) in program.outputs.iter().enumerate() {
        let location = || format!("signature.output_specs[{at}]");
        match spec {
            OutputSpec::Loss(name) => {
                let tensor = scope.tensor(name, location)?;
                loss = Some(tensor);
                leaves.push(Some(tensor));
            }
            OutputSpec::Returned(RawArgument::Tensor(name)) => leaves.push(Some(scope.tensor(name, location)?)),
            OutputSpec::Returned(_) => leaves.push(None),
            OutputSpec::Other => {}
        }
    }
    let is_loss = |tensor: &TensorId| {
        let value = &flat.values[tensor.0 as usize];
        value.shape.is_empty() && is_real(value.dtype)
    };
    let loss = loss.or_else(|| leaves.iter().flatten().copied().find(is_loss));
    let order = program.out_spec.as_deref().and_then(|spec| release_order(spec, leaves.len()));
    let order = order.unwrap_or_else(|| (0..leaves.len()).rev().collect());
    let released = each_once(order.into_iter().filter_map(|leaf| leaves[leaf]));
    Ok(Outputs { tensors: each_once(leaves.into_iter().flatten()), released, loss })
}

fn each_once(tensors: impl Iterator<Item = TensorId>) -> Vec<TensorId> {
    let mut found: Vec<TensorId> = Vec::new();
    for tensor in tensors {
        if !found.contains(&tensor) {
            found.push(tensor);
        }
    }
    found
}

/// The order in which the leaves of a nested value are freed: lists and tuples from their end, others from their beginning.
fn release_order(spec: &str, count: usize) -> Option<Vec<usize>> {
    let tree: Json = serde_json::from_str(spec).ok()?;
    let mut order = Vec::new();
    let mut next = 0;
    let ordered = visit(tree.get(1)?, &mut next)?;
    order.extend(ordered);
    (next == count).then_some(order)
}

fn visit(node: &Json, next: &mut usize) -> Option<Vec<usize>> {
    let children = node.get("children_spec")?.as_array()?;
    let kind = node.get("type")?;
    if kind.is_null() {
        *next += 1;
        return Some(vec![*next - 1]);
    }
    let mut parts = Vec::with_capacity(children.len());
    for child in children {
        parts.push(visit(child, next)?);
    }
    if matches!(kind.as_str(), Some("builtins.tuple" | "builtins.list")) {
        parts.reverse();
    }
    Some(parts.into_iter().flatten().collect())
}

#[cfg(test)]
mod tests {
    use super::release_order;

    #[test]
    fn tuples_go_from_their_end() {
        let leaf = r#"{"type": null, "context": null, "children_spec": []}"#;
        let tuple = |parts: &[&str]| {
            format!(r#"{{"type": "builtins.tuple", "context": "null", "children_spec": [{}]}}"#, parts.join(","))
        };
        let spec = format!("[1, {}]", tuple(&[leaf, &tuple(&[leaf, leaf]), leaf]));
        assert_eq!(release_order(&spec, 4), Some(vec![3, 2, 1, 0]));
        assert_eq!(release_order(&spec, 5), None);
        assert_eq!(release_order("[1]", 1), None);
        assert_eq!(release_order("no", 1), None);
    }
}
