//! Facts about a node that follow from its name and arguments.

use std::borrow::Cow;

use super::graph::{RawArgument, RawGraph, RawNode};
use super::tensor_meta::RawSize;

/// Padding with a number: what `pad` is in its default mode.
pub(super) const PAD: &str = "aten.constant_pad_nd.default";

/// The operator that a composite with a single call inside amounts to.
pub(super) fn renamed<'a>(name: &'a str, node: &RawNode<'_>) -> &'a str {
    let mode = node.inputs.iter().find(|input| input.name == "mode").map(|input| &input.argument);
    let is_constant = mode.is_none_or(|mode| matches!(mode, RawArgument::Text(text) if text == "constant"));
    if name == "aten.pad.default" && is_constant { PAD } else { name }
}

/// A node's name in messages.
pub(super) fn node_location(node: &RawNode<'_>, at: usize) -> String {
    let output = || {
        let mut first = None;
        node.outputs.iter().for_each(|output| argument_tensors(output, &mut |name| first = first.or(Some(name))));
        first
    };
    match node.name.as_deref().or_else(output) {
        Some(name) => format!("node `{name}`"),
        None => format!("nodes[{at}]"),
    }
}

/// Visits the names of an argument's tensors.
pub(super) fn argument_tensors<'a>(argument: &'a RawArgument<'_>, visit: &mut impl FnMut(&'a str)) {
    match argument {
        RawArgument::Tensor(name) => visit(name),
        RawArgument::Tensors(names) => names.iter().flatten().for_each(|name| visit(name)),
        _ => {}
    }
}

/// A graph and the names of the tensors that it is given.
type Branch<'a> = (&'a RawGraph<'a>, &'a [Option<Cow<'a, str>>]);

/// The branch of a `cond` whose tensors have most bytes in the example, and its operands.
pub(super) fn largest_branch<'a>(node: &'a RawNode<'a>) -> Option<Branch<'a>> {
    let [_, branches @ .., last] = &node.inputs[..] else { return None };
    let RawArgument::Tensors(operands) = &last.argument else { return None };
    let mut found: Option<(u128, &RawGraph<'_>)> = None;
    for branch in branches {
        let RawArgument::Graph(graph) = &branch.argument else { return None };
        let bytes = bytes(graph);
        if found.is_none_or(|(most, _)| bytes > most) {
            found = Some((bytes, graph));
        }
    }
    found.map(|(_, graph)| (graph, &operands[..]))
}

/// The bytes of all tensors of a graph and its nested graphs in the example.
fn bytes(graph: &RawGraph<'_>) -> u128 {
    let size = |size: &RawSize| match size {
        RawSize::Known(size) | RawSize::Expression { hint: Some(size), .. } => u128::try_from(*size).unwrap_or(0),
        RawSize::Expression { hint: None, .. } => 1,
    };
    let own = graph.tensors.iter().map(|(_, meta)| {
        let elements = meta.shape.iter().map(size).fold(1, u128::saturating_mul);
        elements.saturating_mul(u128::from(meta.dtype.bytes()))
    });
    let within = graph.nodes.iter().flat_map(|node| &node.inputs).map(|input| match &input.argument {
        RawArgument::Graph(graph) => bytes(graph),
        _ => 0,
    });
    own.chain(within).fold(0, u128::saturating_add)
}

/// Whether a method that names a type, such as `float`, made a call.
pub(super) fn is_by_method(node: &RawNode<'_>) -> bool {
    let name = node.function.split_once(';').and_then(|(_, function)| function.rsplit('.').next());
    matches!(name, Some("float" | "double" | "half" | "bfloat16"))
}

/// Whether a node only computes numbers for Python or checks something.
pub(super) fn is_for_python(name: &str) -> bool {
    let base = name.strip_prefix("aten.").unwrap_or(name);
    ["sym_", "_assert", "_operator.", "math.", "torch.sym_"].iter().any(|start| base.starts_with(start))
}
