//! The small operators that composite losses are made of, in the graph.

use smallvec::smallvec;
use vramfit_graph::dims::Dims;
use vramfit_graph::layout::Layout;

use super::reduction::Reduction;
use crate::autograd::{Backward, Context, Gradients, Node, Tensor};
use crate::operators::call::Unmodelled;

/// Makes a gradient from the one that came in.
type Formula = fn(&mut Context, &Node, &Tensor) -> Tensor;

/// A function of one input that wants a gradient.
#[derive(Debug)]
struct Unary(Formula);

impl Backward for Unary {
    fn apply(&self, context: &mut Context, node: &Node, gradients: &mut Gradients) -> Gradients {
        let gradient = gradients[0].take();
        smallvec![gradient.map(|gradient| (self.0)(context, node, &gradient))]
    }
}

/// Something elementwise of the gradient alone, in its layout.
fn elementwise(context: &mut Context, _node: &Node, gradient: &Tensor) -> Tensor {
    let layout = Layout::broadcast(&[gradient.layout()], gradient.dtype());
    context.empty(layout)
}

/// The gradient times, or divided by, what was saved.
fn with_saved(context: &mut Context, node: &Node, gradient: &Tensor) -> Tensor {
    let saved = node.saved(0);
    let layout = Layout::broadcast(&[gradient.layout(), saved.layout()], gradient.dtype());
    context.empty(layout)
}

/// The gradient times the sign of what was saved.
fn with_sign(context: &mut Context, node: &Node, gradient: &Tensor) -> Tensor {
    let sign = context.empty(node.saved(0).like(gradient.dtype()));
    let layout = Layout::broadcast(&[gradient.layout(), sign.layout()], gradient.dtype());
    context.empty(layout)
}

fn unary(context: &mut Context, source: &Tensor, result: Tensor, saved: Option<Tensor>, formula: Formula) -> Tensor {
    let edge = context.record(&[Some(source)], 1, |_| smallvec![saved], Unary(formula));
    result.with_edge(edge)
}

fn like(context: &mut Context, source: &Tensor) -> Tensor {
    context.empty(source.like(source.dtype()))
}

/// `-source`, or the source times or divided by a number.
pub(super) fn scaled(context: &mut Context, source: &Tensor) -> Tensor {
    let result = like(context, source);
    unary(context, source, result, None, elementwise)
}

/// The absolute values.
pub(super) fn absolute(context: &mut Context, source: &Tensor) -> Tensor {
    let result = like(context, source);
    unary(context, source, result, Some(source.clone()), with_sign)
}

/// `first - second`.
pub(super) fn difference(context: &mut Context, first: &Tensor, second: &Tensor) -> Result<Tensor, Unmodelled> {
    #[derive(Debug)]
    struct Difference;
    impl Backward for Difference {
        fn apply(&self, context: &mut Context, node: &Node, gradients: &mut Gradients) -> Gradients {
            let Some(gradient) = gradients[0].take() else { return smallvec![None, None] };
            let second = node.wants(1).then(|| elementwise(context, node, &gradient));
            smallvec![node.wants(0).then_some(gradient), second]
        }
    }
    let result = combined(context, first, second)?;
    let edge = context.record(&[Some(first), Some(second)], 1, |_| smallvec![], Difference);
    Ok(result.with_edge(edge))
}

/// `first + second` of one shape.
pub(super) fn added(context: &mut Context, first: &Tensor, second: &Tensor) -> Result<Tensor, Unmodelled> {
    #[derive(Debug)]
    struct Sum;
    impl Backward for Sum {
        fn apply(&self, _context: &mut Context, node: &Node, gradients: &mut Gradients) -> Gradients {
            let Some(gradient) = gradients[0].take() else { return smallvec![None, None] };
            smallvec![node.wants(0).then(|| gradient.clone()), node.wants(1).then_some(gradient)]
        }
    }
    let result = combined(context, first, second)?;
    let edge = context.record(&[Some(first), Some(second)], 1, |_| smallvec![], Sum);
    Ok(result.with_edge(edge))
}

/// The new tensor that an elementwise operator of two makes.
pub(super) fn combined(context: &mut Context, first: &Tensor, second: &Tensor) -> Result<Tensor, Unmodelled> {
    if first.dtype() != second.dtype() {
        return Err(Unmodelled);
    }
    let layout = Layout::broadcast(&[first.layout(), second.layout()], first.dtype());
    Ok(context.empty(layout))
}

/// `source / divisor`, where the divisor is an integer on the GPU.
pub(super) fn divided(context: &mut Context, source: &Tensor, divisor: &Tensor) -> Tensor {
    let result = like(context, source);
    unary(context, source, result, Some(divisor.clone()), with_saved)
}

/// Zeros where the mask is true, in the source's own memory.
pub(super) fn masked_fill_in_place(context: &mut Context, source: &Tensor, mask: &Tensor) -> Tensor {
    unary(context, source, source.detach(), Some(mask.clone()), with_saved)
}

/// A gradient that is spread over what was summed; for a mean it is divided, which makes it real memory.
#[derive(Debug)]
struct Spread {
    shape: Dims,
    dim: Option<usize>,
    is_mean: bool,
}

impl Backward for Spread {
    fn apply(&self, context: &mut Context, node: &Node, gradients: &mut Gradients) -> Gradients {
        let Some(gradient) = gradients[0].take() else { return smallvec![None] };
        let mut strides = Dims::filled(0, self.shape.len());
        if let Some(dim) = self.dim {
            let kept = (0..self.shape.len()).filter(|&place| place != dim);
            for (place, &stride) in kept.zip(&gradient.layout().strides) {
                strides[place] = stride;
            }
        }
        let spread = gradient.view(Layout { dtype: gradient.dtype(), shape: self.shape.clone(), strides });
        drop(gradient);
        if self.is_mean {
            return smallvec![Some(elementwise(context, node, &spread))];
        }
        smallvec![Some(spread)]
    }
}

/// The sum over one dimension, which goes.
pub(super) fn sum_over(context: &mut Context, source: &Tensor, dim: usize) -> Tensor {
    let result = context.sum(source, &[dim as i64], false, source.dtype());
    let spread = Spread { shape: source.shape().into(), dim: Some(dim), is_mean: false };
    let edge = context.record(&[Some(source)], 1, |_| smallvec![], spread);
    result.with_edge(edge)
}

/// The sum or mean over everything, or the losses as they are.
pub(super) fn reduced(context: &mut Context, source: Tensor, reduction: Reduction) -> Tensor {
    if reduction == Reduction::None {
        return source;
    }
    let result = context.sum(&source, &[], false, source.dtype());
    let spread = Spread { shape: source.shape().into(), dim: None, is_mean: reduction == Reduction::Mean };
    let edge = context.record(&[Some(&source)], 1, |_| smallvec![], spread);
    result.with_edge(edge)
}
