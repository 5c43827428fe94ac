//! Distances between all pairs of rows: cdist, pdist.

use smallvec::smallvec;
use vramfit_graph::dims::Dims;
use vramfit_graph::dtype::Dtype;

use crate::autograd::{Backward, Context, Gradients, Node, Tensor};
use crate::kernels::reduce::Reduction;
use crate::operators::call::{Call, Outcome, Unmodelled};
use crate::operators::pointwise::elementwise;

/// A product of two matrices, or of batches of them.
fn product(context: &mut Context, dtype: Dtype, shape: &[i64]) -> Tensor {
    let result = context.empty_contiguous(dtype, shape);
    context.use_blas();
    result
}

/// A shape with its last dimension changed.
fn with_last(shape: &[i64], last: i64) -> Dims {
    let mut shape: Dims = shape.into();
    if let Some(size) = shape.last_mut() {
        *size = last;
    }
    shape
}

/// Through a product of matrices. Saved: both inputs and the result.
#[derive(Debug)]
struct ByProduct;

impl Backward for ByProduct {
    fn apply(&self, context: &mut Context, node: &Node, gradients: &mut Gradients) -> Gradients {
        let Some(gradient) = gradients[0].clone() else { return smallvec![None, None] };
        let (first, second, result) = (node.saved(0), node.saved(1), node.saved(2));
        let dtype = gradient.dtype();
        let ratio = elementwise(context, &[&gradient, &result], dtype);
        drop(elementwise(context, &[&result], Dtype::Bool));
        // C++ evaluates the right operand first, and frees all temporaries at the end.
        let mut left: Vec<Tensor> = Vec::new();
        let mut of = |context: &mut Context, own: &Tensor, summed: i64| {
            let moved = product(context, dtype, own.shape());
            let sums = context.sum(&ratio, &[summed], true, dtype);
            let mut seen = sums.layout().clone();
            seen.shape = with_last(own.shape(), 1);
            seen.strides = vramfit_graph::layout::contiguous_strides(&seen.shape);
            let weighted = elementwise(context, &[own, &sums.unsafe_view(seen)], dtype);
            let answer = elementwise(context, &[&weighted, &moved], dtype);
            left.extend([moved, sums, weighted]);
            answer
        };
        let of_first = of(context, &first, -1);
        let of_second = of(context, &second, -2);
        while left.pop().is_some() {}
        drop(ratio);
        smallvec![Some(of_first), Some(of_second)]
    }
}

/// `_euclidean_dist`: the sum of squares as one product, of rows with their norms beside them.
pub(super) fn euclidean(context: &mut Context, call: &Call<'_>) -> Outcome {
    let (first, second) = (call.tensor(0)?, call.tensor(1)?);
    let rank = first.shape().len();
    if rank != second.shape().len() || first.shape()[..rank - 2] != second.shape()[..rank - 2] {
        return Err(Unmodelled);
    }
    let dtype = first.dtype();
    let with_norms = |context: &mut Context, source: &Tensor| {
        let squares = elementwise(context, &[source], dtype);
        let norms = context.sum(&squares, &[-1], true, dtype);
        drop(squares);
        let ones = context.empty(norms.like(dtype));
        (norms, ones)
    };
    let (first_norms, first_ones) = with_norms(context, first);
    let (second_norms, second_ones) = with_norms(context, second);
    let wide = |source: &Tensor| with_last(source.shape(), source.shape()[rank - 1] + 2);
    let scaled = elementwise(context, &[first], dtype);
    let one = context.empty_contiguous(dtype, &wide(first));
    drop(first_ones);
    drop(first_norms);
    drop(scaled);
    let other = context.empty_contiguous(dtype, &wide(second));
    drop(second_norms);
    drop(second_ones);
    let result = product(context, dtype, &call.result(0)?.shape);
    drop(other);
    drop(one);
    let kept = result.detach();
    let saved = |_: &dyn Fn(usize) -> bool| smallvec![Some(first.clone()), Some(second.clone()), Some(kept)];
    let edge = context.record(&[Some(first), Some(second)], 1, saved, ByProduct);
    Ok(smallvec![result.with_edge(edge)])
}

