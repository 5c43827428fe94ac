//! Losses of numbers against numbers.

use smallvec::smallvec;
use vramfit_graph::layout::Layout;

use super::pieces::{absolute, combined, difference, reduced};
use super::reduction::Reduction;
use crate::autograd::{Backward, Context, Gradients, Node, Saved, Tensor};
use crate::operators::call::{Call, Outcome, Unmodelled};
use crate::operators::pointwise::{KERNEL_OF_RESULT, MUL, XLOGY, apply, promote, subtract};

/// What a loss's own backward formula allocates beside the gradient.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Formula {
    /// Nothing.
    Plain,
    /// The same; the target's gradient is the negative input times the gradient.
    Logits,
    /// The target times weights of the positive class, and the sigmoid.
    PositiveWeights,
    /// Three steps to the exponential.
    SoftMargin,
}

/// Saved: first what sorts before `self`, then the input and the target. Each wants a new tensor as its gradient.
#[derive(Debug)]
struct Loss {
    input: usize,
    formula: Formula,
}

impl Backward for Loss {
    fn apply(&self, context: &mut Context, node: &Node, gradients: &mut Gradients) -> Gradients {
        if gradients[0].is_none() {
            return smallvec![None, None];
        }
        let input = node.saved(self.input);
        let target = node.saved(self.input + 1);
        let first = node.wants(0).then(|| match self.formula {
            Formula::Plain | Formula::Logits => context.empty_contiguous(input.dtype(), input.shape()),
            Formula::PositiveWeights => {
                let weights = node.saved(0);
                let layout = Layout::broadcast(&[weights.layout(), target.layout()], target.dtype());
                let weighted = context.empty(layout.clone());
                let result = context.empty(layout);
                drop(context.empty(input.like(input.dtype())));
                drop(weighted);
                result
            }
            Formula::SoftMargin => {
                let negated = context.empty(target.like(target.dtype()));
                let product = context.empty(input.like(input.dtype()));
                let exponential = context.empty(input.like(input.dtype()));
                drop(product);
                drop(negated);
                let result = context.empty(input.like(input.dtype()));
                drop(exponential);
                result
            }
        });
        let second = node.wants(1).then(|| match self.formula {
            Formula::Logits => {
                let negated = context.empty(input.like(input.dtype()));
                let result = context.empty(negated.like(negated.dtype()));
                drop(negated);
                result
            }
            _ => context.empty_contiguous(target.dtype(), target.shape()),
        });
        smallvec![first, second]
    }
}

fn record(
    context: &mut Context,
    inputs: [&Tensor; 2],
    before: Option<&Tensor>,
    result: Tensor,
    formula: Formula,
) -> Tensor {
    record_weighted(context, inputs, before, None, result, formula)
}

/// With weights, by which losses and gradients are multiplied in place.
fn record_weighted(
    context: &mut Context,
    inputs: [&Tensor; 2],
    before: Option<&Tensor>,
    weight: Option<&Tensor>,
    result: Tensor,
    formula: Formula,
) -> Tensor {
    let [input, target] = inputs;
    let saved = |_: &dyn Fn(usize) -> bool| -> Saved {
        let mut saved: Saved = before.map(|tensor| Some(tensor.clone())).into_iter().collect();
        saved.extend([Some(input.clone()), Some(target.clone()), weight.cloned()]);
        saved
    };
    let backward = Loss { input: usize::from(before.is_some()), formula };
    let edge = context.record(&[Some(input), Some(target)], 1, saved, backward);
    result.with_edge(edge)
}

/// The input and the target, which must have one type and one shape.
fn pair<'a>(call: &'a Call<'_>) -> Result<(&'a Tensor, &'a Tensor), Unmodelled> {
    let (input, target) = (call.tensor(0)?, call.tensor(1)?);
    if input.shape() != target.shape() || input.dtype() != target.dtype() {
        return Err(Unmodelled);
    }
    Ok((input, target))
}

/// A number in memory that is as large as all the losses were: the result is made smaller, its memory is not.
fn shrunk(tensor: &Tensor) -> Tensor {
    tensor.view(Layout::contiguous(tensor.dtype(), &[]))
}

fn plain_sum(context: &mut Context, tensor: &Tensor) -> Tensor {
    context.sum(tensor, &[], false, tensor.dtype())
}

/// Losses whose result is laid out for all elements before it is reduced.
fn structured(context: &mut Context, call: &Call<'_>) -> Outcome {
    let (input, target) = pair(call)?;
    let reduction = Reduction::of(call, 2)?;
    let whole = combined(context, input, target)?;
    let result = if reduction == Reduction::None {
        whole
    } else {
        let losses = combined(context, input, target)?;
        context.sum_into(&losses, losses.dtype());
        drop(losses);
        shrunk(&whole)
    };
    Ok(smallvec![record(context, [input, target], None, result, Formula::Plain)])
}

pub(super) fn mse(context: &mut Context, call: &Call<'_>) -> Outcome {
    structured(context, call)
}

pub(super) fn smooth_l1(context: &mut Context, call: &Call<'_>) -> Outcome {
    structured(context, call)
}

pub(super) fn huber(context: &mut Context, call: &Call<'_>) -> Outcome {
    let (input, target) = pair(call)?;
    let losses = context.empty(input.like(input.dtype()));
    let result = match Reduction::of(call, 2)? {
        Reduction::None => losses,
        _ => plain_sum(context, &losses),
    };
    Ok(smallvec![record(context, [input, target], None, result, Formula::Plain)])
}

