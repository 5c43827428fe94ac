//! Largest and smallest elements, with or without their places.

use smallvec::smallvec;
use vramfit_graph::dims::Dims;
use vramfit_graph::dtype::Dtype;

use super::over::{Over, reduced};
use crate::autograd::{Backward, Context, Gradients, Node};
use crate::kernels::reduce::Reduction;
use crate::operators::call::{Call, Outcome};
use crate::operators::indexing::sorted;
use crate::operators::pointwise::elementwise;
use crate::operators::view::reshaped;

/// Partial results are elements with their places.
pub(in crate::operators) const PLACED: Reduction = Reduction { partial_bytes: 16, input_vector: 4, max_threads: 512 };

/// The gradient goes to all equal elements, in equal shares.
#[derive(Debug)]
struct Shared {
    over: Over,
    is_whole: bool,
}

impl Backward for Shared {
    fn apply(&self, context: &mut Context, node: &Node, gradients: &mut Gradients) -> Gradients {
        let Some(gradient) = gradients[0].clone() else { return smallvec![None] };
        let (source, result) = (node.saved(0), node.saved(1));
        let over = if self.is_whole { self.over.clone() } else { self.over.keeping() };
        let seen = |tensor: &crate::autograd::Tensor| {
            if self.is_whole { tensor.clone() } else { self.over.restored(tensor, source.shape()) }
        };
        let mask = elementwise(context, &[&seen(&result), &source], Dtype::Bool);
        // Over everything, what is no number is compared apart.
        let apart = self.is_whole.then(|| {
            let of_result = elementwise(context, &[&result], Dtype::Bool);
            (of_result, elementwise(context, &[&source, &result], Dtype::Bool))
        });
        let count = reduced(context, &mask, &over, Dtype::Int64, Reduction::summing(Dtype::Int64));
        let share = elementwise(context, &[&seen(&gradient), &count], gradient.dtype());
        let answer = elementwise(context, &[&share, &mask], gradient.dtype());
        drop(share);
        drop(count);
        if let Some((of_result, is_equal)) = apart {
            drop(is_equal);
            drop(of_result);
        }
        drop(mask);
        smallvec![Some(answer)]
    }
}

pub(super) fn values(context: &mut Context, call: &Call<'_>, over: &Over, is_whole: bool) -> Outcome {
    let source = call.tensor(0)?;
    let result = reduced(context, source, over, source.dtype(), Reduction::comparing(source.dtype()));
    let kept = result.detach();
    let edge = context.record(
        &[Some(source)],
        1,
        |_| smallvec![Some(source.clone()), Some(kept)],
        Shared { over: over.clone(), is_whole },
    );
    Ok(smallvec![result.with_edge(edge)])
}

/// The gradient is put at the places, into zeros.
#[derive(Debug)]
pub(super) struct Placed(pub Dims);

impl Backward for Placed {
    fn apply(&self, context: &mut Context, _node: &Node, gradients: &mut Gradients) -> Gradients {
        smallvec![gradients[0].as_ref().map(|gradient| context.empty_contiguous(gradient.dtype(), &self.0))]
    }
}

pub(super) fn with_places(context: &mut Context, call: &Call<'_>) -> Outcome {
    let source = call.tensor(0)?;
    let over = Over::listed(call)?;
    let result = context.empty_contiguous(source.dtype(), &over.shape(source.shape()));
    let places = context.empty_contiguous(Dtype::Int64, result.shape());
    context.reduction_buffers(source.layout(), &over.dims, PLACED);
    let edge = context.record(&[Some(source)], 1, |_| smallvec![Some(places.detach())], Placed(source.shape().into()));
    Ok(smallvec![result.with_edge(edge), places])
}

pub(super) fn places(context: &mut Context, call: &Call<'_>) -> Outcome {
    let source = call.tensor(0)?;
    let over = if call.is_none(1) { Over::all(call)? } else { Over::listed(call)? };
    let result = context.empty_contiguous(Dtype::Int64, &over.shape(source.shape()));
    context.reduction_buffers(source.layout(), &over.dims, PLACED);
    Ok(smallvec![result])
}

/// The middle of all elements: they are sorted, and what is no number is looked for at the end.
pub(super) fn median(context: &mut Context, call: &Call<'_>) -> Outcome {
    let source = call.tensor(0)?;
    let flat = reshaped(context, source, &[source.layout().elements()]);
    let (values, places) = sorted(context, &flat, 0)?;
    drop(places);
    let is_no_number = context.empty_contiguous(Dtype::Bool, &[]);
    let result = context.empty_contiguous(source.dtype(), &[]);
    drop(is_no_number);
    drop(values);
    drop(flat);
    let kept = result.detach();
    let edge = context.record(
        &[Some(source)],
        1,
        |_| smallvec![Some(source.clone()), Some(kept)],
        Shared { over: Over::all(call)?, is_whole: true },
    );
    Ok(smallvec![result.with_edge(edge)])
}
