//! Products: over dimensions, and running ones. Their gradients ask first whether anything is zero; nothing is taken to be.

use smallvec::smallvec;
use vramfit_graph::dtype::Dtype;

use super::over::{Over, reduced};
use super::scan::{running_sum, scan_scratch};
use crate::autograd::{Backward, Context, Gradients, Node};
use crate::kernels::reduce::Reduction;
use crate::operators::call::{Call, Outcome};
use crate::operators::indexing::nonzero;
use crate::operators::pointwise::elementwise;

/// `grad * (result / self)`.
#[derive(Debug)]
struct Product {
    over: Over,
    is_whole: bool,
}

impl Backward for Product {
    fn apply(&self, context: &mut Context, node: &Node, gradients: &mut Gradients) -> Gradients {
        let Some(gradient) = gradients[0].clone() else { return smallvec![None] };
        let (source, result) = (node.saved(0), node.saved(1));
        let dtype = gradient.dtype();
        let cast = (source.dtype() != dtype).then(|| context.empty(source.like(dtype)));
        let source = cast.unwrap_or(source);
        let is_zero = elementwise(context, &[&source], Dtype::Bool);
        let zeros = if self.is_whole {
            drop(nonzero(context, &is_zero, 0));
            drop(is_zero);
            None
        } else {
            let count =
                reduced(context, &is_zero, &self.over.keeping(), Dtype::Int64, Reduction::summing(Dtype::Int64));
            drop(context.sum(&count, &[], false, Dtype::Int64));
            Some((is_zero, count))
        };
        let gradient = self.over.restored(&gradient, source.shape());
        let result = self.over.restored(&result, source.shape());
        let quotient = elementwise(context, &[&result, &source], dtype);
        let answer = elementwise(context, &[&gradient, &quotient], dtype);
        drop(quotient);
        if let Some((is_zero, count)) = zeros {
            drop(count);
            drop(is_zero);
        }
        smallvec![Some(answer)]
    }
}

pub(super) fn product(context: &mut Context, call: &Call<'_>, over: &Over, is_whole: bool) -> Outcome {
    let source = call.tensor(0)?;
    let dtype = call.result(0)?.dtype;
    let result = reduced(context, source, over, dtype, Reduction::summing(dtype));
    let kept = result.detach();
    let backward = Product { over: over.clone(), is_whole };
    let edge = context.record(&[Some(source)], 1, |_| smallvec![Some(source.clone()), Some(kept)], backward);
    Ok(smallvec![result.with_edge(edge)])
}

/// The running sum, from the other end, of the gradient times the result, divided by the input.
#[derive(Debug)]
struct Cumprod {
    dim: usize,
}

impl Backward for Cumprod {
    fn apply(&self, context: &mut Context, node: &Node, gradients: &mut Gradients) -> Gradients {
        let Some(gradient) = gradients[0].clone() else { return smallvec![None] };
        let (source, result) = (node.saved(0), node.saved(1));
        let dtype = gradient.dtype();
        let cast = (source.dtype() != dtype).then(|| context.empty(source.like(dtype)));
        let source = cast.unwrap_or(source);
        let weighted = elementwise(context, &[&result, &gradient], dtype);
        let is_zero = elementwise(context, &[&source], Dtype::Bool);
        let any = Reduction { partial_bytes: 1, input_vector: 4, max_threads: 512 };
        drop(context.reduce(&is_zero, &[], false, Dtype::Bool, any));
        let turned = elementwise(context, &[&weighted], dtype);
        let sums = running_sum(context, &turned, self.dim, dtype);
        let back = elementwise(context, &[&sums], dtype);
        drop(sums);
        drop(turned);
        let answer = elementwise(context, &[&back, &source], dtype);
        drop(back);
        drop(is_zero);
        drop(weighted);
        smallvec![Some(answer)]
    }
}

pub(super) fn cumprod(context: &mut Context, call: &Call<'_>) -> Outcome {
    let source = call.tensor(0)?;
    let dim = call.dim(1, source.shape().len())?;
    let dtype = call.result(0)?.dtype;
    let result = context.empty(source.like(dtype));
    let cast = (dtype != source.dtype()).then(|| context.empty(source.like(dtype)));
    scan_scratch(context, source, dim, dtype);
    drop(cast);
    let kept = result.detach();
    let edge = context.record(&[Some(source)], 1, |_| smallvec![Some(source.clone()), Some(kept)], Cumprod { dim });
    Ok(smallvec![result.with_edge(edge)])
}
