//! Parts of a tensor, and windows on it: the gradient is put into memory of the whole shape.

use smallvec::smallvec;
use vramfit_graph::dims::Dims;
use vramfit_graph::dtype::Dtype;
use vramfit_graph::layout::Layout;

use super::finish;
use crate::autograd::{Backward, Context, Gradients, Node, Tensor};
use crate::operators::call::{Call, Outcome, Unmodelled};

/// A part of a tensor: its gradient is put into zeros of the whole shape.
#[derive(Debug)]
struct Part(Dims);

impl Backward for Part {
    fn apply(&self, context: &mut Context, _node: &Node, gradients: &mut Gradients) -> Gradients {
        let gradient = gradients[0].take();
        smallvec![gradient.map(|gradient| context.empty_contiguous(gradient.dtype(), &self.0))]
    }
}

/// A part of the same memory, in the graph: its gradient goes into zeros.
pub(in crate::operators) fn part_of(context: &mut Context, source: &Tensor, part: Layout) -> Outcome {
    finish(context, source, source.view(part), Part(source.shape().into()))
}

/// `tensor_split`: slices, each a view of its own with a gradient of the whole source.
pub(super) fn slices(context: &mut Context, call: &Call<'_>) -> Outcome {
    let source = call.tensor(0)?;
    let mut parts = smallvec![];
    for index in 0..call.captured.len() {
        let shape = call.result(index)?.shape;
        let part = source.view(Layout { dtype: source.dtype(), shape, strides: source.layout().strides.clone() });
        parts.extend(finish(context, source, part, Part(source.shape().into()))?);
    }
    Ok(parts)
}

pub(super) fn slice(context: &mut Context, call: &Call<'_>) -> Outcome {
    let source = call.tensor(0)?;
    let rank = source.shape().len();
    let dim = call.dim(1, rank)?;
    let step = call.int(4).unwrap_or(1);
    let shape = call.result(0)?.shape;
    let mut strides = source.layout().strides.clone();
    strides[dim] *= step;
    let result = source.view(Layout { dtype: source.dtype(), shape, strides });
    finish(context, source, result, Part(source.shape().into()))
}

pub(super) fn select(context: &mut Context, call: &Call<'_>) -> Outcome {
    let source = call.tensor(0)?;
    let rank = source.shape().len();
    let dim = call.dim(1, rank)?;
    let without = |dims: &[i64]| -> Dims {
        dims.iter().enumerate().filter(|&(place, _)| place != dim).map(|(_, &size)| size).collect()
    };
    let (shape, strides) = (without(source.shape()), without(&source.layout().strides));
    let result = source.view(Layout { dtype: source.dtype(), shape, strides });
    finish(context, source, result, Part(source.shape().into()))
}

/// The first elements along a dimension, in the graph.
pub(in crate::operators) fn narrowed(context: &mut Context, source: &Tensor, dim: usize, length: i64) -> Tensor {
    let mut layout = source.layout().clone();
    layout.shape[dim] = length;
    let edge = context.record(&[Some(source)], 1, |_| smallvec![], Part(source.shape().into()));
    source.view(layout).with_edge(edge)
}

pub(super) fn narrow(context: &mut Context, call: &Call<'_>) -> Outcome {
    let source = call.tensor(0)?;
    let shape = call.result(0)?.shape;
    let result = source.view(Layout { dtype: source.dtype(), shape, strides: source.layout().strides.clone() });
    finish(context, source, result, Part(source.shape().into()))
}

pub(super) fn diagonal(context: &mut Context, call: &Call<'_>) -> Outcome {
    let source = call.tensor(0)?;
    let rank = source.shape().len();
    let (first, second) = (call.dim(2, rank)?, call.dim(3, rank)?);
    let shape = call.result(0)?.shape;
    let all = &source.layout().strides;
    let mut strides: Dims = (0..rank).filter(|&dim| dim != first && dim != second).map(|dim| all[dim]).collect();
    strides.push(all[first] + all[second]);
    let result = source.view(Layout { dtype: source.dtype(), shape, strides });
    finish(context, source, result, Part(source.shape().into()))
}

/// The elements of a diagonal as a tensor of their own.
pub(super) fn diagonal_copy(context: &mut Context, call: &Call<'_>) -> Outcome {
    let source = call.tensor(0)?;
    let result = context.empty_contiguous(source.dtype(), &call.result(0)?.shape);
    finish(context, source, result, Part(source.shape().into()))
}

/// Zeros with the elements on a diagonal: the gradient is a view of that diagonal.
pub(super) fn diag_embed(context: &mut Context, call: &Call<'_>) -> Outcome {
    #[derive(Debug)]
    struct OnDiagonal(Dims);
    impl Backward for OnDiagonal {
        fn apply(&self, _context: &mut Context, _node: &Node, gradients: &mut Gradients) -> Gradients {
            let gradient = gradients[0].take();
            smallvec![gradient.map(|gradient| {
                let all = &gradient.layout().strides;
                let rank = all.len();
                let mut strides: Dims = all[..rank - 2].into();
                strides.push(all[rank - 2] + all[rank - 1]);
                gradient.view(Layout { dtype: gradient.dtype(), shape: self.0.clone(), strides })
            })]
        }
    }
    let source = call.tensor(0)?;
    if (call.int(2)?, call.int(3)?) != (-2, -1) {
        return Err(Unmodelled);
    }
    let result = context.empty_contiguous(source.dtype(), &call.result(0)?.shape);
    finish(context, source, result, OnDiagonal(source.shape().into()))
}

/// Windows along a dimension: the gradient is added up with the help of a row of indices.
pub(super) fn unfold(context: &mut Context, call: &Call<'_>) -> Outcome {
    #[derive(Debug)]
    struct Unfolded {
        whole: Dims,
        /// How far the windows reach along their dimension.
        reach: i64,
    }
    impl Backward for Unfolded {
        fn apply(&self, context: &mut Context, _node: &Node, gradients: &mut Gradients) -> Gradients {
            let gradient = gradients[0].take();
            smallvec![gradient.map(|gradient| {
                let result = context.empty_contiguous(gradient.dtype(), &self.whole);
                drop(context.empty_contiguous(Dtype::Int64, &[self.reach]));
                result
            })]
        }
    }
    let source = call.tensor(0)?;
    let dim = call.dim(1, source.shape().len())?;
    let (size, step) = (call.int(2)?, call.int(3)?);
    let shape = call.result(0)?.shape;
    if source.shape().is_empty() {
        return Err(Unmodelled);
    }
    let reach = source.shape()[dim].min((shape[dim] - 1) * step + size);
    let mut strides = source.layout().strides.clone();
    let stride = strides[dim];
    strides[dim] *= step;
    strides.push(stride);
    let result = source.view(Layout { dtype: source.dtype(), shape, strides });
    finish(context, source, result, Unfolded { whole: source.shape().into(), reach })
}
