//! What operators that read or write by index have in common.

use smallvec::smallvec;
use vramfit_graph::dims::Dims;
use vramfit_graph::dtype::Dtype;
use vramfit_graph::layout::Layout;

use crate::autograd::{Backward, Context, Edge, Gradients, Node, Tensor};
use crate::operators::call::{Call, Outcome};
use crate::operators::pointwise::rebased;

/// The gradient is put into zeros of the input's shape.
#[derive(Debug)]
pub(super) struct Picked(pub Dims);

impl Backward for Picked {
    fn apply(&self, context: &mut Context, _node: &Node, gradients: &mut Gradients) -> Gradients {
        smallvec![gradients[0].as_ref().map(|gradient| context.empty_contiguous(gradient.dtype(), &self.0))]
    }
}

/// The copy into which an operator writes that has a form in place too.
pub(super) fn copy_of(context: &Context, source: &Tensor) -> Tensor {
    context.empty(source.like(source.dtype()))
}

/// The first argument after it was written into.
pub(super) fn written(call: &Call<'_>, edge: Option<Edge>) -> Outcome {
    let target = call.tensor(0)?;
    if edge.is_none() { Ok(smallvec![target.clone()]) } else { rebased(target, edge) }
}

/// A tensor of 64-bit indices.
pub(super) fn indices(context: &Context, shape: &[i64]) -> Tensor {
    context.empty_contiguous(Dtype::Int64, shape)
}

/// A tensor seen in the shape it broadcasts to.
pub(super) fn spread(tensor: &Tensor, shape: &[i64]) -> Layout {
    let skipped = shape.len() - tensor.shape().len();
    let strides = (0..shape.len())
        .map(|dim| match dim.checked_sub(skipped) {
            Some(place) if tensor.shape()[place] == shape[dim] => tensor.layout().strides[place],
            _ => 0,
        })
        .collect();
    Layout { dtype: tensor.dtype(), shape: shape.into(), strides }
}
