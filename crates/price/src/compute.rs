//! The times of operators that compute: products, attention, convolutions, recurrent networks.

use vramfit_graph::bind::{BoundTensor, Value};

use crate::call::{Parts, is_channels_last, is_half};
use crate::points::Points;
use crate::scale::Scale;
use crate::tables::{Both, Product, TABLES};

/// Costs of points are for so many operations.
const UNIT: f64 = 1e6;

fn count(sizes: &[i64]) -> f64 {
    sizes.iter().map(|&size| size as f64).product()
}

fn share(wanted: bool) -> f64 {
    f64::from(u8::from(wanted))
}

/// One product of matrices, `[rows, inner] × [inner, outer]`.
fn matrices(which: Product, sizes: [f64; 3], is_half: bool, scale: Scale) -> f64 {
    let [rows, inner, outer] = sizes;
    let grid = TABLES.product(which, is_half);
    // As much for each multiprocessor as on the GPU that was measured.
    let time = grid.at([rows * scale.multiprocessors, inner, outer]);
    let odd = [inner, outer].iter().any(|size| size % 2.0 != 0.0);
    let unaligned = [inner, outer].iter().any(|size| size % 8.0 != 0.0);
    let [by_odd, by_even] = TABLES.unaligned[usize::from(is_half)][which as usize];
    let factor = match (odd, unaligned) {
        (true, _) => by_odd,
        (false, true) => by_even,
        _ => 1.0,
    };
    scale.computing(time * factor, grid.least(), is_half)
}

/// A product of two arguments, the second of which may have its columns as rows, with something added or not.
pub(crate) fn product(
    parts: &Parts<'_>,
    (first, second): (usize, usize),
    bias: Option<usize>,
    is_transposed: bool,
    scale: Scale,
) -> Both<f64> {
    let (Some(one), Some(other)) = (parts.tensor(first), parts.tensor(second)) else { return [0.0; 2] };
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
        backward += matrices(Product::ForInput, sizes, half, scale);
    }
    if other.requires_grad {
        backward += matrices(Product::ForWeight, sizes, half, scale);
    }
    if bias.is_some_and(|bias| parts.wants(bias))
        && let Some(kernel) = TABLES.kernel("sum_rows")
    {
        let curve = &kernel.0[usize::from(half)][0];
        backward += scale.moving(curve, sizes[0] * sizes[2]);
    }
    [matrices(Product::Forward, sizes, half, scale), backward]
}

/// From the costs near these sizes of a million operations.
fn near(points: Option<&Points>, sizes: [f64; 3], operations: f64, factor: f64) -> Both<f64> {
    points.map_or([0.0; 2], |points| points.at(sizes).map(|cost| cost * operations / UNIT * factor))
}

fn batched(one: &BoundTensor, other: &BoundTensor, scale: Scale) -> Both<f64> {
    let ([leading @ .., rows, inner], [others @ .., _, outer]) = (one.shape.as_slice(), other.shape.as_slice()) else {
        return [0.0; 2];
    };
    let half = is_half(one.dtype);
    let batch = count(leading).max(count(others));
    let operations = 2.0 * batch * count(&[*rows, *inner, *outer]);
    let sizes = [batch * scale.multiprocessors, count(&[*rows, *outer]), *inner as f64];
    let [forward, backward] = near(TABLES.points("batched", half), sizes, operations, scale.whole(half));
    [forward, backward * (share(one.requires_grad) + share(other.requires_grad)) / 2.0]
}

pub(crate) fn attention(parts: &Parts<'_>, scale: Scale) -> Both<f64> {
    let (Some(query), Some(key)) = (parts.tensor(0), parts.tensor(1)) else { return [0.0; 2] };
    let ([leading @ .., queries, width], [.., keys, _]) = (query.shape.as_slice(), key.shape.as_slice()) else {
        return [0.0; 2];
    };
    let half = is_half(query.dtype);
    let heads = count(leading);
    let operations = 4.0 * heads * count(&[*queries, *keys, *width]);
    let tokens = count(&[*queries, *keys]).sqrt();
    let sizes = [heads * scale.multiprocessors, tokens, *width as f64];
    let at = |kind: &str| near(TABLES.points(kind, half), sizes, operations, scale.whole(half));
    let kind = if matches!(parts.call.arguments.get(3), Some(Value::Tensor(_))) {
        "attention_masked"
    } else if matches!(parts.call.arguments.get(5), Some(Value::Bool(true))) {
        "attention_causal"
    } else {
        "attention_plain"
    };
    let mut times = at(kind);
    if matches!(parts.call.arguments.get(4), Some(Value::Float(dropout)) if *dropout > 0.0) {
        let (with, without) = (at("attention_dropout"), at("attention_plain"));
        for ((time, with), without) in times.iter_mut().zip(with).zip(without) {
            *time *= with / without;
        }
    }
    times
}

