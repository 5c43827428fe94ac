//! Losses.

use smallvec::smallvec;

use super::softmax::log_softmax;
use super::{Call, Context, Outcome, Rule, Unmodelled};
use crate::tape::{Backward, Gradients, Node};
use crate::tensor::Tensor;

pub(super) fn rule(name: &str) -> Option<Rule> {
    Some(match name {
        "aten.cross_entropy_loss.default" => cross_entropy,
        "aten.nll_loss.default" | "aten.nll_loss_nd.default" => nll_loss_call,
        _ => return None,
    })
}

/// Saved: the target, and the sum of the weights.
#[derive(Debug)]
struct NllLoss;

impl Backward for NllLoss {
    fn apply(&self, context: &mut Context, node: &Node, gradients: &mut Gradients) -> Gradients {
        let input = node.saved(0);
        smallvec![gradients[0].as_ref().map(|_| context.empty_contiguous(input.dtype(), input.shape()))]
    }
}

fn nll_loss(context: &mut Context, input: &Tensor, target: &Tensor, reduction: i64) -> Outcome {
    let shape: &[i64] = if reduction == 0 { target.shape() } else { &[] };
    let result = context.empty_contiguous(input.dtype(), shape);
    let total_weight = context.empty_contiguous(input.dtype(), &[]);
    let edge = context.record(
        &[Some(input)],
        2,
        |_| smallvec![Some(input.clone()), Some(target.clone()), Some(total_weight.clone())],
        NllLoss,
    );
    Ok(smallvec![result.with_edge(edge)])
}

fn nll_loss_call(context: &mut Context, call: &Call<'_>) -> Outcome {
    nll_loss(context, call.tensor(0)?, call.tensor(1)?, call.int(3)?)
}

fn cross_entropy(context: &mut Context, call: &Call<'_>) -> Outcome {
    let (input, target) = (call.tensor(0)?, call.tensor(1)?);
    let has_classes = target.shape().len() + 1 == input.shape().len();
    if !has_classes || !call.is_none(2) || call.float(5)? != 0.0 || input.shape().len() != 2 {
        return Err(Unmodelled);
    }
    let logarithms = log_softmax(context, input, input.dtype());
    nll_loss(context, &logarithms, target, call.int(3)?)
}
