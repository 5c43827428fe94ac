//! A loss that is divided by the number of micro-batches or multiplied by a scale.

use smallvec::smallvec;
use vramfit_eager::autograd::{Backward, Context, Gradients, Node, Tensor};

/// How the loss is scaled. Its gradient is a new scalar in both cases.
#[derive(Debug)]
pub(super) enum Scaling {
    /// `loss / n`.
    ByNumber,
    /// `loss * scale`.
    ByTensor(Tensor),
}

impl Backward for Scaling {
    fn apply(&self, context: &mut Context, _node: &Node, gradients: &mut Gradients) -> Gradients {
        smallvec![gradients[0].as_ref().map(|gradient| context.empty(gradient.shared_layout()))]
    }
}

/// The scaled loss.
pub(super) fn scaled(context: &mut Context, loss: &Tensor, scaling: Scaling) -> Tensor {
    let dtype = match &scaling {
        Scaling::ByTensor(scale) if loss.dtype().bytes() < scale.dtype().bytes() => scale.dtype(),
        _ => loss.dtype(),
    };
    let result = context.empty(loss.layout().with_dtype(dtype));
    let edge = context.record(&[Some(loss)], 1, |_| smallvec![], scaling);
    result.with_edge(edge)
}
