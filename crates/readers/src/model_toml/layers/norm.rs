//! Normalisations.

use super::super::arguments::{Given, Kind, Made, boolean, float, int, ints, maybe};
use super::super::call::{Arguments, LayerCall, Value};
use super::super::dimension::Dimension;
use super::super::error::{Fault, SketchError};
use super::super::node::{Node, Run};
use super::super::tensor::{Tensor, drop_in_order};
use vramfit_graph::dtype::Dtype;
use vramfit_graph::model::{Argument, Cast};

pub(super) const NAMES: [&str; 9] = [
    "BatchNorm1d",
    "BatchNorm2d",
    "BatchNorm3d",
    "InstanceNorm1d",
    "InstanceNorm2d",
    "InstanceNorm3d",
    "GroupNorm",
    "LayerNorm",
    "RMSNorm",
];

pub(super) fn build(call: &LayerCall, location: &str) -> Option<Result<Node, SketchError>> {
    Some(match call.class.as_str() {
        "GroupNorm" => group_norm(call, location),
        "LayerNorm" => layer_norm(call, location),
        "RMSNorm" => rms_norm(call, location),
        class if class.starts_with("BatchNorm") => batch_norm(call, location),
        class if class.starts_with("InstanceNorm") => instance_norm(call, location),
        _ => return None,
    })
}

/// The number of dimensions of what comes in, as the class's name says it.
fn ranks(class: &str) -> &'static [usize] {
    match class.chars().rev().nth(1) {
        Some('1') => &[2, 3],
        Some('2') => &[4],
        _ => &[5],
    }
}

fn check_channels(input: &Tensor, class: &str, channels: i64) -> Result<(), Fault> {
    let is_rank = ranks(class).contains(&input.shape().len());
    if is_rank && input.shape()[1].known() == Some(channels) {
        return Ok(());
    }
    let ranks: Vec<String> = ranks(class).iter().map(usize::to_string).collect();
    Err(Fault::Needed(format!("{} sizes of which the second is {channels} are needed", ranks.join(" or "))))
}

fn batch_norm(call: &LayerCall, location: &str) -> Result<Node, SketchError> {
    let arguments = Arguments::new(call, location, &["num_features", "eps", "momentum", "affine"])?;
    let channels = arguments.count("num_features")?;
    let (eps, momentum) = (arguments.float_or("eps", 1e-5)?, arguments.float_or("momentum", 0.1)?);
    let affine = arguments.bool_or("affine", true)?;
    let class = call.class.clone();
    let node = Node::new(&call.class, move |run, input| {
        check_channels(input, &class, channels)?;
        let is_training = run.is_training();
        if is_training && let Some(count) = run.buffer("num_batches_tracked") {
            run.tape.call_in_place(
                "aten.add_.Tensor",
                vec![Given::Tensor(count.clone()), int(1), int(1)],
                Some(&count),
            );
        }
        let given = vec![
            Given::Tensor(input.clone()),
            maybe(run.parameter("weight")),
            maybe(run.parameter("bias")),
            maybe(run.buffer("running_mean")),
            maybe(run.buffer("running_var")),
            boolean(is_training),
            float(momentum),
            float(eps),
            boolean(true),
        ];
        Ok(run.one("aten.batch_norm.default", given, Made::contiguous(input.shape().to_vec())))
    });
    Ok(node
        .with_parameter_if(affine, "weight", &[channels])
        .with_parameter_if(affine, "bias", &[channels])
        .with_buffer("running_mean", &[channels], Dtype::Float32)
        .with_buffer("running_var", &[channels], Dtype::Float32)
        .with_buffer("num_batches_tracked", &[], Dtype::Int64))
}

