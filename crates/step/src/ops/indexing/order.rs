//! Sorting and picking by order: sort, topk, kthvalue, cummax.

use smallvec::smallvec;

use super::super::joining::indices;
use super::super::{Call, Context, Outcome, Rule, Unmodelled};
use super::Picked;
use crate::kernels::cub;
use crate::tape::Saved;
use crate::tensor::{Dims, Tensor};

pub(super) fn rule(name: &str) -> Option<Rule> {
    Some(match name {
        "aten.sort.default" => |context, call| sort(context, call, 1),
        "aten.sort.stable" => |context, call| sort(context, call, 2),
        "aten.topk.default" => topk,
        "aten.kthvalue.default" => kthvalue,
        "aten.cummax.default" | "aten.cummin.default" => cummax,
        _ => return None,
    })
}

/// The longest rows that are sorted within a block of threads.
const LONGEST_IN_BLOCK: i64 = 4096;
/// From so many rows on, long ones are sorted row by row.
const MOST_SORTED_AT_ONCE: i64 = 128;

/// Values and places in order along the last dimension.
pub(in super::super) fn sorted(context: &Context, source: &Tensor) -> Result<(Tensor, Tensor), Unmodelled> {
    let elements = source.layout().elements();
    let length = source.shape().last().copied().unwrap_or(1);
    let values = context.empty(source.layout().like(source.dtype()));
    let places = context.empty(source.layout().like(vramfit_graph::dtype::Dtype::Int64));
    let key = source.dtype().bytes();
    if elements <= 1 {
        return Ok((values, places));
    }
    if length <= LONGEST_IN_BLOCK {
        drop(indices(context, &[length]));
    } else if elements == length {
        let range = indices(context, &[elements]);
        drop(context.scratch(cub::radix_sort(elements, key, 8, 8 * key)?));
        drop(range);
    } else if elements / length < MOST_SORTED_AT_ONCE {
        // Everything by value, then by row.
        let unsorted = indices(context, &[elements]);
        let by_value = indices(context, &[elements]);
        let keys = context.empty_contiguous(source.dtype(), &[elements]);
        drop(context.scratch(cub::radix_sort(elements, key, 8, 8 * key)?));
        drop(keys);
        drop(context.scratch(cub::radix_sort_rows(elements, elements / length)));
        drop(by_value);
        drop(unsorted);
    } else {
        return Err(Unmodelled);
    }
    Ok((values, places))
}

/// Puts values that stand at `places` into the graph.
fn placed(context: &mut Context, source: &Tensor, values: Tensor, places: Tensor) -> Outcome {
    let saved = |_: &dyn Fn(usize) -> bool| smallvec![Some(places.detach())];
    let edge = context.record(&[Some(source)], 1, saved, Picked(source.shape().into()));
    Ok(smallvec![values.with_edge(edge), places])
}

fn sort(context: &mut Context, call: &Call<'_>, dim: usize) -> Outcome {
    let source = call.tensor(0)?;
    let rank = source.shape().len();
    if call.dim(dim, rank)? + 1 != rank.max(1) || !source.layout().is_contiguous() {
        return Err(Unmodelled);
    }
    let (values, places) = sorted(context, source)?;
    placed(context, source, values, places)
}

/// Rows so long or so many that several blocks of threads work on one (`should_use_multiblock`).
fn is_multiblock(rows: i64, length: i64) -> bool {
    let shortest = match rows {
        ..=20 => 20_000,
        21..=40 => 10_000,
        41..=80 => 8000,
        81..200 => 5000,
        200..800 => 3000,
        800..=4000 => 800,
        _ => 400,
    };
    length >= shortest
}

/// The largest elements of rows that one block of threads works on.
fn topk(context: &mut Context, call: &Call<'_>) -> Outcome {
    let source = call.tensor(0)?;
    let rank = source.shape().len();
    let dim = call.dim(2, rank)?;
    let length = source.shape().get(dim).copied().unwrap_or(1);
    if dim + 1 != rank.max(1) || is_multiblock(source.layout().elements() / length.max(1), length) {
        return Err(Unmodelled);
    }
    let shape = call.result(0)?.shape;
    let values = context.empty_contiguous(source.dtype(), &shape);
    let places = indices(context, &shape);
    // Rows that do not lie one after another are copied.
    drop(context.contiguous(source));
    placed(context, source, values, places)
}

fn kthvalue(context: &mut Context, call: &Call<'_>) -> Outcome {
    let source = call.tensor(0)?;
    let shape = call.result(0)?.shape;
    let values = context.empty_contiguous(source.dtype(), &shape);
    let places = indices(context, &shape);
    placed(context, source, values, places)
}

fn cummax(context: &mut Context, call: &Call<'_>) -> Outcome {
    let source = call.tensor(0)?;
    let shape: Dims = source.shape().into();
    let values = context.empty_contiguous(source.dtype(), &shape);
    let places = indices(context, &shape);
    let saved = |_: &dyn Fn(usize) -> bool| -> Saved { smallvec![Some(source.clone()), Some(places.detach())] };
    let edge = context.record(&[Some(source)], 1, saved, Picked(shape));
    Ok(smallvec![values.with_edge(edge), places])
}
