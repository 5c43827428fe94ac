//! Sums, means, `any` and `all`.

use smallvec::smallvec;
use vramfit_graph::dims::Dims;
use vramfit_graph::dtype::Dtype;
use vramfit_graph::layout::Layout;

use super::over::{Over, reduced};
use crate::autograd::{Backward, Context, Gradients, Node, Tensor};
use crate::kernels::reduce::Reduction;
use crate::operators::call::{Call, Outcome, Unmodelled};
use crate::operators::pointwise::elementwise;

/// How `any` and `all` reduce.
const TRUTH: Reduction = Reduction { partial_bytes: 1, input_vector: 4, max_threads: 512 };

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
    context.reduction_buffers(source.layout(), &over.dims, TRUTH);
    Ok(smallvec![result])
}

/// `count_nonzero(self, dim)`: a sum of truth values.
pub(super) fn count_nonzero(context: &mut Context, call: &Call<'_>) -> Outcome {
    let source = call.tensor(0)?;
    let over = Over::listed(call)?;
    let truths = (source.dtype() != Dtype::Bool).then(|| elementwise(context, &[source], Dtype::Bool));
    let truths = truths.as_ref().unwrap_or(source);
    Ok(smallvec![reduced(context, truths, &over, Dtype::Int64, Reduction::summing(Dtype::Int64))])
}

/// `source.any()`.
pub(in crate::operators) fn any_of(context: &mut Context, source: &Tensor) -> Tensor {
    let result = context.empty_contiguous(Dtype::Bool, &[]);
    let all: Dims = (0..source.shape().len() as i64).collect();
    context.reduction_buffers(source.layout(), &all, TRUTH);
    result
}

/// The sum of what is a number: so is the gradient.
pub(super) fn nansum(context: &mut Context, call: &Call<'_>) -> Outcome {
    #[derive(Debug)]
    struct NanSummed(Over);
    impl Backward for NanSummed {
        fn apply(&self, context: &mut Context, node: &Node, gradients: &mut Gradients) -> Gradients {
            let Some(gradient) = gradients[0].clone() else { return smallvec![None] };
            let source = node.saved(0);
            let cast = (gradient.dtype() != source.dtype()).then(|| context.empty(gradient.like(source.dtype())));
            let wide = self.0.spread(cast.as_ref().unwrap_or(&gradient), source.shape());
            let is_no_number = elementwise(context, &[&source], Dtype::Bool);
            let is_number = elementwise(context, &[&is_no_number], Dtype::Bool);
            let result = elementwise(context, &[&wide, &is_number], source.dtype());
            drop(is_number);
            drop(is_no_number);
            smallvec![Some(result)]
        }
    }
    let source = call.tensor(0)?;
    let over = Over::listed(call)?;
    let dtype = call.result(0)?.dtype;
    let result = reduced(context, source, &over, dtype, Reduction::summing(dtype));
    let edge = context.record(&[Some(source)], 1, |_| smallvec![Some(source.clone())], NanSummed(over));
    Ok(smallvec![result.with_edge(edge)])
}

/// The sum of the diagonal: the gradient is filled into zeros, at a row of indices.
pub(super) fn trace(context: &mut Context, call: &Call<'_>) -> Outcome {
    #[derive(Debug)]
    struct OfDiagonal(Dims);
    impl Backward for OfDiagonal {
        fn apply(&self, context: &mut Context, _node: &Node, gradients: &mut Gradients) -> Gradients {
            let Some(gradient) = gradients[0].clone() else { return smallvec![None] };
            let result = context.empty_contiguous(gradient.dtype(), &self.0);
            let &[rows, columns] = self.0.as_slice() else { return smallvec![Some(result)] };
            let count = (rows * columns + columns) / (columns + 1);
            drop(context.empty_contiguous(Dtype::Int64, &[count]));
            smallvec![Some(result)]
        }
    }
    let source = call.tensor(0)?;
    let (&[rows, columns], strides) = (source.shape(), &source.layout().strides) else { return Err(Unmodelled) };
    let diagonal =
        Layout { dtype: source.dtype(), shape: [rows.min(columns)].into(), strides: [strides[0] + strides[1]].into() };
    let over = Over { dims: [0].into(), keeps_dims: false };
    let dtype = call.result(0)?.dtype;
    let result = reduced(context, &source.unsafe_view(diagonal), &over, dtype, Reduction::summing(dtype));
    let edge = context.record(&[Some(source)], 1, |_| smallvec![], OfDiagonal(source.shape().into()));
    Ok(smallvec![result.with_edge(edge)])
}
