//! Gradients of pools as operators, and their own gradients. What they are gradients of gets zeros.

use std::rc::Rc;

use smallvec::smallvec;
use vramfit_graph::format::Format;
use vramfit_graph::layout::Layout;

use crate::autograd::{Backward, Context, Gradients, Node, Tensor};
use crate::operators::call::{Call, Outcome};

/// The gradient of a pool, in the format of its input.
fn spread(context: &mut Context, gradient: &Tensor, input: &Tensor) -> Tensor {
    let format = Format::suggested(input.layout());
    let result = context.empty(format.layout(gradient.dtype(), input.shape()));
    drop(context.contiguous_in(gradient, format));
    result
}

/// `max_pool2d_with_indices_backward(grad, input, …, indices)`, which saves the indices.
pub(super) fn of_max_pool(context: &mut Context, call: &Call<'_>) -> Outcome {
    let (gradient, input, indices) = (call.tensor(0)?, call.tensor(1)?, call.tensor(7)?);
    let result = spread(context, gradient, input);
    let backward = OfMaxPool { pooled: gradient.shared_layout(), input: input.shared_layout() };
    let saved = |_: &dyn Fn(usize) -> bool| smallvec![Some(indices.clone())];
    let edge = context.record(&[Some(gradient), Some(input)], 1, saved, backward);
    Ok(smallvec![result.with_edge(edge)])
}

/// The values are gathered by the indices.
#[derive(Debug)]
struct OfMaxPool {
    pooled: Rc<Layout>,
    input: Rc<Layout>,
}

impl Backward for OfMaxPool {
    fn apply(&self, context: &mut Context, node: &Node, gradients: &mut Gradients) -> Gradients {
        let Some(gradient) = gradients[0].clone() else { return smallvec![None, None] };
        let of_gradient = node.wants(0).then(|| {
            let flat = context.contiguous(&gradient);
            let gathered = context.empty_contiguous(self.pooled.dtype, &self.pooled.shape);
            drop(flat);
            gathered
        });
        let zeros = node.wants(1).then(|| context.empty_contiguous(self.input.dtype, &self.input.shape));
        smallvec![of_gradient, zeros]
    }
}

/// `avg_pool2d_backward(grad, input, …)`, which saves nothing.
pub(super) fn of_average_pool(context: &mut Context, call: &Call<'_>) -> Outcome {
    let (gradient, input) = (call.tensor(0)?, call.tensor(1)?);
    let result = spread(context, gradient, input);
    let backward = OfAveragePool { pooled: gradient.shared_layout(), input: input.shared_layout() };
    let edge = context.record(&[Some(gradient), Some(input)], 1, |_| smallvec![], backward);
    Ok(smallvec![result.with_edge(edge)])
}

/// The pool again.
#[derive(Debug)]
struct OfAveragePool {
    pooled: Rc<Layout>,
    input: Rc<Layout>,
}

impl Backward for OfAveragePool {
    fn apply(&self, context: &mut Context, node: &Node, gradients: &mut Gradients) -> Gradients {
        let Some(gradient) = gradients[0].clone() else { return smallvec![None, None] };
        let of_gradient = node.wants(0).then(|| {
            let format = Format::suggested(gradient.layout());
            let result = context.empty(format.layout(gradient.dtype(), &self.pooled.shape));
            drop(context.contiguous_in(&gradient, format));
            result
        });
        let zeros = node.wants(1).then(|| context.empty_contiguous(self.input.dtype, &self.input.shape));
        smallvec![of_gradient, zeros]
    }
}
