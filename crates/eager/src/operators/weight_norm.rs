//! Weight normalization: a direction, and its length as a weight of its own.

use smallvec::smallvec;
use vramfit_graph::dtype::Dtype;

use super::call::{Call, Outcome, Unmodelled};
use super::facts::*;
use crate::autograd::{Backward, Context, Gradients, Node};

/// What the family's operators have in common.
const FAMILY: Facts = Facts::of_family(
    Library::Own,
    Launch::LocalMemory,
    Time::ASSUMED,
    Keeps::Nothing,
    Autocast::Unchanged,
    Samples::Unknown,
);

pub(super) const OPERATORS: &[Operator] =
    &[Operator::new(&["aten._weight_norm.default"], Facts { memory: Modelled(weight_norm), ..FAMILY })];

/// `_weight_norm_interface_backward` in `WeightNorm.cu`. Saved: the length, the direction, the norms.
#[derive(Debug)]
struct WeightNorm;

impl Backward for WeightNorm {
    fn apply(&self, context: &mut Context, node: &Node, gradients: &mut Gradients) -> Gradients {
        let Some(gradient) = gradients[0].clone() else { return smallvec![None, None] };
        let (length, direction) = (node.saved(0), node.saved(1));
        let read = context.contiguous(&gradient);
        let of_direction = context.empty_contiguous(direction.dtype(), direction.shape());
        let of_length = context.empty_contiguous(length.dtype(), length.shape());
        drop(read);
        smallvec![Some(of_direction), Some(of_length)]
    }
}

/// The fused kernel, for the norms over all dimensions but the first or the last: the weight, then the norms, which are kept.
fn weight_norm(context: &mut Context, call: &Call<'_>) -> Outcome {
    let (direction, length) = (call.tensor(0)?, call.tensor(1)?);
    let dim = call.int(2).unwrap_or(0);
    let is_fused = dim == 0 || dim == direction.shape().len() as i64 - 1;
    if !is_fused || !direction.layout().is_contiguous() || !length.layout().is_contiguous() {
        return Err(Unmodelled);
    }
    let result = context.empty_contiguous(direction.dtype(), direction.shape());
    let wide = if direction.dtype() == Dtype::Float64 { Dtype::Float64 } else { Dtype::Float32 };
    let norms = context.empty_contiguous(wide, length.shape());
    let edge = context.record(
        &[Some(direction), Some(length)],
        2,
        |_| smallvec![Some(length.clone()), Some(direction.clone()), Some(norms)],
        WeightNorm,
    );
    Ok(smallvec![result.with_edge(edge)])
}
