//! Views of the same shape, and complex numbers seen as pairs.

use std::rc::Rc;

use smallvec::smallvec;
use vramfit_graph::dims::Dims;
use vramfit_graph::dtype::Dtype;
use vramfit_graph::layout::Layout;

use super::finish;
use super::reshaped::Reshaped;
use crate::autograd::engine::sink_with;
use crate::autograd::{Backward, Context, Gradients, LeafGradient, Node, Tensor};
use crate::operators::call::{Call, Outcome};

/// `requires_grad_`: the tensor becomes a leaf. Its gradient is kept as long as the graph, which holds the leaf.
pub(super) fn require_gradient(_context: &mut Context, call: &Call<'_>) -> Outcome {
    let source = call.tensor(0)?;
    let is_wanted = call.bool(1)?;
    if source.requires_grad() == is_wanted {
        return Ok(smallvec![source.clone()]);
    }
    Ok(smallvec![if is_wanted { made_leaf(source) } else { source.frozen() }])
}

/// `tensor.requires_grad_()` of a tensor that does not require grad. It may have a `.grad` from before it was frozen.
pub(crate) fn made_leaf(source: &Tensor) -> Tensor {
    leaf_with(source, source.leaf_gradient().unwrap_or_default())
}

/// A leaf on the memory of a tensor, with this `.grad`.
pub(in crate::operators) fn leaf_with(source: &Tensor, gradient: LeafGradient) -> Tensor {
    let leaf = source.detach();
    let edge = sink_with(&leaf, gradient);
    leaf.with_edge(Some(edge))
}

/// Another tensor on the same memory, in the graph.
pub(super) fn alias(context: &mut Context, call: &Call<'_>) -> Outcome {
    let source = call.tensor(0)?;
    let is_cut = call.captured.first().copied().flatten().is_some_and(|captured| !captured.requires_grad);
    if is_cut && source.requires_grad() && call.captured[0].is_some_and(|captured| captured.is_leaf) {
        return detach(context, call);
    }
    finish(context, source, source.detach(), Reshaped(source.shape().into()))
}

pub(super) fn detach(_context: &mut Context, call: &Call<'_>) -> Outcome {
    Ok(smallvec![call.tensor(0)?.detach()])
}

/// Pairs of numbers seen as complex ones, or the other way round: so is the gradient, once it is contiguous.
pub(super) fn other_numbers(context: &mut Context, call: &Call<'_>) -> Outcome {
    seen_as(context, call.tensor(0)?, call.result(0)?)
}

/// Complex numbers seen as pairs, in the graph.
pub(in crate::operators) fn viewed_as_real(context: &mut Context, source: &Tensor) -> Outcome {
    let mut shape: Dims = source.shape().into();
    shape.push(2);
    let dtype = if source.dtype() == Dtype::Complex128 { Dtype::Float64 } else { Dtype::Float32 };
    seen_as(context, source, Layout::contiguous(dtype, &shape))
}

fn seen_as(context: &mut Context, source: &Tensor, mut layout: Layout) -> Outcome {
    #[derive(Debug)]
    struct Seen(Rc<Layout>);
    impl Backward for Seen {
        fn apply(&self, context: &mut Context, _node: &Node, gradients: &mut Gradients) -> Gradients {
            let gradient = gradients[0].take();
            smallvec![gradient.map(|gradient| {
                let contiguous = context.contiguous(&gradient);
                contiguous.view(Layout::contiguous(self.0.dtype, &self.0.shape))
            })]
        }
    }
    let strides = &source.layout().strides;
    layout.strides = if layout.shape.len() < strides.len() {
        strides[..strides.len() - 1].iter().map(|stride| stride / 2).collect()
    } else {
        strides.iter().map(|stride| stride * 2).chain([1]).collect()
    };
    finish(context, source, source.view(layout), Seen(source.shared_layout()))
}