/// What each pair adds to a gradient, summed over `dim`.
fn sum_of_pairs(context: &Context, dtype: Dtype, shape: &[i64], dim: usize) {
    let pairs = context.empty_contiguous(dtype, shape);
    context.reduction_buffers(pairs.layout(), &[dim as i64], Reduction::summing(dtype));
}

/// Pair by pair: each gradient is summed from a buffer with an entry for every pair.
#[derive(Debug)]
struct ByPair;

impl Backward for ByPair {
    fn apply(&self, context: &mut Context, node: &Node, gradients: &mut Gradients) -> Gradients {
        let Some(gradient) = gradients[0].clone() else { return smallvec![None, None] };
        let (first, second, result) = (node.saved(0), node.saved(1), node.saved(2));
        let of = |context: &mut Context, own: &Tensor, other: &Tensor| {
            let answer = context.empty_contiguous(gradient.dtype(), own.shape());
            let rank = own.shape().len();
            let mut shape: Dims = own.shape()[..rank - 2].into();
            shape.extend([other.shape()[rank - 2], own.shape()[rank - 2], own.shape()[rank - 1]]);
            sum_of_pairs(context, gradient.dtype(), &shape, rank - 2);
            answer
        };
        let of_first = node.wants(0).then(|| {
            let read = context.contiguous(&gradient);
            let answer = of(context, &first, &second);
            drop(read);
            answer
        });
        let of_second = node.wants(1).then(|| {
            let turned_result = context.empty_contiguous(result.dtype(), result.shape());
            let turned_gradient = context.empty_contiguous(gradient.dtype(), gradient.shape());
            let answer = of(context, &second, &first);
            drop(turned_gradient);
            drop(turned_result);
            answer
        });
        smallvec![of_first, of_second]
    }
}

/// `_cdist_forward`.
pub(super) fn by_pair(context: &mut Context, call: &Call<'_>) -> Outcome {
    let (first, second) = (call.tensor(0)?, call.tensor(1)?);
    let rank = first.shape().len();
    let is_plain = first.layout().is_contiguous() && second.layout().is_contiguous();
    if rank != second.shape().len() || first.shape()[..rank - 2] != second.shape()[..rank - 2] || !is_plain {
        return Err(Unmodelled);
    }
    let result = context.empty_contiguous(first.dtype(), &call.result(0)?.shape);
    let kept = result.detach();
    let saved = |_: &dyn Fn(usize) -> bool| smallvec![Some(first.clone()), Some(second.clone()), Some(kept)];
    let edge = context.record(&[Some(first), Some(second)], 1, saved, ByPair);
    Ok(smallvec![result.with_edge(edge)])
}

/// Distances within one set of rows.
pub(super) fn within(context: &mut Context, call: &Call<'_>) -> Outcome {
    #[derive(Debug)]
    struct Within;
    impl Backward for Within {
        fn apply(&self, context: &mut Context, node: &Node, gradients: &mut Gradients) -> Gradients {
            let Some(gradient) = gradients[0].clone() else { return smallvec![None] };
            let source = node.saved(0);
            let &[rows, width] = source.shape() else { return smallvec![None] };
            let answer = context.empty_contiguous(gradient.dtype(), source.shape());
            sum_of_pairs(context, gradient.dtype(), &[rows - 1, rows, width], 0);
            smallvec![Some(answer)]
        }
    }
    let source = call.tensor(0)?;
    if !source.layout().is_contiguous() {
        return Err(Unmodelled);
    }
    let result = context.empty_contiguous(source.dtype(), &call.result(0)?.shape);
    let kept = result.detach();
    let saved = |_: &dyn Fn(usize) -> bool| smallvec![Some(source.clone()), Some(kept)];
    let edge = context.record(&[Some(source)], 1, saved, Within);
    Ok(smallvec![result.with_edge(edge)])
}
