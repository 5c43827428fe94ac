//! Another shape of the same memory: the gradient is given its old shape.

use smallvec::smallvec;
use vramfit_graph::bind::Value;
use vramfit_graph::dims::Dims;
use vramfit_graph::layout::Layout;

use super::finish;
use crate::autograd::{Backward, Context, Gradients, Node, Tensor};
use crate::operators::call::{Call, Outcome, Unmodelled, wrap};

/// A view whose gradient has only to be given its old shape.
#[derive(Debug)]
pub(super) struct Reshaped(pub(super) Dims);

impl Backward for Reshaped {
    fn apply(&self, context: &mut Context, _node: &Node, gradients: &mut Gradients) -> Gradients {
        smallvec![gradients[0].take().map(|gradient| reshaped(context, &gradient, &self.0))]
    }
}

/// The same memory in another shape, or a contiguous copy where strides do not allow that.
pub(in crate::operators) fn reshaped(context: &mut Context, tensor: &Tensor, shape: &[i64]) -> Tensor {
    match view_strides(tensor.layout(), shape) {
        Some(strides) => tensor.view(Layout { dtype: tensor.dtype(), shape: shape.into(), strides }),
        None => {
            let copy = context.empty_contiguous(tensor.dtype(), tensor.shape());
            copy.unsafe_view(Layout::contiguous(tensor.dtype(), shape))
        }
    }
}

/// The strides with which `layout`'s memory can be seen in `shape`, as `at::detail::computeStride` finds them.
pub(crate) fn view_strides(layout: &Layout, shape: &[i64]) -> Option<Dims> {
    if layout.elements() == 0 || layout.is_contiguous() {
        return Some(vramfit_graph::layout::contiguous_strides(shape));
    }
    let mut strides = Dims::filled(1, shape.len());
    let mut view = shape.len() as i64 - 1;
    let mut base = *layout.strides.last()?;
    let (mut chunk, mut viewed) = (1, 1);
    for dim in (0..layout.shape.len()).rev() {
        chunk *= layout.shape[dim];
        let is_chunk_end = dim == 0 || (layout.shape[dim - 1] != 1 && layout.strides[dim - 1] != chunk * base);
        if is_chunk_end {
            while view >= 0 && (viewed < chunk || shape[view as usize] == 1) {
                strides[view as usize] = viewed * base;
                viewed *= shape[view as usize];
                view -= 1;
            }
            if viewed != chunk {
                return None;
            }
            if dim > 0 {
                base = layout.strides[dim - 1];
                chunk = 1;
                viewed = 1;
            }
        }
    }
    (view == -1).then_some(strides)
}

/// Replaces `-1` by the size it means.
fn whole_shape(shape: &[i64], elements: i64) -> Dims {
    let known: i64 = shape.iter().filter(|&&size| size != -1).product();
    shape.iter().map(|&size| if size == -1 { elements / known.max(1) } else { size }).collect()
}

pub(super) fn view(context: &mut Context, call: &Call<'_>) -> Outcome {
    let source = call.tensor(0)?;
    let shape = whole_shape(&call.ints(1)?, source.layout().elements());
    let strides = view_strides(source.layout(), &shape).ok_or(Unmodelled)?;
    let result = source.view(Layout { dtype: source.dtype(), shape, strides });
    finish(context, source, result, Reshaped(source.shape().into()))
}

pub(super) fn reshape(context: &mut Context, call: &Call<'_>) -> Outcome {
    let source = call.tensor(0)?;
    let shape = whole_shape(&call.ints(1)?, source.layout().elements());
    reshape_to(context, source, &shape)
}

pub(super) fn reshape_as(context: &mut Context, call: &Call<'_>) -> Outcome {
    reshape_to(context, call.tensor(0)?, call.tensor(1)?.shape())
}

pub(in crate::operators) fn reshape_to(context: &mut Context, source: &Tensor, shape: &[i64]) -> Outcome {
    if let Some(strides) = view_strides(source.layout(), shape) {
        let result = source.view(Layout { dtype: source.dtype(), shape: shape.into(), strides });
        return finish(context, source, result, Reshaped(source.shape().into()));
    }
    let copy = crate::operators::copy::clone_contiguous(context, source);
    let result = copy.view(Layout::contiguous(source.dtype(), shape));
    finish(context, &copy, result, Reshaped(source.shape().into()))
}

pub(super) fn flatten(context: &mut Context, call: &Call<'_>) -> Outcome {
    let source = call.tensor(0)?;
    let shape = call.result(0)?.shape;
    if shape.as_slice() == source.shape() {
        return Ok(smallvec![source.clone()]);
    }
    reshape_to(context, source, &shape)
}

/// A view whose strides follow from the captured shape alone.
pub(super) fn captured_view(context: &mut Context, call: &Call<'_>) -> Outcome {
    let source = call.tensor(0)?;
    let shape = call.result(0)?.shape;
    let strides = view_strides(source.layout(), &shape).ok_or(Unmodelled)?;
    let result = source.view(Layout { dtype: source.dtype(), shape, strides });
    finish(context, source, result, Reshaped(source.shape().into()))
}

/// A dimension of one element put in; its stride is what a step over those after it would be.
pub(super) fn unsqueeze(context: &mut Context, call: &Call<'_>) -> Outcome {
    let source = call.tensor(0)?;
    let rank = source.shape().len();
    let place = wrap(call.int(1)?, rank + 1)?;
    let layout = source.layout();
    let stride = if place < rank { layout.shape[place] * layout.strides[place] } else { 1 };
    let with = |sizes: &[i64], new: i64| sizes[..place].iter().chain([&new]).chain(&sizes[place..]).copied().collect();
    let (shape, strides) = (with(&layout.shape, 1), with(&layout.strides, stride));
    finish(
        context,
        source,
        source.view(Layout { dtype: layout.dtype, shape, strides }),
        Reshaped(source.shape().into()),
    )
}

/// Dimensions of one element left out, all of them or those named.
pub(super) fn squeeze(context: &mut Context, call: &Call<'_>) -> Outcome {
    let source = call.tensor(0)?;
    let rank = source.shape().len();
    let named: Dims = match call.arguments.get(1) {
        None => (0..rank as i64).collect(),
        Some(Value::Int(dim)) => Dims::from([*dim]),
        Some(_) => call.ints(1)?,
    };
    let mut is_left_out: smallvec::SmallVec<[bool; 6]> = smallvec![false; rank];
    for &dim in named.iter().filter(|_| rank > 0) {
        let place = wrap(dim, rank)?;
        is_left_out[place] = source.shape()[place] == 1;
    }
    let kept =
        |sizes: &[i64]| sizes.iter().zip(&is_left_out).filter(|(_, out)| !**out).map(|(size, _)| *size).collect();
    let layout = source.layout();
    let layout = Layout { dtype: layout.dtype, shape: kept(&layout.shape), strides: kept(&layout.strides) };
    finish(context, source, source.view(layout), Reshaped(source.shape().into()))
}

/// Another shape of the same memory, in the graph.
pub(in crate::operators) fn reshaped_by_view(context: &mut Context, source: &Tensor, shape: &[i64]) -> Outcome {
    let strides = view_strides(source.layout(), shape).ok_or(Unmodelled)?;
    let result = source.view(Layout { dtype: source.dtype(), shape: shape.into(), strides });
    finish(context, source, result, Reshaped(source.shape().into()))
}
