//! What a mask selects: nonzero, masked_select. How many there are is known from the capture.

use smallvec::smallvec;
use vramfit_graph::dims::Dims;
use vramfit_graph::dtype::Dtype;
use vramfit_graph::layout::Layout;

use super::pieces::indices;
use crate::autograd::{Backward, Context, Gradients, Node, Tensor};
use crate::kernels::cub;
use crate::operators::call::{Call, Outcome};

pub(super) fn nonzero_call(context: &mut Context, call: &Call<'_>) -> Outcome {
    let shape = call.result(0)?.shape;
    Ok(smallvec![nonzero(context, call.tensor(0)?, shape.first().copied().unwrap_or(0))])
}

/// The places of `count` elements: they are counted first, then written down.
pub(in crate::operators) fn nonzero(context: &Context, source: &Tensor, count: i64) -> Tensor {
    let elements = source.layout().elements();
    let counter = context.scratch(4);
    drop(context.scratch(cub::count(elements)));
    let places = indices(context, &[source.shape().len() as i64, count]);
    drop(context.scratch(cub::select(elements)));
    drop(counter);
    places
}

/// The gradient is put back where the mask is true, with the help of a running count.
#[derive(Debug)]
struct Selected(Dims);

impl Backward for Selected {
    fn apply(&self, context: &mut Context, _node: &Node, gradients: &mut Gradients) -> Gradients {
        let gradient = gradients[0].clone();
        smallvec![gradient.map(|gradient| {
            let result = context.empty_contiguous(gradient.dtype(), &self.0);
            let counts = indices(context, &self.0);
            drop(context.scratch(cub::exclusive_sum(counts.layout().elements())));
            drop(counts);
            result
        })]
    }
}

pub(super) fn masked_select(context: &mut Context, call: &Call<'_>) -> Outcome {
    let (source, mask) = (call.tensor(0)?, call.tensor(1)?);
    let count = call.result(0)?.elements();
    let shape = Layout::broadcast(&[source.layout(), mask.layout()], Dtype::Bool).shape;
    let whole = mask.unsafe_view(vramfit_graph::layout::Layout::contiguous(Dtype::Bool, &shape));
    let places = nonzero(context, &whole, count);
    let result = context.empty_contiguous(source.dtype(), &[count]);
    drop(places);
    let saved = |_: &dyn Fn(usize) -> bool| smallvec![Some(mask.clone()), Some(source.clone())];
    let edge = context.record(&[Some(source)], 1, saved, Selected(shape));
    Ok(smallvec![result.with_edge(edge)])
}
