//! Gradients of operators that take a part of a tensor or resize it, as operators, and their own gradients.

use smallvec::smallvec;
use vramfit_graph::dims::Dims;
use vramfit_graph::format::Format;
use vramfit_graph::layout::Layout;

use crate::autograd::{Backward, Context, Gradients, Node};
use crate::operators::call::{Call, Outcome};

/// `slice_backward`: zeros into which the part is copied. Its own gradient is the part of the gradient, a view.
pub(super) fn of_slice(context: &mut Context, call: &Call<'_>) -> Outcome {
    let gradient = call.tensor(0)?;
    let result = context.empty_contiguous(gradient.dtype(), &call.ints(1)?);
    let dim = call.dim(2, gradient.shape().len())?;
    let backward = Sliced { shape: gradient.shape().into(), dim, step: call.int(5)? };
    let edge = context.record(&[Some(gradient)], 1, |_| smallvec![], backward);
    Ok(smallvec![result.with_edge(edge)])
}

#[derive(Debug)]
struct Sliced {
    shape: Dims,
    dim: usize,
    step: i64,
}

impl Backward for Sliced {
    fn apply(&self, _context: &mut Context, _node: &Node, gradients: &mut Gradients) -> Gradients {
        let Some(gradient) = gradients[0].clone() else { return smallvec![None] };
        let mut strides = gradient.layout().strides.clone();
        strides[self.dim] *= self.step;
        smallvec![Some(gradient.view(Layout { dtype: gradient.dtype(), shape: self.shape.clone(), strides }))]
    }
}

/// The gradient of a resized image. Its own gradient is resized as the image was.
pub(super) fn of_resize(context: &mut Context, call: &Call<'_>) -> Outcome {
    let gradient = call.tensor(0)?;
    let format = Format::suggested(gradient.layout());
    let result = context.empty(format.layout(gradient.dtype(), &call.result(0)?.shape));
    drop(context.contiguous_in(gradient, format));
    let edge = context.record(&[Some(gradient)], 1, |_| smallvec![], Resized(gradient.shape().into()));
    Ok(smallvec![result.with_edge(edge)])
}

#[derive(Debug)]
struct Resized(Dims);

impl Backward for Resized {
    fn apply(&self, context: &mut Context, _node: &Node, gradients: &mut Gradients) -> Gradients {
        let Some(gradient) = gradients[0].clone() else { return smallvec![None] };
        let format = Format::suggested(gradient.layout());
        smallvec![Some(context.empty(format.layout(gradient.dtype(), &self.0)))]
    }
}