fn instance_norm(call: &LayerCall, location: &str) -> Result<Node, SketchError> {
    let arguments = Arguments::new(call, location, &["num_features", "eps", "momentum", "affine"])?;
    let channels = arguments.count("num_features")?;
    let (eps, momentum) = (arguments.float_or("eps", 1e-5)?, arguments.float_or("momentum", 0.1)?);
    let affine = arguments.bool_or("affine", false)?;
    let class = call.class.clone();
    let node = Node::new(&call.class, move |run, input| {
        if input.shape().len() < 3 {
            return Err(Fault::Needed("a batch of images or signals is needed".to_owned()));
        }
        check_channels(input, &class, channels)?;
        let none = Given::Plain(Argument::None);
        let given = vec![
            Given::Tensor(input.clone()),
            maybe(run.parameter("weight")),
            maybe(run.parameter("bias")),
            none.clone(),
            none,
            boolean(true),
            float(momentum),
            float(eps),
            boolean(true),
        ];
        Ok(run.one("aten.instance_norm.default", given, Made::contiguous(input.shape().to_vec())))
    });
    Ok(node.with_parameter_if(affine, "weight", &[channels]).with_parameter_if(affine, "bias", &[channels]))
}

fn group_norm(call: &LayerCall, location: &str) -> Result<Node, SketchError> {
    let arguments = Arguments::new(call, location, &["num_groups", "num_channels", "eps", "affine"])?;
    let (groups, channels) = (arguments.count("num_groups")?, arguments.count("num_channels")?);
    if channels % groups != 0 {
        return Err(arguments.unfit("num_groups", "a divisor of num_channels"));
    }
    let (eps, affine) = (arguments.float_or("eps", 1e-5)?, arguments.bool_or("affine", true)?);
    let node = Node::new("GroupNorm", move |run, input| {
        if input.shape().len() < 2 || input.shape()[1].known() != Some(channels) {
            return Err(Fault::Needed(format!("the second size must be num_channels, {channels}")));
        }
        let given = vec![
            Given::Tensor(input.clone()),
            int(groups),
            maybe(run.parameter("weight")),
            maybe(run.parameter("bias")),
            float(eps),
            boolean(true),
        ];
        Ok(run.one("aten.group_norm.default", given, Made::contiguous(input.shape().to_vec())))
    });
    Ok(node.with_parameter_if(affine, "weight", &[channels]).with_parameter_if(affine, "bias", &[channels]))
}

fn normalized_shape(arguments: &Arguments<'_>) -> Result<Vec<i64>, SketchError> {
    let dimensions = match arguments.find("normalized_shape") {
        Some(Value::Tuple(sizes)) => sizes.len(),
        _ => 1,
    };
    let found = arguments.each("normalized_shape", dimensions, 1)?;
    found.ok_or_else(|| arguments.unfit("normalized_shape", "a whole number from 1 on, or several"))
}

fn check_normalized(input: &Tensor, normalized: &[i64]) -> Result<(), Fault> {
    let last = input.shape().len().checked_sub(normalized.len()).map(|at| &input.shape()[at..]);
    let fits = last.is_some_and(|last| last.iter().map(Dimension::known).eq(normalized.iter().map(|size| Some(*size))));
    if fits { Ok(()) } else { Err(Fault::Needed(format!("the last sizes must be {normalized:?}"))) }
}

fn layer_norm(call: &LayerCall, location: &str) -> Result<Node, SketchError> {
    let arguments = Arguments::new(call, location, &["normalized_shape", "eps", "elementwise_affine", "bias"])?;
    let affine = arguments.bool_or("elementwise_affine", true)?;
    let bias = affine && arguments.bool_or("bias", true)?;
    Ok(layer_norm_node(normalized_shape(&arguments)?, arguments.float_or("eps", 1e-5)?, affine, bias))
}

