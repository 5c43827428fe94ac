//! Products of tensors of any rank: folded into one product of matrices where PyTorch folds, else batch by batch. The
//! linear layer is one of them.

use smallvec::smallvec;
use vramfit_graph::dims::Dims;

use super::matrix::{add_product, multiply};
use super::vector::{dot, mv};
use crate::autograd::{Context, Tensor};
use crate::operators::call::{Call, Outcome, Unmodelled, only};
use crate::operators::copy::contiguous_of;
use crate::operators::pointwise::add_into;
use crate::operators::view::{expanded, permuted_in_graph, reshape_to, reshaped_by_view, transposed};

/// Whether the larger factor is folded into a matrix, as `should_fold` decides.
fn should_fold(first: &Tensor, second: &Tensor) -> bool {
    let is_first_larger = first.shape().len() >= second.shape().len();
    let (larger, smaller) = if is_first_larger { (first, second) } else { (second, first) };
    let rank = larger.shape().len();
    if rank < 3 || smaller.shape().len() > 2 {
        return false;
    }
    if smaller.requires_grad() {
        return true;
    }
    if first.shape().len() == 2 {
        return false;
    }
    if larger.layout().elements() == 0 {
        return true;
    }
    let mut layout = larger.layout().clone();
    if !is_first_larger {
        layout.shape.swap(rank - 1, rank - 2);
        layout.strides.swap(rank - 1, rank - 2);
    }
    (0..rank - 2).all(|dim| layout.strides[dim] == layout.strides[dim + 1] * layout.shape[dim + 1])
}

/// The last two dimensions swapped.
fn turned(context: &mut Context, tensor: &Tensor) -> Result<Tensor, Unmodelled> {
    let rank = tensor.shape().len();
    let mut order: Dims = (0..rank as i64).collect();
    order.swap(rank - 1, rank - 2);
    only(permuted_in_graph(context, tensor, &order))
}

/// `input @ weight.t()`, or a gradient times the weight. Whether the weight is trained decides how, also where the graph is not kept.
pub(super) fn times_weight(context: &mut Context, input: &Tensor, turned: &Tensor, is_trained: bool) -> Outcome {
    if is_trained && input.shape().len() >= 3 {
        return folded(context, input, turned);
    }
    matmul(context, input, turned)
}

/// `first @ second`.
pub(in crate::operators) fn matmul(context: &mut Context, first: &Tensor, second: &Tensor) -> Outcome {
    match (first.shape().len(), second.shape().len()) {
        (0, _) | (_, 0) => Err(Unmodelled),
        (1, 1) => dot(context, first, second),
        (2, 1) => mv(context, first, second),
        (2, 2) => multiply(context, first, second),
        (1, 2) => {
            let row = only(reshaped_by_view(context, first, &[1, first.shape()[0]]))?;
            let product = only(multiply(context, &row, second))?;
            reshaped_by_view(context, &product, &[second.shape()[1]])
        }
        _ if should_fold(first, second) => folded(context, first, second),
        _ => batched(context, first, second),
    }
}

fn folded(context: &mut Context, first: &Tensor, second: &Tensor) -> Outcome {
    let is_turned = second.shape().len() > first.shape().len();
    let (larger, smaller) = if is_turned {
        let larger = turned(context, second)?;
        let smaller = if first.shape().len() == 2 { turned(context, first)? } else { first.clone() };
        (larger, smaller)
    } else {
        (first.clone(), second.clone())
    };
    let (&inner, outer) = larger.shape().split_last().ok_or(Unmodelled)?;
    let mut shape: Dims = outer.into();
    let flat = only(reshape_to(context, &larger, &[outer.iter().product(), inner]))?;
    if smaller.shape().len() == 1 {
        let product = only(mv(context, &flat, &smaller))?;
        return unsafe_view(context, product, &shape);
    }
    shape.push(smaller.shape()[1]);
    let product = only(multiply(context, &flat, &smaller))?;
    let result = only(unsafe_view(context, product, &shape))?;
    if !is_turned {
        return Ok(smallvec![result]);
    }
    let back = turned(context, &result)?;
    drop(result);
    Ok(smallvec![contiguous_of(context, &back)])
}

/// `_unsafe_view`: the temporary product goes on in another shape.
fn unsafe_view(context: &mut Context, product: Tensor, shape: &[i64]) -> Outcome {
    reshaped_by_view(context, &product, shape)
}

