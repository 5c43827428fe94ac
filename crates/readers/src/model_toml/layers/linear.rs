//! `Linear` and `Embedding`.

use super::super::arguments::{Given, Made, boolean, int, maybe};
use super::super::call::{Arguments, LayerCall};
use super::super::dimension::Dimension;
use super::super::error::{Fault, SketchError};
use super::super::node::{Node, Run};
use super::super::tensor::Tensor;
use vramfit_graph::dtype::Dtype;

pub(super) const NAMES: [&str; 2] = ["Linear", "Embedding"];

pub(super) fn build(call: &LayerCall, location: &str) -> Option<Result<Node, SketchError>> {
    Some(match call.class.as_str() {
        "Linear" => linear(call, location),
        "Embedding" => embedding(call, location),
        _ => return None,
    })
}

fn linear(call: &LayerCall, location: &str) -> Result<Node, SketchError> {
    let arguments = Arguments::new(call, location, &["in_features", "out_features", "bias"])?;
    let bias = arguments.bool_or("bias", true)?;
    Ok(linear_node("Linear", arguments.count("in_features")?, arguments.count("out_features")?, bias))
}

/// A linear layer, or a class that behaves as one.
pub(super) fn linear_node(class: &str, inputs: i64, outputs: i64, bias: bool) -> Node {
    let node = Node::new(class, move |run, input| {
        let last = input.shape().last().and_then(Dimension::known);
        if last != Some(inputs) {
            return Err(Fault::Needed(format!("the last size must be in_features, {inputs}")));
        }
        if matches!(input.dtype(), Dtype::Int64 | Dtype::Int32) {
            let needed = "a linear layer takes no whole numbers: leave out dtype, or put an Embedding before it";
            return Err(Fault::Needed(needed.to_owned()));
        }
        Ok(apply(run, input, run.parameter("weight"), run.parameter("bias"), outputs))
    });
    node.with_parameter("weight", &[outputs, inputs]).with_parameter_if(bias, "bias", &[outputs])
}

/// `aten.linear`.
pub(super) fn apply(
    run: &Run<'_>,
    input: &Tensor,
    weight: Option<Tensor>,
    bias: Option<Tensor>,
    outputs: i64,
) -> Tensor {
    let mut shape = input.shape().to_vec();
    if let Some(last) = shape.last_mut() {
        *last = outputs.into();
    }
    let given = vec![Given::Tensor(input.clone()), maybe(weight), maybe(bias)];
    run.one("aten.linear.default", given, Made::contiguous(shape))
}

fn embedding(call: &LayerCall, location: &str) -> Result<Node, SketchError> {
    let arguments = Arguments::new(call, location, &["num_embeddings", "embedding_dim", "padding_idx"])?;
    let (rows, width) = (arguments.count("num_embeddings")?, arguments.count("embedding_dim")?);
    let padding = arguments.int_or("padding_idx", -1)?;
    let padding = if arguments.find("padding_idx").is_some() && padding < 0 { padding + rows } else { padding };
    let node = Node::new("Embedding", move |run, input| {
        if !matches!(input.dtype(), Dtype::Int64 | Dtype::Int32) {
            return Err(Fault::Needed("an embedding takes whole numbers: set dtype = \"int64\"".to_owned()));
        }
        let mut shape = input.shape().to_vec();
        shape.push(width.into());
        let weight = maybe(run.parameter("weight"));
        let given = vec![weight, Given::Tensor(input.clone()), int(padding), boolean(false), boolean(false)];
        Ok(run.one("aten.embedding.default", given, Made::contiguous(shape)))
    });
    Ok(node.with_parameter("weight", &[rows, width]))
}
