//! The loss in chunks: `linear`, `float` and `cross_entropy(reduction="sum")` of some rows at a time.

use smallvec::SmallVec;
use vramfit_graph::bind::Value;
use vramfit_graph::dtype::Dtype;
use vramfit_graph::layout::Layout;

use super::super::call::{Outcome, Unmodelled, only};
use super::super::copy::cast_to;
use super::super::joining::{cut, stacked};
use super::super::loss::summed_cross_entropy;
use super::super::product::linear;
use super::call;
use crate::autograd::{Context, Tensor};

/// The rows of each chunk of `tensor.chunk(chunks)`.
pub(crate) fn chunk_lengths(rows: i64, chunks: u32) -> Vec<i64> {
    let length = (rows + i64::from(chunks) - 1) / i64::from(chunks).max(1);
    let mut left = rows;
    let mut lengths = Vec::new();
    while left > 0 {
        lengths.push(left.min(length));
        left -= length;
    }
    lengths
}

/// `tensor.chunk(…)` along the rows.
pub(crate) fn chunks_of(context: &mut Context, tensor: &Tensor, lengths: &[i64]) -> Outcome {
    let part = |length: &i64| {
        let Layout { dtype, mut shape, strides } = tensor.layout().clone();
        shape[0] = *length;
        Layout { dtype, shape, strides }
    };
    cut(context, tensor, lengths.iter().map(part).collect())
}

/// The loss of one chunk.
pub(crate) fn loss_of_chunk(
    context: &mut Context,
    (hidden, labels): (&Tensor, &Tensor),
    (weight, bias): (&Tensor, Option<&Tensor>),
) -> Result<Tensor, Unmodelled> {
    // Autocast casts the rows of the chunk.
    let rows = if hidden.dtype() == weight.dtype() { hidden.clone() } else { cast_to(context, hidden, weight.dtype()) };
    let product = only(linear(context, &rows, weight, bias))?;
    drop(rows);
    let logits =
        if product.dtype() == Dtype::Float32 { product.clone() } else { cast_to(context, &product, Dtype::Float32) };
    drop(product);
    summed_cross_entropy(context, &logits, labels)
}

/// `torch.stack(losses).sum() / (labels != -100).sum()`.
pub(crate) fn loss_of_chunks(
    context: &mut Context,
    losses: Vec<Tensor>,
    labels: &Tensor,
) -> Result<Tensor, Unmodelled> {
    let all = stacked(context, &losses);
    let sum = call(context, "aten.sum.default", &[&all], &[Value::None], (Dtype::Float32, &[]))?;
    drop(all);
    let counted = call(context, "aten.ne.Scalar", &[labels], &[Value::Int(-100)], (Dtype::Bool, labels.shape()))?;
    let count = call(context, "aten.sum.default", &[&counted], &[Value::None], (Dtype::Int64, &[]))?;
    drop(counted);
    let loss = call(context, "aten.div.Tensor", &[&sum, &count], &[], (Dtype::Float32, &[]))?;
    drop(count);
    drop(sum);
    // A list frees its tensors from its end.
    let mut losses: SmallVec<[Tensor; 8]> = losses.into();
    while losses.pop().is_some() {}
    Ok(loss)
}
