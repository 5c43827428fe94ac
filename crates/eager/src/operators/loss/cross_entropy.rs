//! Cross entropy: of classes, with smoothed labels, of probabilities.

use smallvec::smallvec;
use vramfit_graph::dtype::Dtype;

use super::nll::of_any;
use super::pieces::{added, divided, masked_fill_in_place, reduced, scaled, sum_over};
use super::reduction::Reduction;
use crate::autograd::{Context, Tensor};
use crate::operators::call::{Call, Outcome, Unmodelled};
use crate::operators::pointwise::{MUL, apply};
use crate::operators::softmax::{Kind, softmax};

pub(super) fn rule(context: &mut Context, call: &Call<'_>) -> Outcome {
    let (input, target) = (call.tensor(0)?, call.tensor(1)?);
    let weight = call.optional_tensor(2);
    let reduction = Reduction::of(call, 3)?;
    let smoothing = call.float(5).unwrap_or(0.0);
    let class_dim = usize::from(input.shape().len() > 1);
    let result = if input.shape() == target.shape() {
        of_probabilities(context, input, target, weight, reduction, smoothing, class_dim)?
    } else if smoothing > 0.0 {
        smoothed(context, input, target, weight, reduction, class_dim)?
    } else {
        let logarithms = softmax(context, input, input.dtype(), Kind::Logarithm);
        of_any(context, &logarithms, target, weight, reduction)?
    };
    Ok(smallvec![result])
}

/// `cross_entropy(input, target, reduction="sum")` of classes.
pub(in crate::operators) fn summed(
    context: &mut Context,
    input: &Tensor,
    target: &Tensor,
) -> Result<Tensor, Unmodelled> {
    let logarithms = softmax(context, input, input.dtype(), Kind::Logarithm);
    of_any(context, &logarithms, target, None, Reduction::Sum)
}

fn of_probabilities(
    context: &mut Context,
    input: &Tensor,
    target: &Tensor,
    weight: Option<&Tensor>,
    reduction: Reduction,
    smoothing: f64,
    class_dim: usize,
) -> Result<Tensor, Unmodelled> {
    if weight.is_some() || smoothing > 0.0 {
        return Err(Unmodelled);
    }
    let logarithms = softmax(context, input, input.dtype(), Kind::Logarithm);
    let product = apply(context, &MUL, &[&logarithms, target]);
    if reduction == Reduction::None {
        let sum = sum_over(context, &product, class_dim);
        let result = scaled(context, &sum);
        drop(sum);
        drop(product);
        return Ok(result);
    }
    let sum = reduced(context, product.clone(), Reduction::Sum);
    let negated = scaled(context, &sum);
    let result = match reduction {
        Reduction::Mean => scaled(context, &negated),
        _ => negated.clone(),
    };
    drop(negated);
    drop(sum);
    drop(product);
    Ok(result)
}

fn smoothed(
    context: &mut Context,
    input: &Tensor,
    target: &Tensor,
    weight: Option<&Tensor>,
    reduction: Reduction,
    class_dim: usize,
) -> Result<Tensor, Unmodelled> {
    // With weights the targets that count are selected, how many is not known before.
    if weight.is_some() {
        return Err(Unmodelled);
    }
    let logarithms = softmax(context, input, input.dtype(), Kind::Logarithm);
    let likelihood = of_any(context, &logarithms, target, None, reduction)?;
    let sum = sum_over(context, &logarithms, class_dim);
    let negated = scaled(context, &sum);
    drop(sum);
    let ignored = context.empty(target.like(Dtype::Bool));
    let smooth = masked_fill_in_place(context, &negated, &ignored);
    drop(negated);
    let uniform = match reduction {
        Reduction::None => smooth.clone(),
        Reduction::Sum => reduced(context, smooth.clone(), Reduction::Sum),
        Reduction::Mean => {
            let counted = context.empty(ignored.like(Dtype::Bool));
            let count = count_of(context, &counted);
            let sum = reduced(context, smooth.clone(), Reduction::Sum);
            let mean = divided(context, &sum, &count);
            drop(sum);
            drop(count);
            drop(counted);
            mean
        }
    };
    // C++ evaluates the right operand first.
    let second = scaled(context, &uniform);
    let first = scaled(context, &likelihood);
    let result = added(context, &first, &second)?;
    drop(first);
    drop(second);
    drop(uniform);
    drop(ignored);
    drop(smooth);
    drop(likelihood);
    Ok(result)
}

/// How many are true: a sum of integers, which booleans are turned into first.
fn count_of(context: &mut Context, mask: &Tensor) -> Tensor {
    let result = context.empty_contiguous(Dtype::Int64, &[]);
    let integers = context.empty(mask.like(Dtype::Int64));
    context.sum_into(&integers, Dtype::Int64);
    drop(integers);
    result
}
