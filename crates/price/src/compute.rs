//! GPU times of compute-bound operators: matrix products, attention, convolutions, recurrent layers.

use vramfit_graph::bind::{BoundTensor, Value};

use crate::call_tensors::{CallTensors, is_channels_last, is_half};
use crate::points::Points;
use crate::scale::{Load, Movement, Scale, Units};
use crate::tables::{PerPass, Product, TABLES};

/// Number of operations that the measured costs of [`Points`] refer to.
const UNIT: f64 = 1e6;

fn count(sizes: &[i64]) -> f64 {
    sizes.iter().map(|&size| size as f64).product()
}

/// 1 for a needed gradient, 0 otherwise.
fn share(requires_grad: bool) -> f64 {
    f64::from(u8::from(requires_grad))
}

/// A matrix product `[rows, inner] × [inner, outer]`.
pub(crate) fn matrix_product(which: Product, sizes: [f64; 3], is_half: bool, scale: Scale) -> f64 {
    let [rows, inner, outer] = sizes;
    let grid = TABLES.product(which, is_half);
    // Each multiprocessor gets as many rows as on the measured GPU.
    let time = grid.at([rows * scale.multiprocessors, inner, outer]);
    let odd = [inner, outer].iter().any(|size| size % 2.0 != 0.0);
    let unaligned = [inner, outer].iter().any(|size| size % 8.0 != 0.0);
    let [odd_factor, even_factor] = TABLES.unaligned[usize::from(is_half)][which as usize];
    let factor = match (odd, unaligned) {
        (true, _) => odd_factor,
        (false, true) => even_factor,
        _ => 1.0,
    };
    let time = time * factor;
    let min = grid.min().min(time);
    let load = Load {
        operations: 2.0 * rows * inner * outer,
        units: Units::Products,
        is_half,
        bytes: width(is_half) * (rows * inner + inner * outer + rows * outer),
    };
    min + scale.compute_bound((time - min) / scale.multiprocessors, load)
}

/// Bytes of an element.
fn width(is_half: bool) -> f64 {
    if is_half { 2.0 } else { 4.0 }
}

/// The product of two arguments, optionally with a bias. `is_transposed` is for a second argument of shape
/// `[outer, inner]`, as a linear layer's weight has.
pub(crate) fn product(
    tensors: &CallTensors<'_>,
    (first, second): (usize, usize),
    bias: Option<usize>,
    is_transposed: bool,
    scale: Scale,
) -> PerPass<f64> {
    let (Some(one), Some(other)) = (tensors.tensor(first), tensors.tensor(second)) else { return [0.0; 2] };
    let (Some((&inner, outer_dims)), Some(&last)) = (one.shape.split_last(), other.shape.last()) else {
        return [0.0; 2];
    };
    let half = is_half(one.dtype);
    if !is_transposed && other.shape.len() > 2 {
        return batched(one, other, scale);
    }
    let outer = if is_transposed { other.shape[0] } else { last };
    let sizes = [count(outer_dims), inner as f64, outer as f64];
    let mut backward = 0.0;
    if one.requires_grad {
        backward += matrix_product(Product::ForInput, sizes, half, scale);
    }
    if other.requires_grad {
        backward += matrix_product(Product::ForWeight, sizes, half, scale);
    }
    if bias.is_some_and(|bias| tensors.requires_grad(bias))
        && let Some(kernel) = TABLES.kernel("sum_rows")
    {
        let curve = &kernel.0[usize::from(half)][0];
        backward += scale.memory_bound(Movement::of(curve, sizes[0] * sizes[2]));
    }
    [matrix_product(Product::Forward, sizes, half, scale), backward]
}

