//! Counts of values, distinct values, which values are among others, random orders and samples.

use smallvec::smallvec;
use vramfit_graph::dims::Dims;
use vramfit_graph::dtype::Dtype;
use vramfit_graph::layout::Layout;

use super::call::{Call, Outcome, Unmodelled};
use super::facts::*;
use super::indexing::look_for_largest;
use super::reduction::{PLACED, running_sum};
use crate::autograd::{Context, Tensor};
use crate::kernels::cub;
use crate::kernels::reduce::Reduction;

/// What the family's operators have in common.
const FAMILY: Facts = Facts::of_family(
    Library::Own,
    Launch::LocalMemory,
    Time::ASSUMED,
    Keeps::Nothing,
    Autocast::Unchanged,
    Samples::Unknown,
);

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
    Operator::new(&["aten.multinomial.default"], Facts { memory: Modelled(sampled), ..FAMILY }),
    Operator::new(&["aten.isin.Tensor_Tensor"], Facts { memory: Modelled(is_among), ..FAMILY }),
    Operator::new(&["aten.isin.Tensor_Scalar"], Facts { memory: Modelled(is_equal), ..FAMILY }),
];

/// Whether any or all of some truth values hold.
const TRUTHS: Reduction = Reduction { partial_bytes: 1, input_vector: 4, max_threads: 512 };

/// The smallest and the largest element, one after the other.
fn look_for_bounds(context: &Context, source: &Tensor) {
    for _ in 0..2 {
        drop(context.reduce(source, &[], false, source.dtype(), Reduction::comparing(source.dtype())));
    }
}

/// `histc(self, bins, min, max)`: without bounds, those of the values.
fn histc(context: &mut Context, call: &Call<'_>) -> Outcome {
    let (low, high) = (call.float(2).unwrap_or(0.0), call.float(3).unwrap_or(0.0));
    let counts = context.empty(call.result(0)?);
    if low == high {
        look_for_bounds(context, call.tensor(0)?);
    }
    Ok(smallvec![counts])
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

/// `isin(elements, test_elements)`: few are compared with each element. Many are sorted, and how many are distinct depends on them.
fn is_among(context: &mut Context, call: &Call<'_>) -> Outcome {
    let (elements, tested) = (call.tensor(0)?, call.tensor(1)?.layout().elements());
    let most = (10.0 * (elements.layout().elements() as f64).powf(0.145)) as i64;
    if tested >= most {
        return Err(Unmodelled);
    }
    let result = context.empty(call.result(0)?);
    let mut pairs: Dims = elements.shape().into();
    pairs.push(tested);
    let compared = context.empty_contiguous(Dtype::Bool, &pairs);
    drop(context.reduce(&compared, &[-1], false, Dtype::Bool, TRUTHS));
    Ok(smallvec![result])
}

/// `isin(elements, test_element)`: a comparison.
fn is_equal(context: &mut Context, call: &Call<'_>) -> Outcome {
    Ok(smallvec![context.empty(call.result(0)?)])
}

/// `multinomial(self, num_samples, replacement)`. Without replacement, and for one sample, the weights are looked at, then divided by
/// random numbers: the largest are the samples. Else the places of random numbers are found in running sums.
fn sampled(context: &mut Context, call: &Call<'_>) -> Outcome {
    let (weights, count, is_replaced) = (call.tensor(0)?, call.int(1)?, call.bool(2).unwrap_or(false));
    let dtype = weights.dtype();
    let last = weights.shape().len().checked_sub(1).ok_or(Unmodelled)?;
    let result = context.empty(call.result(0)?);
    if is_replaced && count > 1 {
        let given = context.empty(weights.like(dtype));
        let shares = context.empty(weights.like(dtype));
        drop(running_sum(context, &shares, last, dtype));
        drop(shares);
        drop(given);
        return Ok(smallvec![result]);
    }
    let are_valid = look_at_weights(context, weights);
    let has_zeros = look_for_zeros(context, weights);
    let divided = context.empty(weights.like(dtype));
    if count > 1 {
        let values = context.empty_contiguous(dtype, result.shape());
        look_for_largest(context, &divided, last)?;
        drop(values);
    } else {
        context.reduction_buffers(divided.layout(), &[last as i64], PLACED);
    }
    drop(divided);
    drop(has_zeros);
    drop(are_valid);
    Ok(smallvec![result])
}

fn truth(context: &Context) -> Tensor {
    context.empty_contiguous(Dtype::Bool, &[])
}

/// Whether the weights are finite and not negative.
fn look_at_weights(context: &Context, weights: &Tensor) -> Tensor {
    let dtype = weights.dtype();
    let most = context.reduce(weights, &[], false, dtype, Reduction::comparing(dtype));
    let is_finite = truth(context);
    let least = context.reduce(weights, &[], false, dtype, Reduction::comparing(dtype));
    let is_positive = truth(context);
    let are_valid = truth(context);
    drop(is_positive);
    drop(least);
    drop(is_finite);
    drop(most);
    are_valid
}

/// Whether the weights of any row sum to zero; that none does is asserted.
fn look_for_zeros(context: &Context, weights: &Tensor) -> Tensor {
    let dtype = weights.dtype();
    let sums = context.reduce(weights, &[-1], false, dtype, Reduction::summing(dtype));
    let is_zero = context.empty_contiguous(Dtype::Bool, sums.shape());
    let found = if sums.shape().is_empty() {
        is_zero
    } else {
        let any = context.reduce(&is_zero, &[], false, Dtype::Bool, TRUTHS);
        drop(is_zero);
        any
    };
    drop(sums);
    drop(truth(context));
    found
}
