//! Sorting and picking by order: sort, topk, kthvalue, cummax.

use smallvec::{SmallVec, smallvec};
use vramfit_graph::dims::Dims;
use vramfit_graph::dtype::Dtype;
use vramfit_graph::layout::Layout;

use super::pieces::{Picked, indices};
use crate::autograd::{Context, Saved, Tensor};
use crate::kernels::cub;
use crate::operators::call::{Call, Outcome, Unmodelled};

/// The longest rows that are sorted within a block of threads.
const LONGEST_IN_BLOCK: i64 = 4096;
/// From so many rows on, long ones are sorted row by row.
const MOST_SORTED_AT_ONCE: i64 = 128;

/// Values and places in order along a dimension (`sort_cuda_kernel`).
pub(in crate::operators) fn sorted(
    context: &Context,
    source: &Tensor,
    dim: usize,
) -> Result<(Tensor, Tensor), Unmodelled> {
    let length = source.shape().get(dim).copied().unwrap_or(1);
    let values = context.empty(source.like(source.dtype()));
    let places = context.empty(source.like(Dtype::Int64));
    if source.layout().elements() <= 1 {
        return Ok((values, places));
    }
    if length <= LONGEST_IN_BLOCK {
        drop(indices(context, &[length]));
        return Ok((values, places));
    }
    let layout = source.layout();
    let is_ready = layout.is_dense() && layout.strides[dim] == 1;
    let read = (!is_ready).then(|| context.empty(with_last(layout, dim)));
    let rows = read.as_ref().unwrap_or(source);
    let other = |result: &Tensor| {
        let layout = Layout { dtype: result.dtype(), ..rows.layout().clone() };
        (result.layout().strides != layout.strides).then(|| context.empty(layout))
    };
    let (unordered_values, unordered_places) = (other(&values), other(&places));
    sort_rows(context, rows, length)?;
    drop(unordered_places);
    drop(unordered_values);
    drop(read);
    Ok((values, places))
}

/// Dense memory in which a dimension is the innermost one and the others keep their order (`infer_dense_strides_dim_last`).
fn with_last(layout: &Layout, dim: usize) -> Layout {
    let mut order: SmallVec<[usize; 6]> = (0..layout.shape.len()).filter(|&other| other != dim).collect();
    order.sort_by_key(|&other| std::cmp::Reverse(layout.strides[other]));
    order.push(dim);
    let mut strides = Dims::filled(1, layout.shape.len());
    let mut stride = 1;
    for &place in order.iter().rev() {
        strides[place] = stride;
        stride *= layout.shape[place];
    }
    Layout { dtype: layout.dtype, shape: layout.shape.clone(), strides }
}

/// Sorts rows that lie one after another.
fn sort_rows(context: &Context, source: &Tensor, length: i64) -> Result<(), Unmodelled> {
    let elements = source.layout().elements();
    let key = source.dtype().bytes();
    if elements == length {
        let range = indices(context, &[elements]);
        drop(context.scratch(cub::radix_sort(elements, key, 8, 8 * key).ok_or(Unmodelled)?));
        drop(range);
    } else if elements / length < MOST_SORTED_AT_ONCE {
        // Everything by value, then by row.
        let unsorted = indices(context, &[elements]);
        let by_value = indices(context, &[elements]);
        let keys = context.empty_contiguous(source.dtype(), &[elements]);
        drop(context.scratch(cub::radix_sort(elements, key, 8, 8 * key).ok_or(Unmodelled)?));
        drop(keys);
        drop(context.scratch(cub::radix_sort_rows(elements, elements / length)));
        drop(by_value);
        drop(unsorted);
    } else {
        let unsorted = indices(context, &[elements]);
        drop(context.scratch(cub::segmented_sort(elements, key)));
        drop(unsorted);
    }
    Ok(())
}

/// Puts values that stand at `places` into the graph.
fn placed(context: &mut Context, source: &Tensor, values: Tensor, places: Tensor) -> Outcome {
    let saved = |_: &dyn Fn(usize) -> bool| smallvec![Some(places.detach())];
    let edge = context.record(&[Some(source)], 1, saved, Picked(source.shape().into()));
    Ok(smallvec![values.with_edge(edge), places])
}

pub(super) fn sort(context: &mut Context, call: &Call<'_>, dim: usize) -> Outcome {
    let source = call.tensor(0)?;
    let rank = source.shape().len();
    let (values, places) = sorted(context, source, call.dim(dim, rank)?)?;
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

/// What several blocks of threads for each row share: digits are counted block by block, then a row's elements that are
/// larger than the last one wanted (`mbtopk`).
fn multiblock_scratch(context: &Context, source: &Tensor, rows: i64, length: i64) -> Result<(), Unmodelled> {
    const THREADS: i64 = 256;
    const BLOCKS_A_MULTIPROCESSOR: i64 = 6;
    const LONGEST_SCANNED: i64 = 5003;
    let at_once = context.gpu().multiprocessors * BLOCKS_A_MULTIPROCESSOR * THREADS;
    let items = ((rows * length + at_once - 1) / at_once).clamp(4, 64) * THREADS;
    let blocks = rows * ((length + items - 1) / items);
    if blocks > LONGEST_SCANNED {
        return Err(Unmodelled);
    }
    let bytes = |count: i64, each: i64| (count * each).unsigned_abs();
    let sizes = [
        bytes(rows, source.dtype().bytes().cast_signed()),
        bytes(rows, 8),
        bytes(rows, 8),
        bytes(blocks, 512),
        bytes(rows, 1024),
        bytes(blocks, 4),
        bytes(blocks, 4),
    ];
    let mut held: Vec<_> = sizes.into_iter().map(|bytes| context.scratch(bytes)).collect();
    drop(context.scratch(cub::exclusive_sum(blocks)));
    drop(context.scratch(cub::exclusive_sum(blocks)));
    while held.pop().is_some() {}
    Ok(())
}

/// What `topk` takes beside its results.
pub(in crate::operators) fn look_for_largest(context: &Context, source: &Tensor, dim: usize) -> Result<(), Unmodelled> {
    let length = source.shape().get(dim).copied().unwrap_or(1);
    let rows = source.layout().elements() / length.max(1);
    if is_multiblock(rows, length) { multiblock_scratch(context, source, rows, length) } else { Ok(()) }
}

/// The largest elements along a dimension.
pub(super) fn topk(context: &mut Context, call: &Call<'_>) -> Outcome {
    let source = call.tensor(0)?;
    let dim = call.dim(2, source.shape().len())?;
    let shape = call.result(0)?.shape;
    let values = context.empty_contiguous(source.dtype(), &shape);
    let places = indices(context, &shape);
    look_for_largest(context, source, dim)?;
    placed(context, source, values, places)
}

pub(super) fn kthvalue(context: &mut Context, call: &Call<'_>) -> Outcome {
    let source = call.tensor(0)?;
    let shape = call.result(0)?.shape;
    let values = context.empty_contiguous(source.dtype(), &shape);
    let places = indices(context, &shape);
    placed(context, source, values, places)
}

pub(super) fn cummax(context: &mut Context, call: &Call<'_>) -> Outcome {
    let source = call.tensor(0)?;
    let shape: Dims = source.shape().into();
    let values = context.empty_contiguous(source.dtype(), &shape);
    let places = indices(context, &shape);
    let saved = |_: &dyn Fn(usize) -> bool| -> Saved { smallvec![Some(source.clone()), Some(places.detach())] };
    let edge = context.record(&[Some(source)], 1, saved, Picked(shape));
    Ok(smallvec![values.with_edge(edge), places])
}