fn batched(context: &mut Context, first: &Tensor, second: &Tensor) -> Outcome {
    let (one, other) = (first.shape().len(), second.shape().len());
    if one == 3 && other == 3 && first.shape()[0] != second.shape()[0] {
        if first.shape()[0] == 1 && first.requires_grad() {
            let flat = only(reshaped_by_view(context, first, &first.shape()[1..]))?;
            return matmul(context, &flat, second);
        }
        if second.shape()[0] == 1 && second.requires_grad() {
            let flat = only(reshaped_by_view(context, second, &second.shape()[1..]))?;
            return matmul(context, first, &flat);
        }
    }
    let (first_batch, first_matrix) = first.shape().split_at(one.saturating_sub(2));
    let (second_batch, second_matrix) = second.shape().split_at(other.saturating_sub(2));
    let batch = broadcast(first_batch, second_batch);
    let count = batch.iter().product();
    let spread = |context: &mut Context, tensor: &Tensor, matrix: &[i64]| -> Result<Tensor, Unmodelled> {
        let shape: Dims = batch.iter().chain(matrix).copied().collect();
        let wide = only(expanded(context, tensor, &shape))?;
        let flat: Dims = std::iter::once(&count).chain(matrix).copied().collect();
        only(reshape_to(context, &wide, &flat))
    };
    // A vector on the left is a row. One on the right is repeated as it is, then each is a column.
    let row = [1, *first.shape().last().ok_or(Unmodelled)?];
    let left = spread(context, first, if one == 1 { &row } else { first_matrix })?;
    let mut right = spread(context, second, second_matrix)?;
    if other == 1 {
        right = only(reshaped_by_view(context, &right, &[count, second_matrix[0], 1]))?;
    }
    let mut product = only(multiply(context, &left, &right))?;
    if other == 1 {
        product = only(reshaped_by_view(context, &product, &product.shape()[..2]))?;
    }
    let mut shape = batch;
    if one > 1 {
        shape.push(first_matrix[0]);
    }
    if other > 1 {
        shape.push(second_matrix[1]);
    }
    let result = unsafe_view(context, product, &shape);
    drop(right);
    drop(left);
    result
}

fn broadcast(first: &[i64], second: &[i64]) -> Dims {
    let rank = first.len().max(second.len());
    (0..rank)
        .map(|dim| {
            let of = |shape: &[i64]| (dim + shape.len()).checked_sub(rank).map_or(1, |place| shape[place]);
            if of(first) == 1 { of(second) } else { of(first) }
        })
        .collect()
}

/// Whether a layer sees an input as a matrix. Its result is then a view of the product.
fn sees_matrix(input: &Tensor, bias: &Tensor) -> bool {
    input.shape().len() != 2 && input.layout().is_contiguous() && bias.shape().len() == 1
}

/// The same of a call of a linear layer.
pub(crate) fn is_view_of_product(call: &Call<'_>) -> bool {
    let (input, bias) = (call.tensor(0).ok(), call.optional_tensor(2));
    input.zip(bias).is_some_and(|(input, bias)| sees_matrix(input, bias))
}

/// `input @ weight.t() + bias`.
pub(in crate::operators) fn linear(
    context: &mut Context,
    input: &Tensor,
    weight: &Tensor,
    bias: Option<&Tensor>,
) -> Outcome {
    let Some((&inner, outer)) = input.shape().split_last() else { return Err(Unmodelled) };
    let columns = match (weight.shape(), bias) {
        (&[columns, _], _) => columns,
        // A vector is multiplied as it is.
        (&[_], None) => return matmul(context, input, weight),
        _ => return Err(Unmodelled),
    };
    let Some(bias) = bias else {
        let turned = only(transposed(context, weight))?;
        return times_weight(context, input, &turned, weight.requires_grad());
    };
    if outer.len() == 1 {
        let turned = only(transposed(context, weight))?;
        return add_product(context, bias, (input, &turned));
    }
    if sees_matrix(input, bias) {
        let flat = only(reshaped_by_view(context, input, &[outer.iter().product(), inner]))?;
        let turned = only(transposed(context, weight))?;
        let product = only(add_product(context, bias, (&flat, &turned)))?;
        let mut shape: Dims = outer.into();
        shape.push(columns);
        return reshaped_by_view(context, &product, &shape);
    }
    let turned = only(transposed(context, weight))?;
    let product = only(times_weight(context, input, &turned, weight.requires_grad()))?;
    drop(turned);
    add_into(context, &product, bias)
}
