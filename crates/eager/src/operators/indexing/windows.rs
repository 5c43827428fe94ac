//! Writing into a view of a copy: select_scatter, slice_scatter, diagonal_scatter.

use smallvec::smallvec;
use vramfit_graph::dims::Dims;
use vramfit_graph::layout::Layout;

use super::pieces::copy_of;
use crate::autograd::{Backward, Context, Gradients, Node};
use crate::operators::call::{Call, Outcome, Unmodelled};

/// The strides of a view, from those of the whole.
#[derive(Clone, Copy, Debug)]
enum Window {
    Select(usize),
    Slice { dim: usize, step: i64 },
    Diagonal(usize, usize),
}

impl Window {
    fn strides(self, whole: &[i64]) -> Dims {
        match self {
            Window::Select(dim) => {
                whole.iter().enumerate().filter(|&(at, _)| at != dim).map(|(_, &stride)| stride).collect()
            }
            Window::Slice { dim, step } => {
                whole.iter().enumerate().map(|(at, &stride)| if at == dim { stride * step } else { stride }).collect()
            }
            Window::Diagonal(first, second) => whole
                .iter()
                .enumerate()
                .filter(|&(at, _)| at != first && at != second)
                .map(|(_, &stride)| stride)
                .chain([whole[first] + whole[second]])
                .collect(),
        }
    }
}

/// The target's gradient is a copy with zeros in the view, what was written gets a view of the gradient.
#[derive(Debug)]
struct WrittenInto {
    window: Window,
    written: Dims,
}

impl Backward for WrittenInto {
    fn apply(&self, context: &mut Context, node: &Node, gradients: &mut Gradients) -> Gradients {
        let Some(gradient) = gradients[0].clone() else { return smallvec![None, None] };
        let dtype = gradient.dtype();
        let target = node.wants(0).then(|| {
            let zeros = context.empty_contiguous(dtype, &self.written);
            let copy = copy_of(context, &gradient);
            drop(zeros);
            copy
        });
        let written = node.wants(1).then(|| {
            let strides = self.window.strides(&gradient.layout().strides);
            gradient.view(Layout { dtype, shape: self.written.clone(), strides })
        });
        smallvec![target, written]
    }
}

fn write_into(context: &mut Context, call: &Call<'_>, window: Window) -> Outcome {
    let (target, written) = (call.tensor(0)?, call.tensor(1)?);
    let result = copy_of(context, target);
    let backward = WrittenInto { window, written: written.shape().into() };
    let edge = context.record(&[Some(target), Some(written)], 1, |_| smallvec![], backward);
    Ok(smallvec![result.with_edge(edge)])
}

fn rank(call: &Call<'_>) -> Result<usize, Unmodelled> {
    Ok(call.tensor(0)?.shape().len())
}

pub(super) fn select_scatter(context: &mut Context, call: &Call<'_>) -> Outcome {
    let window = Window::Select(call.dim(2, rank(call)?)?);
    write_into(context, call, window)
}

pub(super) fn slice_scatter(context: &mut Context, call: &Call<'_>) -> Outcome {
    let window = Window::Slice { dim: call.dim(2, rank(call)?)?, step: call.int(5).unwrap_or(1) };
    write_into(context, call, window)
}

pub(super) fn diagonal_scatter(context: &mut Context, call: &Call<'_>) -> Outcome {
    let rank = rank(call)?;
    let window = Window::Diagonal(call.dim(3, rank)?, call.dim(4, rank)?);
    write_into(context, call, window)
}