/// A linear layer whose weight is unpacked for each pass, which takes as long as a cast of as many elements.
pub(crate) fn unpacked_product(tensors: &CallTensors<'_>, scale: Scale) -> PerPass<f64> {
    let (Some(input), Some(result)) = (tensors.tensor(0), tensors.result) else { return [0.0; 2] };
    let (Some((&inner, outer_dims)), Some(&outer)) = (input.shape.split_last(), result.shape.last()) else {
        return [0.0; 2];
    };
    let half = is_half(input.dtype);
    let sizes = [count(outer_dims), inner as f64, outer as f64];
    let unpack = TABLES
        .kernel("to_half")
        .map_or(0.0, |kernel| scale.memory_bound(Movement::of(&kernel.0[usize::from(half)][0], sizes[1] * sizes[2])));
    let backward = share(result.requires_grad) * (unpack + matrix_product(Product::ForInput, sizes, half, scale));
    [unpack + matrix_product(Product::Forward, sizes, half, scale), backward]
}

/// The time of the work of `loads`, forward and backward, interpolated from the measured points. The costs of both are for the
/// operations of the forward pass.
fn interpolated(points: Option<&Points>, sizes: [f64; 3], loads: PerPass<Load>, scale: Scale) -> PerPass<f64> {
    let Some(points) = points else { return [0.0; 2] };
    let [size, second, third] = sizes;
    let size = scale.filling(size, || points.largest_near([second, third]));
    let [forward, backward] = points.at([size, second, third]).map(|cost| cost * loads[0].operations / UNIT);
    [scale.compute_bound(forward, loads[0]), scale.compute_bound(backward, loads[1])]
}

fn batched(one: &BoundTensor, other: &BoundTensor, scale: Scale) -> PerPass<f64> {
    let ([leading @ .., rows, inner], [others @ .., _, outer]) = (one.shape.as_slice(), other.shape.as_slice()) else {
        return [0.0; 2];
    };
    let half = is_half(one.dtype);
    let batch = count(leading).max(count(others));
    let load = Load {
        operations: 2.0 * batch * count(&[*rows, *inner, *outer]),
        units: Units::Products,
        is_half: half,
        bytes: width(half) * batch * (count(&[*rows, *inner]) + count(&[*inner, *outer]) + count(&[*rows, *outer])),
    };
    let sizes = [batch, count(&[*rows, *outer]), *inner as f64];
    let [forward, backward] = interpolated(TABLES.points("batched", half), sizes, [load, load.times(2.0)], scale);
    [forward, backward * (share(one.requires_grad) + share(other.requires_grad)) / 2.0]
}

pub(crate) fn attention(tensors: &CallTensors<'_>, scale: Scale) -> PerPass<f64> {
    let (Some(query), Some(key)) = (tensors.tensor(0), tensors.tensor(1)) else { return [0.0; 2] };
    let ([leading @ .., queries, width], [.., keys, _]) = (query.shape.as_slice(), key.shape.as_slice()) else {
        return [0.0; 2];
    };
    let half = is_half(query.dtype);
    let heads = count(leading);
    let load = Load {
        operations: 4.0 * heads * count(&[*queries, *keys, *width]),
        units: Units::Products,
        is_half: half,
        bytes: 2.0 * (query.bytes + key.bytes) as f64,
    };
    let tokens = count(&[*queries, *keys]).sqrt();
    let sizes = [heads, tokens, *width as f64];
    // The backward pass computes the scores again: five products instead of two.
    let at = |kind: &str| interpolated(TABLES.points(kind, half), sizes, [load, load.times(2.5)], scale);
    let kind = if matches!(tensors.call.arguments.get(3), Some(Value::Tensor(_))) {
        "attention_masked"
    } else if matches!(tensors.call.arguments.get(5), Some(Value::Bool(true))) {
        "attention_causal"
    } else {
        "attention_plain"
    };
    let mut times = at(kind);
    if matches!(tensors.call.arguments.get(4), Some(Value::Float(dropout)) if *dropout > 0.0) {
        let (with, without) = (at("attention_dropout"), at("attention_plain"));
        for ((time, with), without) in times.iter_mut().zip(with).zip(without) {
            *time *= with / without;
        }
    }
    times
}

/// The family of measured convolutions that a convolution belongs to.
fn family(is_channels_last: bool, kind: &str) -> String {
    format!("convolution_{}_{kind}", if is_channels_last { "last" } else { "first" })
}

