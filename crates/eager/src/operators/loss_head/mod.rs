//! The end of a language model, from its last hidden states to its loss, computed in other ways than it was captured:
//! in checkpointed chunks, or by Liger's fused function.

mod chunked;
mod liger;
mod pattern;

use smallvec::SmallVec;
use vramfit_graph::bind::{BoundTensor, Value};
use vramfit_graph::dims::Dims;
use vramfit_graph::dtype::Dtype;
use vramfit_graph::layout::contiguous_strides;
use vramfit_graph::model::TensorId;

use super::call::{Call, Unmodelled, only};
use super::facts::MemoryRule;
use super::table::{facts, find};
use super::view::{reshape_to, reshaped_by_view};
use crate::autograd::{Context, Tensor};

pub(crate) use chunked::{chunk_lengths, chunks_of, loss_of_chunk, loss_of_chunks};
pub(crate) use liger::{Inputs as LigerInputs, fused_loss};
pub use pattern::{Head, NoHead, find_head};

/// How the loss of a language model is computed from its last hidden states.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum LossHead {
    /// As captured.
    #[default]
    Captured,
    /// In so many chunks, each of which is checkpointed, so that the logits of one chunk exist at a time.
    Chunked(u32),
    /// By `LigerFusedLinearCrossEntropyLoss` of liger-kernel.
    Liger,
}

/// What both functions begin with: the hidden states as rows, and the labels of the next tokens in one row.
pub(crate) fn rows_and_labels(
    context: &mut Context,
    hidden: &Tensor,
    labels: &Tensor,
) -> Result<(Tensor, Tensor), Unmodelled> {
    let (&width, outer) = hidden.shape().split_last().ok_or(Unmodelled)?;
    let rows = only(reshape_to(context, hidden, &[outer.iter().product(), width]))?;
    let padded = context.empty_contiguous(labels.dtype(), labels.shape());
    let count = padded.layout().elements();
    let flat = only(reshaped_by_view(context, &padded, &[count]))?;
    Ok((rows, flat))
}

/// Calls an operator with one or more tensors, then `rest`, as arguments; its result has this type and shape.
fn call(
    context: &mut Context,
    name: &'static str,
    tensors: &[&Tensor],
    rest: &[Value],
    (dtype, shape): (Dtype, &[i64]),
) -> Result<Tensor, Unmodelled> {
    let mut arguments: Vec<Value> = (0..tensors.len() as u32).map(|id| Value::Tensor(TensorId(id))).collect();
    arguments.extend_from_slice(rest);
    let tensors: Vec<Option<Tensor>> = tensors.iter().map(|&tensor| Some(tensor.clone())).collect();
    let result = captured(dtype, shape);
    let call = Call { arguments: &arguments, tensors: &tensors, captured: SmallVec::from_elem(Some(&result), 1) };
    let MemoryRule::Modelled(rule) = facts(find(name)).memory else { return Err(Unmodelled) };
    only(rule(context, &call))
}

/// A contiguous result as a capture would have it.
fn captured(dtype: Dtype, shape: &[i64]) -> BoundTensor {
    let elements: i64 = shape.iter().product();
    let bytes = elements.unsigned_abs() * dtype.bytes();
    BoundTensor {
        dtype,
        shape: Dims::from(shape),
        strides: contiguous_strides(shape),
        storage: 0,
        offset: 0,
        elements,
        bytes,
        extent: bytes,
        requires_grad: true,
        is_leaf: false,
        is_on_host: false,
        is_view: false,
    }
}
