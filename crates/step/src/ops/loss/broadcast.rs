//! `broadcast_tensors`, by which `torch.nn.functional` brings inputs and targets to one shape.

use smallvec::smallvec;

use super::super::view::expanded;
use super::{Call, Context, Outcome};

pub(super) fn rule(context: &mut Context, call: &Call<'_>) -> Outcome {
    let tensors = call.tensor_list(0)?;
    let Some(first) = tensors.first() else { return Ok(smallvec![]) };
    let layouts: Vec<_> = tensors.iter().map(|tensor| tensor.layout()).collect();
    let shape = context.broadcast_layout(&layouts, first.dtype()).shape;
    // A tensor that has the shape already stays itself.
    tensors
        .into_iter()
        .map(|tensor| if tensor.shape() == shape.as_slice() { Ok(tensor.clone()) } else { expanded(context, tensor, &shape) })
        .collect()
}
