//! Running sums, and differences of neighbours.

use smallvec::smallvec;
use vramfit_graph::dims::Dims;
use vramfit_graph::dtype::Dtype;
use vramfit_graph::layout::Layout;

use crate::autograd::{Backward, Context, Gradients, Node, Tensor};
use crate::kernels::scan;
use crate::operators::call::{Call, Outcome, Unmodelled};
use crate::operators::function::Function;
use crate::operators::pointwise::elementwise;
use crate::operators::view::narrowed;

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
pub(super) fn running_sum(context: &Context, source: &Tensor, dim: usize, dtype: Dtype) -> Tensor {
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

/// Differences of neighbours, with tensors put before and after.
pub(super) fn diff(context: &mut Context, call: &Call<'_>) -> Outcome {
    let source = call.tensor(0)?;
    let dim = call.dim(2, source.shape().len())?;
    let others = [call.optional_tensor(3), call.optional_tensor(4)];
    let is_recorded =
        context.is_grad_on() && (source.requires_grad() || others.iter().flatten().any(|t| t.requires_grad()));
    if call.int(1)? != 1 {
        return Err(Unmodelled);
    }
    if is_recorded {
        return if others.iter().all(Option::is_none) { differences(context, source, dim) } else { Err(Unmodelled) };
    }
    let added: i64 = others.iter().flatten().map(|tensor| tensor.shape()[dim]).sum();
    let joined = (added > 0).then(|| {
        let mut shape: Dims = source.shape().into();
        shape[dim] += added;
        context.empty_contiguous(source.dtype(), &shape)
    });
    let mut layout = joined.as_ref().unwrap_or(source).layout().clone();
    layout.shape[dim] -= 1;
    let wanted = call.result(0)?.dtype;
    let result = context.empty(Layout::broadcast(&[&layout, &layout], wanted));
    drop(joined);
    Ok(smallvec![result])
}

/// `self[1:] - self[:-1]`, in the graph. C++ makes the second view first.
fn differences(context: &mut Context, source: &Tensor, dim: usize) -> Outcome {
    let length = source.shape()[dim] - 1;
    let before = narrowed(context, source, dim, length);
    let after = narrowed(context, source, dim, length);
    let result = elementwise(context, &[&after, &before], source.dtype());
    let backward = Function((), |&(), context, _, gradient| {
        let turned = context.empty(gradient.like(gradient.dtype()));
        smallvec![Some(gradient), Some(turned)]
    });
    let edge = context.record(&[Some(&after), Some(&before)], 1, |_| smallvec![], backward);
    Ok(smallvec![result.with_edge(edge)])
}
