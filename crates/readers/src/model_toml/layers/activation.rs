//! Activations and dropout: what changes each element on its own, and softmax.

use super::super::arguments::{Given, Kind, Made, boolean, float, int, maybe};
use super::super::call::{Arguments, LayerCall};
use super::super::error::{Fault, SketchError};
use super::super::node::{Node, Run};
use super::super::tensor::Tensor;
use vramfit_graph::dtype::Dtype;
use vramfit_graph::model::Argument;

pub(super) const NAMES: [&str; 20] = [
    "ReLU",
    "ReLU6",
    "SiLU",
    "GELU",
    "Tanh",
    "Sigmoid",
    "LeakyReLU",
    "ELU",
    "Hardswish",
    "Hardsigmoid",
    "Mish",
    "Softplus",
    "PReLU",
    "LogSigmoid",
    "Identity",
    "Softmax",
    "LogSoftmax",
    "Dropout",
    "Dropout1d",
    "Dropout2d",
];

pub(super) fn build(call: &LayerCall, location: &str) -> Option<Result<Node, SketchError>> {
    Some(match call.class.as_str() {
        "Softmax" | "LogSoftmax" => softmax(call, location),
        "Dropout" | "Dropout1d" | "Dropout2d" => dropout(call, location),
        "PReLU" => prelu(call, location),
        "Identity" => Ok(Node::new("Identity", |_, input| Ok(input.clone()))),
        _ => pointwise(call, location),
    })
}

/// Operator, whether it can work in place, and the numbers it takes: the argument, torch's default.
type Form = (&'static str, bool, &'static [(&'static str, f64)]);

fn form(class: &str) -> Form {
    match class {
        "ReLU" => ("relu", true, &[]),
        "ReLU6" => ("hardtanh", true, &[]),
        "SiLU" => ("silu", true, &[]),
        "GELU" => ("gelu", false, &[]),
        "Tanh" => ("tanh", false, &[]),
        "Sigmoid" => ("sigmoid", false, &[]),
        "LeakyReLU" => ("leaky_relu", true, &[("negative_slope", 0.01)]),
        "ELU" => ("elu", true, &[("alpha", 1.0)]),
        "Hardswish" => ("hardswish", true, &[]),
        "Hardsigmoid" => ("hardsigmoid", true, &[]),
        "Mish" => ("mish", true, &[]),
        "LogSigmoid" => ("log_sigmoid", false, &[]),
        _ => ("softplus", false, &[("beta", 1.0), ("threshold", 20.0)]),
    }
}

fn pointwise(call: &LayerCall, location: &str) -> Result<Node, SketchError> {
    let (operator, can_be_in_place, numbers) = form(&call.class);
    let mut names: Vec<&'static str> = numbers.iter().map(|(name, _)| *name).collect();
    if can_be_in_place {
        names.push("inplace");
    }
    if call.class == "GELU" {
        names.push("approximate");
    }
    let arguments = Arguments::new(call, location, &names)?;
    let mut more = Vec::new();
    for (name, default) in numbers {
        more.push(float(arguments.float_or(name, *default)?));
    }
    match call.class.as_str() {
        "ReLU6" => more = vec![float(0.0), float(6.0)],
        "GELU" => {
            let approximate = arguments.text_or("approximate", "none")?;
            if !["none", "tanh"].contains(&approximate.as_str()) {
                return Err(arguments.unfit("approximate", "'none' or 'tanh'"));
            }
            more.push(Given::Plain(Argument::Text(approximate)));
        }
        _ => {}
    }
    let in_place = arguments.bool_or("inplace", false)?;
    Ok(Node::new(&call.class, move |run, input| {
        if in_place {
            let mut given = vec![Given::Tensor(input.clone())];
            given.extend(more.iter().cloned());
            run.tape.call_in_place(&format!("aten.{operator}_.default"), given, Some(input));
            return Ok(input.clone());
        }
        Ok(run.pointwise(&format!("aten.{operator}.default"), input, more.clone()))
    }))
}

fn prelu(call: &LayerCall, location: &str) -> Result<Node, SketchError> {
    let arguments = Arguments::new(call, location, &["num_parameters"])?;
    let count = arguments.count_or("num_parameters", 1)?;
    let node = Node::new("PReLU", move |run, input| {
        if count != 1 && input.shape().get(1).and_then(|size| size.known()) != Some(count) {
            return Err(Fault::Needed(format!("the second size must be num_parameters, {count}")));
        }
        Ok(run.pointwise("aten.prelu.default", input, vec![maybe(run.parameter("weight"))]))
    });
    Ok(node.with_parameter("weight", &[count]))
}

fn softmax(call: &LayerCall, location: &str) -> Result<Node, SketchError> {
    let arguments = Arguments::new(call, location, &["dim"])?;
    if arguments.find("dim").is_none() {
        return Err(arguments.unfit("dim", "the dimension, such as 1"));
    }
    let dim = arguments.int_or("dim", 1)?;
    let operator = if call.class == "Softmax" { "aten.softmax.int" } else { "aten.log_softmax.int" };
    Ok(Node::new(&call.class, move |run, input| {
        let rank = input.shape().len() as i64;
        if !(-rank..rank).contains(&dim) {
            return Err(Fault::Needed(format!("which has no dimension {dim}")));
        }
        let mut made = Made::contiguous(input.shape().to_vec());
        let mut dtype = Argument::None;
        if run.tape.lower().is_some() {
            made.kind = Kind::Exactly(Dtype::Float32);
            dtype = Argument::Dtype(Dtype::Float32);
        }
        Ok(run.one(operator, vec![Given::Tensor(input.clone()), int(dim), Given::Plain(dtype)], made))
    }))
}

fn dropout(call: &LayerCall, location: &str) -> Result<Node, SketchError> {
    let arguments = Arguments::new(call, location, &["p"])?;
    let share = arguments.float_or("p", 0.5)?;
    if !(0.0..=1.0).contains(&share) {
        return Err(arguments.unfit("p", "a number from 0 to 1"));
    }
    let is_by_channel = call.class != "Dropout";
    Ok(dropout_node(&call.class, share, is_by_channel))
}

pub(super) fn dropout_node(class: &str, share: f64, is_by_channel: bool) -> Node {
    let operator = if is_by_channel { "aten.feature_dropout.default" } else { "aten.dropout.default" };
    Node::new(class, move |run: &Run<'_>, input: &Tensor| {
        let more = vec![float(share), boolean(run.is_training())];
        if run.is_training() && share > 0.0 {
            return Ok(run.pointwise(operator, input, more));
        }
        // It has nothing to do and gives back what it was given.
        let mut given = vec![Given::Tensor(input.clone())];
        given.extend(more);
        run.tape.call_in_place(operator, given, Some(input));
        Ok(input.clone())
    })
}
