//! Views that repeat: the gradient is summed.

use smallvec::smallvec;
use vramfit_graph::dims::Dims;
use vramfit_graph::layout::Layout;

use super::finish;
use crate::autograd::engine::sum_to;
use crate::autograd::{Backward, Context, Gradients, Node, Tensor};
use crate::operators::call::{Call, Outcome, Unmodelled};

/// A view that repeats: its gradient is summed.
#[derive(Debug)]
struct Expanded(Dims);

impl Backward for Expanded {
    fn apply(&self, context: &mut Context, _node: &Node, gradients: &mut Gradients) -> Gradients {
        smallvec![gradients[0].take().map(|gradient| sum_to(context, &gradient, &self.0))]
    }
}

pub(super) fn expand(context: &mut Context, call: &Call<'_>) -> Outcome {
    expanded(context, call.tensor(0)?, &call.ints(1)?)
}

pub(super) fn expand_as(context: &mut Context, call: &Call<'_>) -> Outcome {
    expanded(context, call.tensor(0)?, call.tensor(1)?.shape())
}

pub(super) fn broadcast_tensors(context: &mut Context, call: &Call<'_>) -> Outcome {
    let tensors = call.tensor_list(0)?;
    let shape = call.result(0)?.shape;
    let mut results = smallvec::SmallVec::new();
    for tensor in tensors {
        // One that has the shape already is returned as it is.
        match tensor.shape() == shape.as_slice() {
            true => results.push(tensor.clone()),
            false => results.extend(expanded(context, tensor, &shape)?),
        }
    }
    Ok(results)
}

/// A view that repeats along some dimensions, in the graph.
pub(in crate::operators) fn expanded(context: &mut Context, source: &Tensor, sizes: &[i64]) -> Outcome {
    let sizes: Dims = sizes.into();
    let skipped = sizes.len().checked_sub(source.shape().len()).ok_or(Unmodelled)?;
    let (mut shape, mut strides) = (sizes.clone(), Dims::filled(0, sizes.len()));
    for dim in skipped..sizes.len() {
        let size = source.shape()[dim - skipped];
        if sizes[dim] == -1 || sizes[dim] == size {
            shape[dim] = size;
            strides[dim] = source.layout().strides[dim - skipped];
        }
    }
    // New leading dimensions have the stride that a size of one would have; all of a scalar's are 0.
    for dim in (0..skipped).rev() {
        if shape[dim] == 1 && skipped < sizes.len() {
            strides[dim] = shape[dim + 1] * strides[dim + 1];
        }
    }
    let result = source.view(Layout { dtype: source.dtype(), shape, strides });
    finish(context, source, result, Expanded(source.shape().into()))
}
