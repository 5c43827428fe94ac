//! What a mask selects: nonzero, masked_select. How many there are is known from the capture.

use smallvec::smallvec;
use vramfit_graph::dims::Dims;
use vramfit_graph::dtype::Dtype;
use vramfit_graph::layout::Layout;

use super::pieces::{indices, spread};
use crate::autograd::{Backward, Context, Gradients, Node, Tensor};
use crate::kernels::cub;
use crate::operators::call::{Call, Outcome, Unmodelled};
use crate::operators::pointwise::elementwise;

pub(super) fn nonzero_call(context: &mut Context, call: &Call<'_>) -> Outcome {
    let shape = call.result(0)?.shape;
    let count = shape.first().copied().unwrap_or(0);
    let places = nonzero(context, call.tensor(0)?, count);
    // They are written one dimension after another: the result is the transpose.
    let strides = Dims::from([1, count]);
    Ok(smallvec![places.unsafe_view(Layout { dtype: Dtype::Int64, shape, strides })])
}

/// The places of `count` elements, for each dimension: they are counted first, then written down.
pub(in crate::operators) fn nonzero(context: &Context, source: &Tensor, count: i64) -> Tensor {
    let copy = || context.empty_contiguous(source.dtype(), source.shape());
    let read = (!source.layout().is_contiguous()).then(copy);
    let elements = source.layout().elements();
    let counter = context.scratch(4);
    drop(context.scratch(cub::count(elements)));
    context.memory().borrow_mut().host_reads_value();
    let places = indices(context, &[source.shape().len() as i64, count]);
    drop(context.scratch(cub::select(elements)));
    drop(counter);
    drop(read);
    places
}

/// The gradient is put back where the mask is true, with the help of a running count.
#[derive(Debug)]
struct Selected(Dims);

impl Backward for Selected {
    fn apply(&self, context: &mut Context, _node: &Node, gradients: &mut Gradients) -> Gradients {
        let gradient = gradients[0].clone();
        smallvec![gradient.map(|gradient| {
            let result = context.empty_contiguous(gradient.dtype(), &self.0);
            let counts = indices(context, &self.0);
            drop(context.scratch(cub::exclusive_sum(counts.layout().elements())));
            drop(counts);
            result
        })]
    }
}

pub(super) fn masked_select(context: &mut Context, call: &Call<'_>) -> Outcome {
    let (source, mask) = (call.tensor(0)?, call.tensor(1)?);
    let count = call.result(0)?.elements();
    let shape = Layout::broadcast(&[source.layout(), mask.layout()], Dtype::Bool).shape;
    let whole = mask.unsafe_view(spread(mask, &shape));
    let places = nonzero(context, &whole, count);
    let result = context.empty_contiguous(source.dtype(), &[count]);
    drop(places);
    let saved = |_: &dyn Fn(usize) -> bool| smallvec![Some(mask.clone()), Some(source.clone())];
    let edge = context.record(&[Some(source)], 1, saved, Selected(shape));
    Ok(smallvec![result.with_edge(edge)])
}

/// `torch.where(condition)`: the places, one tensor for each dimension.
pub(super) fn where_true(context: &mut Context, call: &Call<'_>) -> Outcome {
    let count = call.result(0)?.elements();
    let places = nonzero(context, call.tensor(0)?, count);
    let layout = Layout::contiguous(Dtype::Int64, &[count]);
    Ok((0..call.captured.len()).map(|_| places.view(layout.clone())).collect())
}

/// The index that repeats each place so often (`repeat_interleave_common`): a running count, and a check that no number is
/// negative where the length of the result is not given.
pub(super) fn repeated_places(context: &mut Context, call: &Call<'_>) -> Outcome {
    let times = call.tensor(0)?;
    let read = context.contiguous(times);
    let counts = indices(context, times.shape());
    drop(context.scratch(crate::kernels::scan::scratch_bytes(Dtype::Int64, times.layout().elements())));
    if call.is_none(1) {
        let is_valid = elementwise(context, &[times], Dtype::Bool);
        drop(context.empty_contiguous(Dtype::Bool, &[]));
        drop(is_valid);
    }
    let result = context.empty(call.result(0)?);
    drop(counts);
    drop(read);
    Ok(smallvec![result])
}

/// Rows reduced in groups of given lengths.
pub(super) fn segment_reduce(context: &mut Context, call: &Call<'_>) -> Outcome {
    #[derive(Debug)]
    struct Segmented;
    impl Backward for Segmented {
        fn apply(&self, context: &mut Context, node: &Node, gradients: &mut Gradients) -> Gradients {
            let Some(gradient) = gradients[0].clone() else { return smallvec![None] };
            let (source, lengths) = (node.saved(0), node.saved(1));
            let result = context.empty_contiguous(gradient.dtype(), source.shape());
            segment_offsets(context, &lengths);
            smallvec![Some(result)]
        }
    }
    let (source, lengths) = (call.tensor(0)?, call.tensor(2)?);
    let is_checked = !call.bool(6).unwrap_or(false);
    if lengths.shape().len() != 1 || source.shape().len() < 2 || call.int(5)? != 0 || is_checked {
        return Err(Unmodelled);
    }
    let result = context.empty(call.result(0)?);
    segment_offsets(context, lengths);
    let kept = result.detach();
    let saved = |_: &dyn Fn(usize) -> bool| smallvec![Some(source.clone()), Some(lengths.clone()), Some(kept)];
    let edge = context.record(&[Some(source)], 1, saved, Segmented);
    Ok(smallvec![result.with_edge(edge)])
}

/// Where groups begin: a zero before their lengths, summed up.
fn segment_offsets(context: &Context, lengths: &Tensor) {
    let zero = indices(context, &[1]);
    let offsets = indices(context, &[lengths.layout().elements() + 1]);
    drop(zero);
    drop(context.scratch(crate::kernels::scan::scratch_bytes(Dtype::Int64, offsets.layout().elements())));
}
