//! Values written in order where a mask is true.

use smallvec::smallvec;
use vramfit_graph::dims::Dims;
use vramfit_graph::dtype::Dtype;
use vramfit_graph::layout::Layout;

use super::pieces::{indices, spread, written};
use crate::autograd::{Backward, Context, Edge, Gradients, Node, Tensor};
use crate::kernels::cub;
use crate::operators::call::{Call, Outcome};

/// What was overwritten gets the gradient with zeros there, what was written the gradient from there.
#[derive(Debug)]
struct MaskedScattered {
    /// The shape of what was written.
    written: Dims,
}

impl Backward for MaskedScattered {
    fn apply(&self, context: &mut Context, node: &Node, gradients: &mut Gradients) -> Gradients {
        let Some(gradient) = gradients[0].clone() else { return smallvec![None, None] };
        let mask = node.saved(0);
        let shape = Layout::broadcast(&[gradient.layout(), mask.layout()], gradient.dtype()).shape;
        let target = node.wants(0).then(|| context.empty_contiguous(gradient.dtype(), &shape));
        let values = node.wants(1).then(|| selected(context, &gradient, &mask, &self.written));
        smallvec![target, values]
    }
}

/// The gradient from where the mask is true (`masked_scatter_backward`). Values that were not written get zeros; how many were is not
/// known, and most often all.
fn selected(context: &mut Context, gradient: &Tensor, mask: &Tensor, written: &[i64]) -> Tensor {
    let whole = mask.unsafe_view(spread(mask, gradient.shape()));
    let read = context.contiguous(&whole);
    let elements = gradient.layout().elements();
    let count: i64 = written.iter().product();
    let counter = context.scratch(4);
    drop(context.scratch(cub::count(elements)));
    let places = Layout::contiguous(Dtype::Int64, &[gradient.shape().len() as i64, count]).bytes();
    let places = context.uncertain_scratch("places that a mask picks", (0, places, places));
    drop(context.scratch(cub::select(elements)));
    drop(counter);
    drop(read);
    let result = context.empty_contiguous(gradient.dtype(), written);
    drop(places);
    result
}

/// What the kernel takes beside its result: a running count, and the mask and the values in contiguous memory.
fn write(context: &mut Context, shape: &[i64], mask: &Tensor, values: &Tensor) {
    let counts = indices(context, shape);
    let whole = context.contiguous(&mask.unsafe_view(spread(mask, shape)));
    drop(context.scratch(cub::exclusive_sum(counts.layout().elements())));
    let read = context.contiguous(values);
    drop(read);
    drop(whole);
    drop(counts);
}

fn recorded(context: &mut Context, target: &Tensor, mask: &Tensor, values: &Tensor) -> Option<Edge> {
    let saved = |_: &dyn Fn(usize) -> bool| smallvec![Some(mask.clone())];
    let backward = MaskedScattered { written: values.shape().into() };
    context.record(&[Some(target), Some(values)], 1, saved, backward)
}

pub(super) fn masked_scatter(context: &mut Context, call: &Call<'_>) -> Outcome {
    let (target, mask, values) = (call.tensor(0)?, call.tensor(1)?, call.tensor(2)?);
    let shape = Layout::broadcast(&[target.layout(), mask.layout()], target.dtype()).shape;
    let result = context.empty_contiguous(target.dtype(), &shape);
    write(context, &shape, mask, values);
    let edge = recorded(context, target, mask, values);
    Ok(smallvec![result.with_edge(edge)])
}

pub(super) fn masked_scatter_in_place(context: &mut Context, call: &Call<'_>) -> Outcome {
    let (target, mask, values) = (call.tensor(0)?, call.tensor(1)?, call.tensor(2)?);
    write(context, target.shape(), mask, values);
    let edge = recorded(context, target, mask, values);
    written(call, edge)
}