pub(super) fn layer_norm_node(normalized: Vec<i64>, eps: f64, affine: bool, bias: bool) -> Node {
    let shape = normalized.clone();
    let node = Node::new("LayerNorm", move |run, input| {
        check_normalized(input, &normalized)?;
        let given = vec![
            Given::Tensor(input.clone()),
            ints(&normalized),
            maybe(run.parameter("weight")),
            maybe(run.parameter("bias")),
            float(eps),
            boolean(true),
        ];
        Ok(run.one("aten.layer_norm.default", given, Made::contiguous(input.shape().to_vec())))
    });
    node.with_parameter_if(affine, "weight", &shape).with_parameter_if(bias, "bias", &shape)
}

fn rms_norm(call: &LayerCall, location: &str) -> Result<Node, SketchError> {
    let arguments = Arguments::new(call, location, &["normalized_shape", "eps", "elementwise_affine"])?;
    let normalized = normalized_shape(&arguments)?;
    let eps = match arguments.find("eps") {
        Some(_) => Some(arguments.float_or("eps", 0.0)?),
        None => None,
    };
    let affine = arguments.bool_or("elementwise_affine", true)?;
    let shape = normalized.clone();
    let node = Node::new("RMSNorm", move |run, input| {
        check_normalized(input, &normalized)?;
        let weight = run.parameter("weight");
        if weight.as_ref().is_some_and(|weight| weight.dtype() != input.dtype()) {
            return Ok(opened_rms_norm(run, input, weight, &normalized, eps));
        }
        let eps = eps.map_or(Given::Plain(Argument::None), float);
        let mut statistics = input.shape().to_vec();
        let kept = statistics.len() - normalized.len();
        statistics[kept..].fill(Dimension::Known(1));
        let given = vec![Given::Tensor(input.clone()), ints(&normalized), maybe(weight), eps];
        let statistics = Made { kind: Kind::Exactly(Dtype::Float32), ..Made::contiguous(statistics) };
        let made = vec![Made::contiguous(input.shape().to_vec()), statistics];
        let mut results = run.tape.call("aten._fused_rms_norm.default", given, made);
        Ok(results.swap_remove(0))
    });
    Ok(node.with_parameter_if(affine, "weight", &shape))
}

/// Where weight and input differ in type, PyTorch computes it step by step in single precision.
fn opened_rms_norm(
    run: &Run<'_>,
    input: &Tensor,
    weight: Option<Tensor>,
    normalized: &[i64],
    eps: Option<f64>,
) -> Tensor {
    let single = run.tape.to(input, Dtype::Float32, Cast::No);
    let squares = run.pointwise("aten.pow.Tensor_Scalar", &single, vec![int(2)]);
    let rank = input.shape().len();
    let first = rank - normalized.len();
    let mut shape = input.shape().to_vec();
    shape[first..].fill(Dimension::Known(1));
    let dims: Vec<i64> = (first as i64..rank as i64).collect();
    let given = vec![Given::Tensor(squares.clone()), ints(&dims), boolean(true)];
    let mean = run.one("aten.mean.dim", given, Made::contiguous(shape));
    let eps = float(eps.unwrap_or(f64::from(f32::EPSILON)));
    run.tape.call_in_place("aten.add_.Scalar", vec![Given::Tensor(mean.clone()), eps], Some(&mean));
    let root = run.pointwise("aten.rsqrt.default", &mean, Vec::new());
    drop_in_order([mean, squares]);
    let scaled = run.one(
        "aten.mul.Tensor",
        vec![Given::Tensor(single.clone()), Given::Tensor(root.clone())],
        Made::contiguous(input.shape().to_vec()),
    );
    let weighted = run.one(
        "aten.mul.Tensor",
        vec![Given::Tensor(scaled.clone()), maybe(weight)],
        Made::contiguous(input.shape().to_vec()),
    );
    drop_in_order([scaled, single]);
    let mut made = Made::contiguous(input.shape().to_vec());
    made.kind = Kind::Exactly(input.dtype());
    let given = vec![Given::Tensor(weighted.clone()), Given::Tensor(input.clone())];
    let result = run.one("aten.type_as.default", given, made);
    drop_in_order([weighted, root]);
    result
}