/// The family of convolutions whose measurements stand for one.
fn family(is_last: bool, is_transposed: bool, groups: i64, inputs: i64, places: i64) -> String {
    let layout = if is_last { "last" } else { "first" };
    let kind = match (is_transposed, groups, places) {
        (true, ..) => "transposed",
        (_, groups, _) if groups == inputs && groups > 1 => "depth",
        (_, groups, _) if groups > 1 => "group",
        (_, _, 1) => "point",
        _ => "wide",
    };
    format!("convolution_{layout}_{kind}")
}

pub(crate) fn convolution(parts: &Parts<'_>, is_transposed: bool, scale: Scale) -> Both<f64> {
    let (Some(input), Some(weight), Some(result)) = (parts.tensor(0), parts.tensor(1), parts.result) else {
        return [0.0; 2];
    };
    let ([one, two, kernel @ ..], Some(&batch)) = (weight.shape.as_slice(), input.shape.first()) else {
        return [0.0; 2];
    };
    let half = is_half(input.dtype);
    let channels = input.shape.get(1).copied().unwrap_or(1);
    // A transposed convolution's weight has the inputs first, and lays its kernel on each place of the input.
    let (inner, outer, laid) = if is_transposed { (*one, *two, input) } else { (*two, *one, result) };
    let groups = if is_transposed { 1 } else { (channels / inner.max(1)).max(1) };
    let places = count(laid.shape.get(2..).unwrap_or(&[])) * batch as f64;
    let reach = count(kernel);
    let operations = 2.0 * places * inner as f64 * outer as f64 * reach;
    let is_last = is_channels_last(input) || is_channels_last(result) && channels <= 4;
    let name = family(is_last, is_transposed, groups, channels, reach as i64);
    let points = TABLES.points(&name, half).or_else(|| TABLES.points("convolution_first_wide", half));
    let sizes = [places * scale.multiprocessors, inner as f64 * reach, outer as f64];
    let [forward, mut backward] = near(points, sizes, operations, scale.dnn(half));
    // Images themselves want no gradient, and were measured so.
    if channels > 4 {
        backward *= (share(input.requires_grad) + share(weight.requires_grad)) / 2.0;
    }
    if parts.wants(2)
        && let Some(kernel) = TABLES.kernel("sum_rows")
    {
        let curve = &kernel.0[usize::from(half)][0];
        backward += scale.moving(curve, result.elements as f64);
    }
    [forward, backward]
}

pub(crate) fn recurrent(parts: &Parts<'_>, family: &str, scale: Scale) -> Both<f64> {
    let (Some(input), Some(result)) = (parts.tensor(0), parts.result) else { return [0.0; 2] };
    let half = is_half(input.dtype);
    let layers = match parts.call.arguments.get(4) {
        Some(Value::Int(layers)) => *layers as f64,
        _ => 1.0,
    };
    let is_bidirectional = parts.call.arguments.get(7) == Some(&Value::Bool(true));
    let is_batch_first = parts.call.arguments.get(8) == Some(&Value::Bool(true));
    let directions = if is_bidirectional { 2.0 } else { 1.0 };
    let [one, two, _] = input.shape.as_slice() else { return [0.0; 2] };
    let (batch, tokens) = if is_batch_first { (*one, *two) } else { (*two, *one) };
    let hidden = result.shape.last().map_or(1.0, |&size| size as f64) / directions;
    let units = tokens as f64 * layers * directions;
    let sizes = [hidden, batch as f64 * scale.multiprocessors, tokens as f64];
    near(TABLES.points(family, half), sizes, units * UNIT, scale.dnn(half))
}
