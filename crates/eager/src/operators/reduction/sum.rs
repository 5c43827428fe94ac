//! Sums, means, `any` and `all`.

use smallvec::smallvec;
use vramfit_graph::dims::Dims;

use super::over::{Over, reduced};
use crate::autograd::{Backward, Context, Gradients, Node, Tensor};
use crate::kernels::reduce::Reduction;
use crate::operators::call::{Call, Outcome};
use crate::operators::pointwise::elementwise;

/// A sum: the gradient is a view. A mean: divided by the count.
#[derive(Debug)]
struct Summed {
    over: Over,
    source: Dims,
    is_mean: bool,
}

impl Backward for Summed {
    fn apply(&self, context: &mut Context, _node: &Node, gradients: &mut Gradients) -> Gradients {
        smallvec![gradients[0].as_ref().map(|gradient| {
            let wide = self.over.spread(gradient, &self.source);
            if self.is_mean { elementwise(context, &[&wide], wide.dtype()) } else { wide }
        })]
    }
}

pub(super) fn sum(context: &mut Context, call: &Call<'_>, over: &Over, is_mean: bool) -> Outcome {
    let source = call.tensor(0)?;
    let dtype = call.result(0)?.dtype;
    let result = reduced(context, source, over, dtype, Reduction::summing(dtype));
    let backward = Summed { over: over.clone(), source: source.shape().into(), is_mean };
    let edge = context.record(&[Some(source)], 1, |_| smallvec![], backward);
    Ok(smallvec![result.with_edge(edge)])
}

/// The mean over `dims`, which are kept as ones, in the graph.
pub(in crate::operators) fn mean(context: &mut Context, source: &Tensor, dims: &[i64]) -> Tensor {
    let over = Over { dims: dims.into(), keeps_dims: true };
    let dtype = source.dtype();
    let result = reduced(context, source, &over, dtype, Reduction::summing(dtype));
    let backward = Summed { over, source: source.shape().into(), is_mean: true };
    let edge = context.record(&[Some(source)], 1, |_| smallvec![], backward);
    result.with_edge(edge)
}

pub(super) fn truth(context: &mut Context, call: &Call<'_>, over: &Over) -> Outcome {
    let source = call.tensor(0)?;
    let result = context.empty_contiguous(call.result(0)?.dtype, &over.shape(source.shape()));
    let reduction = Reduction { partial_bytes: 1, input_vector: 4, max_threads: 512 };
    context.reduction_buffers(source.layout(), &over.dims, reduction);
    Ok(smallvec![result])
}
