//! GPU times of compute-bound operators: matrix products, attention, convolutions, recurrent layers.

use vramfit_graph::bind::{BoundTensor, Value};

use crate::call_tensors::{CallTensors, is_channels_last, is_half};
use crate::points::Points;
use crate::scale::Scale;
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
fn matrix_product(which: Product, sizes: [f64; 3], is_half: bool, scale: Scale) -> f64 {
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
    scale.compute_bound(time * factor, grid.min(), is_half)
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
        backward += scale.memory_bound(curve, sizes[0] * sizes[2]);
    }
    [matrix_product(Product::Forward, sizes, half, scale), backward]
}

/// The cost of `operations`, interpolated from the measured points.
fn interpolated(points: Option<&Points>, sizes: [f64; 3], operations: f64, factor: f64) -> PerPass<f64> {
    points.map_or([0.0; 2], |points| points.at(sizes).map(|cost| cost * operations / UNIT * factor))
}

fn batched(one: &BoundTensor, other: &BoundTensor, scale: Scale) -> PerPass<f64> {
    let ([leading @ .., rows, inner], [others @ .., _, outer]) = (one.shape.as_slice(), other.shape.as_slice()) else {
        return [0.0; 2];
    };
    let half = is_half(one.dtype);
    let batch = count(leading).max(count(others));
    let operations = 2.0 * batch * count(&[*rows, *inner, *outer]);
    let sizes = [batch * scale.multiprocessors, count(&[*rows, *outer]), *inner as f64];
    let [forward, backward] =
        interpolated(TABLES.points("batched", half), sizes, operations, scale.compute_factor(half));
    [forward, backward * (share(one.requires_grad) + share(other.requires_grad)) / 2.0]
}

pub(crate) fn attention(tensors: &CallTensors<'_>, scale: Scale) -> PerPass<f64> {
    let (Some(query), Some(key)) = (tensors.tensor(0), tensors.tensor(1)) else { return [0.0; 2] };
    let ([leading @ .., queries, width], [.., keys, _]) = (query.shape.as_slice(), key.shape.as_slice()) else {
        return [0.0; 2];
    };
    let half = is_half(query.dtype);
    let heads = count(leading);
    let operations = 4.0 * heads * count(&[*queries, *keys, *width]);
    let tokens = count(&[*queries, *keys]).sqrt();
    let sizes = [heads * scale.multiprocessors, tokens, *width as f64];
    let at = |kind: &str| interpolated(TABLES.points(kind, half), sizes, operations, scale.compute_factor(half));
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
fn family(is_channels_last: bool, is_transposed: bool, groups: i64, inputs: i64, kernel_size: i64) -> String {
    let layout = if is_channels_last { "last" } else { "first" };
    let kind = match (is_transposed, groups, kernel_size) {
        (true, ..) => "transposed",
        (_, groups, _) if groups == inputs && groups > 1 => "depth",
        (_, groups, _) if groups > 1 => "group",
        (_, _, 1) => "point",
        _ => "wide",
    };
    format!("convolution_{layout}_{kind}")
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
    let operations = 2.0 * positions * inner as f64 * outer as f64 * kernel_size;
    let is_last = is_channels_last(input) || is_channels_last(result) && channels <= 4;
    let name = family(is_last, is_transposed, groups, channels, kernel_size as i64);
    let points = TABLES.points(&name, half).or_else(|| TABLES.points("convolution_first_wide", half));
    let sizes = [positions * scale.multiprocessors, inner as f64 * kernel_size, outer as f64];
    let [forward, mut backward] = interpolated(points, sizes, operations, scale.cudnn_factor(half));
    // Images need no gradient, and layers on images were measured without one.
    if channels > 4 {
        backward *= (share(input.requires_grad) + share(weight.requires_grad)) / 2.0;
    }
    if tensors.requires_grad(2)
        && let Some(kernel) = TABLES.kernel("sum_rows")
    {
        let curve = &kernel.0[usize::from(half)][0];
        backward += scale.memory_bound(curve, result.elements as f64);
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
    interpolated(TABLES.points(family, half), sizes, units * UNIT, scale.cudnn_factor(half))
}
