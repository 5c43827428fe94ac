//! Counts of values, distinct values, and random orders.

use smallvec::smallvec;
use vramfit_graph::dtype::Dtype;
use vramfit_graph::layout::Layout;

use super::call::{Call, Outcome, Unmodelled};
use super::facts::*;
use super::reduction::largest;
use crate::autograd::{Context, Tensor};
use crate::kernels::cub;

/// What the family's operators have in common.
const FAMILY: Facts =
    Facts::of_family(Library::Own, Launch::LocalMemory, Time::ASSUMED, Keeps::Nothing, Autocast::Unchanged);

pub(super) const OPERATORS: &[Operator] = &[
    Operator::new(&["aten.histc.default"], Facts { memory: Modelled(histc), ..FAMILY }),
    Operator::new(&["aten.bincount.default"], Facts { memory: Modelled(bincount), ..FAMILY }),
    Operator::new(&["aten.unique_consecutive.default"], Facts { memory: Modelled(runs), ..FAMILY }),
    Operator::new(&["aten._unique2.default"], Facts { memory: Modelled(distinct), ..FAMILY }),
    Operator::new(&["aten.unique_dim.default", "aten.unique_dim_consecutive.default"], FAMILY),
    Operator::new(
        &["aten.randperm.default", "aten.randperm.generator"],
        Facts { memory: Modelled(random_order), greatest: Greatest::Below(0), ..FAMILY },
    ),
    Operator::new(&["aten.multinomial.default"], FAMILY),
];

/// The smallest and the largest element, one after the other.
fn look_for_bounds(context: &Context, source: &Tensor) {
    for _ in 0..2 {
        drop(context.reduce(source, &[], false, source.dtype(), largest(source.dtype())));
    }
}

/// `histc(self, bins, min, max)`: without bounds, those of the values.
fn histc(context: &mut Context, call: &Call<'_>) -> Outcome {
    let (low, high) = (call.float(2).unwrap_or(0.0), call.float(3).unwrap_or(0.0));
    if low >= high {
        return Err(Unmodelled);
    }
    Ok(smallvec![context.empty(call.result(0)?)])
}

fn bincount(context: &mut Context, call: &Call<'_>) -> Outcome {
    look_for_bounds(context, call.tensor(0)?);
    Ok(smallvec![context.empty(call.result(0)?)])
}

/// One number of each run of equal ones, in memory for all, and how many there are.
fn first_of_runs(context: &Context, source: &Tensor, found: &Layout) -> Tensor {
    let count = source.layout().elements();
    let result = context.empty_contiguous(source.dtype(), &[count]);
    let counter = context.scratch(8);
    drop(context.scratch(cub::select(count)));
    drop(counter);
    result.unsafe_view(found.clone())
}

/// Tensors for what was not asked for: they are empty.
fn nothing(context: &Context, call: &Call<'_>, index: usize) -> Result<Tensor, Unmodelled> {
    let layout = call.result(index)?;
    if layout.elements() > 0 { Err(Unmodelled) } else { Ok(context.empty(layout)) }
}

/// `unique_consecutive(self, return_inverse, return_counts, dim)`.
fn runs(context: &mut Context, call: &Call<'_>) -> Outcome {
    let source = call.tensor(0)?;
    if !call.is_none(3) {
        return Err(Unmodelled);
    }
    let (inverse, counts) = (nothing(context, call, 1)?, nothing(context, call, 2)?);
    Ok(smallvec![first_of_runs(context, source, &call.result(0)?), inverse, counts])
}

/// The most 64-bit keys that a block of threads sorts alone, for which it asks for one byte.
const SORTED_IN_A_BLOCK: i64 = 256 * 9;

/// `_unique2(self, sorted, return_inverse, return_counts)`: sorted first.
fn distinct(context: &mut Context, call: &Call<'_>) -> Outcome {
    let source = call.tensor(0)?;
    let (inverse, counts) = (nothing(context, call, 1)?, nothing(context, call, 2)?);
    let elements = source.layout().elements();
    if source.dtype() != Dtype::Int64 || elements > SORTED_IN_A_BLOCK {
        return Err(Unmodelled);
    }
    let sorted = context.empty_contiguous(source.dtype(), &[elements]);
    drop(context.scratch(1));
    let result = first_of_runs(context, &sorted, &call.result(0)?);
    drop(sorted);
    Ok(smallvec![result, inverse, counts])
}

/// `randperm(n)`: a range sorted by random keys, of which so many bits are drawn that few are equal.
fn random_order(context: &mut Context, call: &Call<'_>) -> Outcome {
    let layout = call.result(0)?;
    if layout.dtype != Dtype::Int64 {
        return Err(Unmodelled);
    }
    let count = layout.elements();
    let result = context.empty(layout.clone());
    drop(context.scratch(8));
    if count == 0 {
        return Ok(smallvec![result]);
    }
    let number = count as f64;
    let bits = (number + (6.0 * number * number + 1.0) / (-(0.9_f64.ln()) * 12.0)).log2().ceil().min(64.0) as u64;
    let key = if bits <= 32 { Dtype::Int32 } else { Dtype::Int64 };
    let range = context.empty(layout.clone());
    let keys = context.empty_contiguous(key, &[count]);
    let sorted = context.empty_contiguous(key, &[count]);
    let scratch = if count <= SORTED_IN_A_BLOCK { Some(1) } else { cub::radix_sort(count, key.bytes(), 8, bits) };
    drop(context.scratch(scratch.ok_or(Unmodelled)?));
    drop((sorted, keys, range));
    Ok(smallvec![result])
}