fn convolution_kind(is_transposed: bool, groups: i64, inputs: i64, kernel_size: i64) -> &'static str {
    match (is_transposed, groups, kernel_size) {
        (true, ..) => "transposed",
        (_, groups, _) if groups == inputs && groups > 1 => "depth",
        (_, groups, _) if groups > 1 => "group",
        (_, _, 1) => "point",
        _ => "wide",
    }
}

pub(crate) fn convolution(tensors: &CallTensors<'_>, is_transposed: bool, scale: Scale) -> PerPass<f64> {
    let (Some(input), Some(weight), Some(result)) = (tensors.tensor(0), tensors.tensor(1), tensors.result) else {
        return [0.0; 2];
    };
    let ([one, two, kernel @ ..], Some(&batch)) = (weight.shape.as_slice(), input.shape.first()) else {
        return [0.0; 2];
    };
    let half = is_half(input.dtype);
    let channels = input.shape.get(1).copied().unwrap_or(1);
    // A transposed convolution's weight has the input channels first, and its kernel is applied at each pixel of the
    // input instead of the result.
    let (inner, outer, positioned) = if is_transposed { (*one, *two, input) } else { (*two, *one, result) };
    let groups = if is_transposed { 1 } else { (channels / inner.max(1)).max(1) };
    let positions = count(positioned.shape.get(2..).unwrap_or(&[])) * batch as f64;
    let kernel_size = count(kernel);
    let is_last =
        scale.wants_channels_last(half) && (is_channels_last(input) || is_channels_last(result) && channels <= 4);
    let kind = convolution_kind(is_transposed, groups, channels, kernel_size as i64);
    let points = TABLES.points(&family(is_last, kind), half).or_else(|| TABLES.points("convolution_first_wide", half));
    let sizes = [positions, inner as f64 * kernel_size, outer as f64];
    let units = if kind == "depth" { Units::Cores } else { Units::Convolutions };
    // Tensor cores need channels last: cuDNN converts other images before and after.
    let passes = if is_last || units == Units::Cores { 1.0 } else { 3.0 };
    let forward = Load {
        operations: 2.0 * positions * inner as f64 * outer as f64 * kernel_size,
        units,
        is_half: half,
        bytes: passes * (input.bytes + result.bytes) as f64 + weight.bytes as f64,
    };
    // Images need no gradient, and layers on images were measured without one.
    let gradients = if channels > 4 { 2.0 } else { 1.0 };
    let [forward, mut backward] = interpolated(points, sizes, [forward, forward.times(gradients)], scale);
    if channels > 4 {
        backward *= (share(input.requires_grad) + share(weight.requires_grad)) / 2.0;
    }
    if tensors.requires_grad(2)
        && let Some(kernel) = TABLES.kernel("sum_rows")
    {
        let curve = &kernel.0[usize::from(half)][0];
        backward += scale.memory_bound(Movement::of(curve, result.elements as f64));
    }
    [forward, backward]
}

pub(crate) fn recurrent(tensors: &CallTensors<'_>, family: &str, scale: Scale) -> PerPass<f64> {
    let (Some(input), Some(result)) = (tensors.tensor(0), tensors.result) else { return [0.0; 2] };
    let half = is_half(input.dtype);
    let layers = match tensors.call.arguments.get(4) {
        Some(Value::Int(layers)) => *layers as f64,
        _ => 1.0,
    };
    let is_bidirectional = tensors.call.arguments.get(7) == Some(&Value::Bool(true));
    let is_batch_first = tensors.call.arguments.get(8) == Some(&Value::Bool(true));
    let directions = if is_bidirectional { 2.0 } else { 1.0 };
    let [one, two, _] = input.shape.as_slice() else { return [0.0; 2] };
    let (batch, tokens) = if is_batch_first { (*one, *two) } else { (*two, *one) };
    let hidden = result.shape.last().map_or(1.0, |&size| size as f64) / directions;
    let units = tokens as f64 * layers * directions;
    let sizes = [hidden, batch as f64 * scale.multiprocessors, tokens as f64];
    let factor = scale.recurrent_factor(half);
    let time = |cost: f64| cost * (units * UNIT) / UNIT * factor;
    TABLES.points(family, half).map_or([0.0; 2], |points| points.at(sizes).map(time))
}