pub(super) fn l1(context: &mut Context, call: &Call<'_>) -> Outcome {
    let (input, target) = pair(call)?;
    let apart = difference(context, input, target)?;
    let losses = absolute(context, &apart);
    let result = reduced(context, losses, Reduction::of(call, 2)?);
    drop(apart);
    Ok(smallvec![result])
}

/// A loss that is reduced in its own memory.
fn in_own_memory(context: &mut Context, input: &Tensor, reduction: Reduction) -> Tensor {
    let losses = context.empty(input.like(input.dtype()));
    if reduction == Reduction::None {
        return losses;
    }
    drop(plain_sum(context, &losses));
    shrunk(&losses)
}

pub(super) fn binary(context: &mut Context, call: &Call<'_>) -> Outcome {
    let (input, target) = pair(call)?;
    if target.requires_grad() {
        return Err(Unmodelled);
    }
    let result = in_own_memory(context, input, Reduction::of(call, 3)?);
    Ok(smallvec![record_weighted(context, [input, target], None, call.optional_tensor(2), result, Formula::Plain)])
}

pub(super) fn soft_margin(context: &mut Context, call: &Call<'_>) -> Outcome {
    let (input, target) = pair(call)?;
    let result = in_own_memory(context, input, Reduction::of(call, 2)?);
    let target = target.detach();
    Ok(smallvec![record(context, [input, &target], None, result, Formula::SoftMargin)])
}

/// A margin between the right class and every other.
pub(super) fn multi_margin(context: &mut Context, call: &Call<'_>) -> Outcome {
    let (input, target) = (call.tensor(0)?, call.tensor(1)?);
    if !call.is_none(4) {
        return Err(Unmodelled);
    }
    let is_kept = Reduction::of(call, 5)? == Reduction::None && input.shape().len() == 2;
    let result = context.empty_contiguous(input.dtype(), if is_kept { target.shape() } else { &[] });
    if !is_kept && input.shape().len() == 2 {
        let losses = context.empty_contiguous(input.dtype(), target.shape());
        context.sum_into(&losses, losses.dtype());
    }
    Ok(smallvec![record(context, [input, target], None, result, Formula::Plain)])
}

pub(super) fn binary_with_logits(context: &mut Context, call: &Call<'_>) -> Outcome {
    let (input, target) = (call.tensor(0)?, call.tensor(1)?);
    let positive = call.optional_tensor(3);
    let is_target_recorded = context.is_grad_on() && target.requires_grad();
    if input.shape() != target.shape()
        || (is_target_recorded && (positive.is_some() || call.optional_tensor(2).is_some()))
    {
        return Err(Unmodelled);
    }
    if positive.is_some_and(|weights| weights.dtype() != target.dtype()) {
        return Err(Unmodelled);
    }
    let logarithm = context.empty(input.like(input.dtype()));
    if let Some(weights) = positive {
        let without_one = context.empty(weights.like(weights.dtype()));
        let layout = Layout::broadcast(&[without_one.layout(), target.layout()], target.dtype());
        let weighted = context.empty(layout);
        drop(without_one);
        drop(weighted);
    }
    let wide = promote(&[input, target]);
    let losses = context.empty(target.like(wide));
    let result = match Reduction::of(call, 4)? {
        Reduction::None => losses.clone(),
        _ => plain_sum(context, &losses),
    };
    drop(losses);
    drop(logarithm);
    let formula = if positive.is_some() { Formula::PositiveWeights } else { Formula::Logits };
    Ok(smallvec![record_weighted(context, [input, target], positive, call.optional_tensor(2), result, formula)])
}

pub(super) fn kl_div(context: &mut Context, call: &Call<'_>) -> Outcome {
    let (input, target) = pair(call)?;
    let is_logarithm = call.bool(3).unwrap_or(false);
    // C++ evaluates the right operand first.
    let losses = if is_logarithm {
        let apart = subtract(context, target, input);
        let exponential = apply(context, &KERNEL_OF_RESULT, &[target]);
        let losses = apply(context, &MUL, &[&exponential, &apart]);
        drop(exponential);
        drop(apart);
        losses
    } else {
        let product = apply(context, &MUL, &[target, input]);
        let entropy = apply(context, &XLOGY, &[target, target]);
        let losses = subtract(context, &entropy, &product);
        drop(entropy);
        drop(product);
        losses
    };
    Ok(smallvec![reduced(context, losses, Reduction::of(call, 2)?)])
}

/// A margin between every right class and every other.
pub(super) fn multilabel_margin(context: &mut Context, call: &Call<'_>) -> Outcome {
    #[derive(Debug)]
    struct Margins;
    impl Backward for Margins {
        fn apply(&self, context: &mut Context, node: &Node, _gradients: &mut Gradients) -> Gradients {
            let input = node.saved(0);
            smallvec![Some(context.empty_contiguous(input.dtype(), input.shape()))]
        }
    }
    let (input, target) = (call.tensor(0)?, call.tensor(1)?);
    let is_reduced = Reduction::of(call, 2)? != Reduction::None;
    let is_target = context.empty_contiguous(input.dtype(), target.shape());
    let result = match input.shape() {
        &[rows, _] if is_reduced => {
            let losses = context.empty_contiguous(input.dtype(), &[rows]);
            plain_sum(context, &losses)
        }
        _ => context.empty_contiguous(input.dtype(), &call.result(0)?.shape),
    };
    let saved =
        |_: &dyn Fn(usize) -> bool| smallvec![Some(input.clone()), Some(target.clone()), Some(is_target.detach())];
    let edge = context.record(&[Some(input)], 2, saved, Margins);
    Ok(smallvec![result.with_edge(edge), is_target])
}
