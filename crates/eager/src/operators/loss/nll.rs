//! The negative log likelihood, of rows and of images.

use smallvec::smallvec;
use vramfit_graph::dims::Dims;

use super::reduction::Reduction;
use crate::autograd::{Backward, Context, Gradients, Node, Tensor};
use crate::operators::call::{Call, Outcome, Unmodelled, only};
use crate::operators::copy::contiguous_of;
use crate::operators::view::reshaped_by_view;

/// Saved: the input, the target, the weights, and the sum of the weights that counted.
#[derive(Debug)]
struct NllLoss;

impl Backward for NllLoss {
    fn apply(&self, context: &mut Context, node: &Node, gradients: &mut Gradients) -> Gradients {
        if gradients[0].is_none() {
            return smallvec![None];
        }
        let (input, target) = (node.saved(0), node.saved(1));
        let result = context.empty_contiguous(input.dtype(), input.shape());
        let target = context.contiguous(&target);
        drop(target);
        smallvec![Some(result)]
    }
}

fn record(
    context: &mut Context,
    input: &Tensor,
    target: &Tensor,
    weight: Option<&Tensor>,
    total: &Tensor,
    result: Tensor,
) -> Tensor {
    let saved = |_: &dyn Fn(usize) -> bool| {
        smallvec![Some(input.clone()), Some(target.clone()), weight.cloned(), Some(total.detach())]
    };
    let edge = context.record(&[Some(input)], 2, saved, NllLoss);
    result.with_edge(edge)
}

fn copies(context: &mut Context, input: &Tensor, target: &Tensor) {
    let input = context.contiguous(input);
    let target = context.contiguous(target);
    drop(target);
    drop(input);
}

/// `nll_loss` of rows of log-probabilities: the loss is allocated before the sum of weights.
fn of_rows(
    context: &mut Context,
    input: &Tensor,
    target: &Tensor,
    weight: Option<&Tensor>,
    reduction: Reduction,
) -> Tensor {
    let is_kept = reduction == Reduction::None && input.shape().len() == 2;
    let shape: &[i64] = if is_kept { &input.shape()[..1] } else { &[] };
    let result = context.empty_contiguous(input.dtype(), shape);
    let total = context.empty_contiguous(input.dtype(), &[]);
    copies(context, input, target);
    record(context, input, target, weight, &total, result)
}

/// `nll_loss2d`: the sum of weights is allocated first.
fn of_images(
    context: &mut Context,
    input: &Tensor,
    target: &Tensor,
    weight: Option<&Tensor>,
    reduction: Reduction,
) -> Tensor {
    let total = context.empty_contiguous(input.dtype(), &[]);
    let shape: &[i64] = if reduction == Reduction::None { target.shape() } else { &[] };
    let result = context.empty_contiguous(input.dtype(), shape);
    if reduction != Reduction::None {
        copies(context, input, target);
    }
    record(context, input, target, weight, &total, result)
}

/// `nll_loss_nd`: whatever shape the input has, classes in its second dimension.
pub(super) fn of_any(
    context: &mut Context,
    input: &Tensor,
    target: &Tensor,
    weight: Option<&Tensor>,
    reduction: Reduction,
) -> Result<Tensor, Unmodelled> {
    match input.shape() {
        [_] | [_, _] => Ok(of_rows(context, input, target, weight, reduction)),
        [_, _, _, _] => Ok(of_images(context, input, target, weight, reduction)),
        &[rows, classes, ..] => {
            let places: i64 = input.shape()[2..].iter().product();
            let input = contiguous_of(context, input);
            let target = context.contiguous(target);
            let flat_input = only(reshaped_by_view(context, &input, &[rows, classes, 1, places]))?;
            let flat_target = only(reshaped_by_view(context, &target, &[rows, 1, places]))?;
            let loss = of_images(context, &flat_input, &flat_target, weight, reduction);
            if reduction != Reduction::None {
                return Ok(loss);
            }
            let mut shape = Dims::from([rows]);
            shape.extend(input.shape()[2..].iter().copied());
            only(reshaped_by_view(context, &loss, &shape))
        }
        [] => Err(Unmodelled),
    }
}

pub(super) fn rule(context: &mut Context, call: &Call<'_>) -> Outcome {
    let reduction = Reduction::of(call, 3)?;
    Ok(smallvec![of_rows(context, call.tensor(0)?, call.tensor(1)?, call.optional_tensor(2), reduction)])
}

pub(super) fn rule_2d(context: &mut Context, call: &Call<'_>) -> Outcome {
    let reduction = Reduction::of(call, 3)?;
    Ok(smallvec![of_images(context, call.tensor(0)?, call.tensor(1)?, call.optional_tensor(2), reduction)])
}

pub(super) fn rule_nd(context: &mut Context, call: &Call<'_>) -> Outcome {
    let reduction = Reduction::of(call, 3)?;
    Ok(smallvec![of_any(context, call.tensor(0)?, call.tensor(1)?, call.optional_tensor(2), reduction)?])
}
