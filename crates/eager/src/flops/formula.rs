//! What an operator costs, by its name and its arguments' shapes.

use vramfit_graph::bind::{Bound, BoundCall, BoundTensor, Value};

use super::Flops;

/// The cost of a call with all its gradients that are wanted; `None` for what counts nothing.
pub(super) fn cost(bound: &Bound<'_>, call: &BoundCall<'_>, is_attention_fused: bool) -> Option<Flops> {
    let name = bound.operator_name(call);
    let base = name.split('.').nth(1)?;
    let tensor = |index: usize| argument(bound, call, index);
    match base {
        "linear" => Some(product(tensor(0)?, tensor(1)?, linear(tensor(0)?, tensor(1)?)?)),
        "mm" | "bmm" | "matmul" => Some(product(tensor(0)?, tensor(1)?, matmul(tensor(0)?, tensor(1)?)?)),
        "addmm" | "baddbmm" => Some(product(tensor(1)?, tensor(2)?, matmul(tensor(1)?, tensor(2)?)?)),
        "scaled_dot_product_attention" => attention([tensor(0)?, tensor(1)?, tensor(2)?], is_attention_fused),
        "conv1d" | "conv2d" | "conv3d" => convolution(bound, call, false),
        "conv_transpose1d" | "conv_transpose2d" | "conv_transpose3d" => convolution(bound, call, true),
        "convolution" => convolution(bound, call, call.arguments.get(6) == Some(&Value::Bool(true))),
        _ => None,
    }
}

fn argument<'a>(bound: &'a Bound<'_>, call: &BoundCall<'_>, index: usize) -> Option<&'a BoundTensor> {
    match call.arguments.get(index)? {
        Value::Tensor(id) => Some(bound.tensor(*id)),
        _ => None,
    }
}

fn size(dims: &[i64]) -> u64 {
    dims.iter().map(|dim| dim.unsigned_abs()).product()
}

/// A product of `cost` operations: the gradient of either factor is another one of the same size.
fn product(first: &BoundTensor, second: &BoundTensor, cost: u64) -> Flops {
    let wanted = u64::from(first.requires_grad) + u64::from(second.requires_grad);
    Flops { forward: cost, backward: wanted * cost }
}

fn linear(input: &BoundTensor, weight: &BoundTensor) -> Option<u64> {
    let (&inner, outer) = input.shape.split_last()?;
    let &outputs = weight.shape.first()?;
    Some(2 * size(outer) * size(&[inner, outputs]))
}

/// A matrix times a vector runs a kernel that is not counted.
fn matmul(first: &BoundTensor, second: &BoundTensor) -> Option<u64> {
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
    Some(2 * batches * size(&[row, inner, *columns]))
}

/// Scores and their product with the values. Backward, a fused kernel computes the scores again.
fn attention([query, key, value]: [&BoundTensor; 3], is_fused: bool) -> Option<Flops> {
    let [leading @ .., queries, width] = query.shape.as_slice() else { return None };
    let &[.., keys, _] = key.shape.as_slice() else { return None };
    let &value_width = value.shape.last()?;
    let scores = 2 * size(leading) * size(&[*queries, *width, keys]);
    let mixed = 2 * size(leading) * size(&[*queries, keys, value_width]);
    let wants = [query, key, value].map(|tensor| u64::from(tensor.requires_grad));
    let backward = if is_fused {
        if wants == [0; 3] { 0 } else { 3 * scores + 2 * mixed }
    } else {
        (wants[0] + wants[1]) * scores + ((wants[0] | wants[1]) + wants[2]) * mixed
    };
    Some(Flops { forward: scores + mixed, backward })
}

/// The counter's rule for a convolution of `input` into `output`: the places where the kernel is laid times its size.
fn convolved(input: &[i64], kernel: &[i64], output: &[i64], is_transposed: bool) -> u64 {
    let places = if is_transposed { input } else { output };
    2 * size(&places[2..]) * size(kernel) * input[0].unsigned_abs()
}

fn swapped(shape: &[i64]) -> Vec<i64> {
    let mut shape = shape.to_vec();
    shape.swap(0, 1);
    shape
}

fn convolution(bound: &Bound<'_>, call: &BoundCall<'_>, is_transposed: bool) -> Option<Flops> {
    let (input, weight) = (argument(bound, call, 0)?, argument(bound, call, 1)?);
    let result = bound.tensor((*call.results.first()?)?);
    let kernel = weight.shape.as_slice();
    // A single sample without its batch dimension is given one.
    let batched = |shape: &[i64]| match shape.len() < kernel.len() {
        true => std::iter::once(1).chain(shape.iter().copied()).collect(),
        false => shape.to_vec(),
    };
    let (from, to): (Vec<i64>, Vec<i64>) = (batched(&input.shape), batched(&result.shape));
    if from.len() != kernel.len() || to.len() != kernel.len() || kernel.len() < 3 {
        return None;
    }
    let for_input = convolved(&to, kernel, &from, !is_transposed);
    // The counter takes this one for a convolution of all channels with all, whatever the groups.
    let for_weight = if is_transposed {
        convolved(&swapped(&to), &swapped(&from), &swapped(kernel), false)
    } else {
        convolved(&swapped(&from), &swapped(&to), &swapped(kernel), false)
    };
    Some(Flops {
        forward: convolved(&from, kernel, &to, is_transposed),
        backward: u64::from(input.requires_grad) * for_input + u64::from(weight.requires_grad) * for_weight,
    })
}
