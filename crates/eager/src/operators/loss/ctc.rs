//! Connectionist temporal classification by PyTorch's own kernels (`LossCTC.cu`). cuDNN takes targets on the host only.

use smallvec::smallvec;
use vramfit_graph::dtype::Dtype;

use super::pieces::reduced;
use super::reduction::Reduction;
use crate::autograd::{Backward, Context, Gradients, Node, Tensor};
use crate::operators::call::{Call, Outcome, Unmodelled};
use crate::operators::pointwise::{DIV, WHERE, apply, elementwise, record};

/// Lengths of inputs and of targets, and where targets begin, on the GPU while a kernel runs.
fn with_lengths(context: &Context, batch: i64, run: impl FnOnce(&Context)) {
    let lengths = || context.empty_contiguous(Dtype::Int64, &[batch]);
    let (first, second, offsets) = (lengths(), lengths(), lengths());
    run(context);
    drop(second);
    drop(first);
    drop(offsets);
}

/// Saved: the logarithms, the targets, the losses, and the logarithms of the paths' probabilities.
#[derive(Debug)]
struct CtcLoss;

impl Backward for CtcLoss {
    fn apply(&self, context: &mut Context, node: &Node, gradients: &mut Gradients) -> Gradients {
        if gradients[0].is_none() {
            return smallvec![None];
        }
        let (logarithms, paths) = (node.saved(0), node.saved(3));
        let mut answer = None;
        with_lengths(context, paths.shape()[0], |context| {
            let backwards = context.empty(paths.like(paths.dtype()));
            answer = Some(context.empty_contiguous(logarithms.dtype(), logarithms.shape()));
            drop(backwards);
        });
        smallvec![answer]
    }
}

/// The lengths of targets are numbers: a capture gives the longest.
pub(super) fn rule(context: &mut Context, call: &Call<'_>) -> Outcome {
    let (logarithms, targets) = (call.tensor(0)?, call.tensor(1)?);
    let reduction = Reduction::of(call, 5)?;
    let ignores_infinity = call.bool(6).unwrap_or(false);
    let &[steps, batch, _] = logarithms.shape() else { return Err(Unmodelled) };
    if call.optional_tensor(3).is_some() || targets.is_on_host() {
        return Err(Unmodelled);
    }
    let longest = call.ints(3)?.iter().copied().max().ok_or(Unmodelled)?;
    let dtype = logarithms.dtype();
    let mut made = None;
    with_lengths(context, batch, |context| {
        let paths = context.empty_contiguous(dtype, &[batch, steps, 2 * longest + 1]);
        made = Some((paths, context.empty_contiguous(dtype, &[batch])));
    });
    let (paths, losses) = made.ok_or(Unmodelled)?;
    let kept = losses.detach();
    let saved = |_: &dyn Fn(usize) -> bool| {
        smallvec![Some(logarithms.clone()), Some(targets.clone()), Some(kept), Some(paths.clone())]
    };
    let edge = context.record(&[Some(logarithms)], 2, saved, CtcLoss);
    drop(paths);
    let mut losses = losses.with_edge(edge);
    if ignores_infinity {
        let zero = context.empty_contiguous(dtype, &[]);
        let is_infinite = elementwise(context, &[&losses], Dtype::Bool);
        let chosen = elementwise(context, &[&is_infinite, &zero, &losses], dtype);
        let inputs = [None, Some(&losses), Some(&is_infinite)];
        let edge = record(context, &inputs, &inputs, &chosen, &WHERE);
        losses = chosen.with_edge(edge);
        drop(is_infinite);
        drop(zero);
    }
    if reduction != Reduction::Mean {
        return Ok(smallvec![reduced(context, losses, reduction)]);
    }
    let lengths = target_lengths(context, &losses);
    let relative = apply(context, &DIV, &[&losses, &lengths]);
    let result = reduced(context, relative.clone(), Reduction::Mean);
    drop(relative);
    drop(lengths);
    drop(losses);
    Ok(smallvec![result])
}

/// The targets' lengths as numbers, at least one each.
fn target_lengths(context: &Context, losses: &Tensor) -> Tensor {
    let given = context.empty_contiguous(losses.dtype(), losses.shape());
    let clamped = context.empty_contiguous(losses.dtype(), losses.shape());
    drop(given);
    clamped
}
