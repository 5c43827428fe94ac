//! Floating-point operations of products, as `torch.utils.flop_counter` counts them.

use vramfit_graph::bind::{Bound, BoundCall, BoundTensor};

use crate::operators::facts::{Flops, argument, elements};

/// A product of `cost` operations: the gradient of either factor is another one of the same size.
fn with_gradients(first: &BoundTensor, second: &BoundTensor, cost: u64) -> Flops {
    let wanted = u64::from(first.requires_grad) + u64::from(second.requires_grad);
    Flops { forward: cost, backward: wanted * cost }
}

/// `linear`: the second factor has its columns as rows.
pub(super) fn linear(bound: &Bound<'_>, call: &BoundCall<'_>, _is_fused: bool) -> Option<Flops> {
    let (input, weight) = (argument(bound, call, 0)?, argument(bound, call, 1)?);
    let (&inner, outer) = input.shape.split_last()?;
    let &outputs = weight.shape.first()?;
    Some(with_gradients(input, weight, 2 * elements(outer) * elements(&[inner, outputs])))
}

/// `mm`, `bmm`, `matmul`.
pub(super) fn product(bound: &Bound<'_>, call: &BoundCall<'_>, _is_fused: bool) -> Option<Flops> {
    matmul(argument(bound, call, 0)?, argument(bound, call, 1)?)
}

/// `addmm`, `baddbmm`.
pub(super) fn added_product(bound: &Bound<'_>, call: &BoundCall<'_>, _is_fused: bool) -> Option<Flops> {
    matmul(argument(bound, call, 1)?, argument(bound, call, 2)?)
}

/// A matrix times a vector runs a kernel that is not counted.
fn matmul(first: &BoundTensor, second: &BoundTensor) -> Option<Flops> {
    let (&inner, rows) = first.shape.split_last()?;
    let [batch @ .., _, columns] = second.shape.as_slice() else { return None };
    let (leading, row) = match rows {
        [leading @ .., row] => (leading, *row),
        [] => (&[][..], 1),
    };
    let rank = leading.len().max(batch.len());
    let dim = |dims: &[i64], index: usize| {
        let missing = rank - dims.len();
        if index < missing { 1 } else { dims[index - missing] }
    };
    let batches: u64 = (0..rank).map(|index| dim(leading, index).max(dim(batch, index)).unsigned_abs()).product();
    Some(with_gradients(first, second, 2 * batches * elements(&[row, inner, *columns])))
}
