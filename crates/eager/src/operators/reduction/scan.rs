//! Running sums, and differences of neighbours.

use smallvec::smallvec;
use vramfit_graph::dims::Dims;
use vramfit_graph::dtype::Dtype;

use crate::autograd::{Backward, Context, Gradients, Node, Tensor};
use crate::kernels::scan;
use crate::operators::call::{Call, Outcome, Unmodelled, only};
use crate::operators::pointwise::{elementwise, subtract};
use crate::operators::view::part_of;

/// A running sum's gradient is a running sum from the other end.
#[derive(Debug)]
struct Cumsum {
    dim: usize,
}

impl Backward for Cumsum {
    fn apply(&self, context: &mut Context, node: &Node, gradients: &mut Gradients) -> Gradients {
        let Some(gradient) = gradients[0].clone() else { return smallvec![None] };
        let dtype = node.inputs[0].as_ref().map_or(gradient.dtype(), |input| input.dtype);
        let cast = (dtype != gradient.dtype()).then(|| context.empty(gradient.like(dtype)));
        let given = cast.as_ref().unwrap_or(&gradient);
        let length = given.shape().get(self.dim).copied().unwrap_or(1);
        if given.layout().elements() <= 1 || length == 1 {
            return smallvec![Some(given.clone())];
        }
        let turned = elementwise(context, &[given], dtype);
        let sums = running_sum(context, &turned, self.dim, dtype);
        let result = elementwise(context, &[&sums], dtype);
        drop(sums);
        drop(turned);
        drop(cast);
        smallvec![Some(result)]
    }
}

/// The sums, and the scratch of a scan over one row.
pub(in crate::operators) fn running_sum(context: &Context, source: &Tensor, dim: usize, dtype: Dtype) -> Tensor {
    let result = context.empty(source.like(dtype));
    scan_scratch(context, source, dim, dtype);
    result
}

/// The scratch of a scan over one row.
pub(super) fn scan_scratch(context: &Context, source: &Tensor, dim: usize, dtype: Dtype) {
    let length = source.shape().get(dim).copied().unwrap_or(1);
    if length == source.layout().elements() && !source.shape().is_empty() {
        drop(context.scratch(scan::scratch_bytes(dtype, length)));
    }
}

pub(super) fn cumsum(context: &mut Context, call: &Call<'_>) -> Outcome {
    let source = call.tensor(0)?;
    let dim = call.dim(1, source.shape().len())?;
    let dtype = call.result(0)?.dtype;
    let result = context.empty(source.like(dtype));
    let cast = (dtype != source.dtype()).then(|| context.empty(source.like(dtype)));
    scan_scratch(context, source, dim, dtype);
    drop(cast);
    let edge = context.record(&[Some(source)], 1, |_| smallvec![], Cumsum { dim });
    Ok(smallvec![result.with_edge(edge)])
}

/// The logarithm of running sums of exponentials. Its gradient is found in the logarithm too, for its positive and its
/// negative part apart.
pub(super) fn logcumsumexp(context: &mut Context, call: &Call<'_>) -> Outcome {
    #[derive(Debug)]
    struct Logcumsumexp {
        dim: usize,
    }
    impl Backward for Logcumsumexp {
        fn apply(&self, context: &mut Context, node: &Node, gradients: &mut Gradients) -> Gradients {
            let Some(gradient) = gradients[0].clone() else { return smallvec![None] };
            let (source, result) = (node.saved(0), node.saved(1));
            let dtype = gradient.dtype();
            let lowest = context.empty_contiguous(dtype, &[]);
            let absolute = elementwise(context, &[&gradient], dtype);
            let logarithm = elementwise(context, &[&absolute], dtype);
            drop(absolute);
            let part = |context: &Context| {
                let mask = elementwise(context, &[&gradient], Dtype::Bool);
                let part = elementwise(context, &[&mask, &logarithm, &lowest], dtype);
                drop(mask);
                part
            };
            let positive = part(context);
            let negative = part(context);
            let from_the_end = |context: &Context, part: &Tensor| {
                let apart = elementwise(context, &[part, &result], dtype);
                let turned = elementwise(context, &[&apart], dtype);
                let sums = running_sum(context, &turned, self.dim, dtype);
                let back = elementwise(context, &[&sums], dtype);
                drop(sums);
                drop(turned);
                let shifted = elementwise(context, &[&back, &source], dtype);
                let exponential = elementwise(context, &[&shifted], dtype);
                drop(shifted);
                drop(back);
                drop(apart);
                exponential
            };
            let of_positive = from_the_end(context, &positive);
            let of_negative = from_the_end(context, &negative);
            let answer = elementwise(context, &[&of_positive, &of_negative], dtype);
            drop(of_negative);
            drop(of_positive);
            drop(negative);
            drop(positive);
            drop(logarithm);
            drop(lowest);
            smallvec![Some(answer)]
        }
    }
    let source = call.tensor(0)?;
    let dim = call.dim(1, source.shape().len())?;
    let result = running_sum(context, source, dim, source.dtype());
    let kept = result.detach();
    let saved = |_: &dyn Fn(usize) -> bool| smallvec![Some(source.clone()), Some(kept)];
    let edge = context.record(&[Some(source)], 1, saved, Logcumsumexp { dim });
    Ok(smallvec![result.with_edge(edge)])
}

/// Differences of neighbours, with tensors put before and after.
pub(super) fn diff(context: &mut Context, call: &Call<'_>) -> Outcome {
    let source = call.tensor(0)?;
    let dim = call.dim(2, source.shape().len())?;
    let others = [call.optional_tensor(3), call.optional_tensor(4)];
    let is_recorded =
        context.is_grad_on() && (source.requires_grad() || others.iter().flatten().any(|t| t.requires_grad()));
    let added: i64 = others.iter().flatten().map(|tensor| tensor.shape()[dim]).sum();
    if call.int(1)? != 1 || (is_recorded && added > 0) {
        return Err(Unmodelled);
    }
    let joined = (added > 0).then(|| {
        let mut shape: Dims = source.shape().into();
        shape[dim] += added;
        context.empty_contiguous(source.dtype(), &shape)
    });
    let whole = joined.as_ref().unwrap_or(source);
    let mut layout = whole.layout().clone();
    layout.shape[dim] -= 1;
    if call.result(0)?.dtype != source.dtype() {
        return Err(Unmodelled);
    }
    // C++ evaluates the right operand first.
    let before = only(part_of(context, whole, layout.clone()))?;
    let after = only(part_of(context, whole, layout))?;
    let result = subtract(context, &after, &before);
    Ok(smallvec![result])
}
