//! Writing by index with a reduction: scatter_reduce, index_reduce.

use smallvec::smallvec;
use vramfit_graph::bind::Value;
use vramfit_graph::dtype::Dtype;

use super::pieces::copy_of;
use crate::autograd::{Backward, Context, Gradients, Node, Tensor};
use crate::operators::call::{Call, Outcome, Unmodelled};
use crate::operators::pointwise::{elementwise, promote};

/// Which operator: they differ in how the gradients of maxima are spread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Scatter,
    Index,
}

/// How values that go to one place become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reduction {
    Sum,
    Product,
    Mean,
    Extreme,
}

impl Reduction {
    fn of(call: &Call<'_>) -> Result<Reduction, Unmodelled> {
        let Some(Value::Text(name)) = call.arguments.get(4) else { return Err(Unmodelled) };
        match name.as_str() {
            "sum" => Ok(Reduction::Sum),
            "prod" => Ok(Reduction::Product),
            "mean" => Ok(Reduction::Mean),
            "amax" | "amin" => Ok(Reduction::Extreme),
            _ => Err(Unmodelled),
        }
    }
}

/// `scatter_reduce_backward` and `index_reduce_backward`. Inputs are the target and what is written; saved are the index,
/// both inputs and the result.
#[derive(Debug)]
struct Reduced {
    operator: Operator,
    reduction: Reduction,
    includes_self: bool,
}

impl Backward for Reduced {
    fn apply(&self, context: &mut Context, node: &Node, gradients: &mut Gradients) -> Gradients {
        let Some(gradient) = gradients[0].clone() else { return smallvec![None, None] };
        let pass = Pass {
            operator: self.operator,
            index: node.saved(0),
            target: node.saved(1),
            written: node.saved(2),
            result: node.saved(3),
            gradient,
        };
        let (mut of_target, of_written) = match self.reduction {
            Reduction::Sum => (pass.gradient.clone(), pass.picked(context, &pass.gradient)),
            Reduction::Product => pass.of_product(context),
            Reduction::Mean => pass.of_mean(context),
            Reduction::Extreme => pass.of_extreme(context),
        };
        if !self.includes_self {
            of_target = copy_of(context, &of_target);
        }
        smallvec![Some(of_target), Some(of_written)]
    }
}

/// What a backward function works on.
struct Pass {
    operator: Operator,
    index: Tensor,
    target: Tensor,
    written: Tensor,
    result: Tensor,
    gradient: Tensor,
}

impl Pass {
    /// What stands at the indices: `gather` or `index_select`.
    fn picked(&self, context: &Context, source: &Tensor) -> Tensor {
        let shape = match self.operator {
            Operator::Scatter => self.index.shape(),
            Operator::Index => self.written.shape(),
        };
        context.empty_contiguous(source.dtype(), shape)
    }

    fn of_mean(&self, context: &mut Context) -> (Tensor, Tensor) {
        let start = copy_of(context, &self.gradient);
        let ones = copy_of(context, &self.written);
        let count = copy_of(context, &start);
        drop(start);
        drop(ones);
        drop(elementwise(context, &[&count], Dtype::Bool));
        let of_target = product(context, &self.gradient, &count);
        let picked_count = self.picked(context, &count);
        let picked = self.picked(context, &self.gradient);
        let of_written = product(context, &picked, &picked_count);
        drop(picked);
        drop(picked_count);
        (of_target, of_written)
    }

    fn of_extreme(&self, context: &mut Context) -> (Tensor, Tensor) {
        let value = self.picked(context, &self.result);
        let is_result = |context: &Context, own: &Tensor, result: &Tensor| {
            let mask = elementwise(context, &[own, result], Dtype::Bool);
            let numbers = context.empty(mask.like(self.target.dtype()));
            drop(mask);
            numbers
        };
        let of_self = is_result(context, &self.target, &self.result);
        let of_source = is_result(context, &self.written, &value);
        let count = copy_of(context, &of_self);
        let share = product(context, &self.gradient, &count);
        let chosen = |context: &Context, mask: &Tensor, pair: [&Tensor; 2], share: &Tensor| match self.operator {
            Operator::Index => product(context, mask, share),
            Operator::Scatter => {
                let mask = elementwise(context, &pair, Dtype::Bool);
                let chosen = product(context, &mask, share);
                drop(mask);
                chosen
            }
        };
        let of_target = chosen(context, &of_self, [&self.target, &self.result], &share);
        let picked = self.picked(context, &share);
        let of_written = chosen(context, &of_source, [&self.written, &value], &picked);
        drop(picked);
        drop(share);
        drop(count);
        drop(of_source);
        drop(of_self);
        drop(value);
        (of_target, of_written)
    }

    /// Elements that are zero are left out of products, which are then divided by single elements.
    fn of_product(&self, context: &mut Context) -> (Tensor, Tensor) {
        let is_zero = elementwise(context, &[&self.target], Dtype::Bool);
        let masked_target = copy_of(context, &self.target);
        drop(is_zero);
        let masked_result = copy_of(context, &masked_target);
        let weighted = product(context, &self.gradient, &masked_result);
        let of_target = product(context, &weighted, &masked_target);
        drop(weighted);
        let source_zero = elementwise(context, &[&self.written], Dtype::Bool);
        let zeros = copy_of(context, &self.target);
        let numbers = context.empty(source_zero.like(self.target.dtype()));
        let counts = copy_of(context, &zeros);
        let zero_count = self.picked(context, &counts);
        drop(counts);
        drop(numbers);
        drop(zeros);
        let is_one = elementwise(context, &[&zero_count], Dtype::Bool);
        let single_zero = elementwise(context, &[&source_zero, &is_one], Dtype::Bool);
        drop(is_one);
        let masked_source = copy_of(context, &self.written);
        let masked_source_result = copy_of(context, &self.target);
        // C++ evaluates arguments and operands from the right.
        let without_zeros = copy_of(context, &self.written);
        let whole = product(context, &self.gradient, &self.result);
        let picked_whole = self.picked(context, &whole);
        let quotient = product(context, &picked_whole, &without_zeros);
        let part = product(context, &self.gradient, &masked_source_result);
        let picked_part = self.picked(context, &part);
        let of_written = elementwise(context, &[&single_zero, &picked_part, &quotient], quotient.dtype());
        drop(picked_part);
        drop(part);
        drop(quotient);
        drop(picked_whole);
        drop(whole);
        drop(without_zeros);
        drop(masked_source_result);
        drop(masked_source);
        drop(single_zero);
        drop(zero_count);
        drop(source_zero);
        drop(masked_result);
        drop(masked_target);
        (of_target, of_written)
    }
}

/// A product or quotient.
fn product(context: &Context, first: &Tensor, second: &Tensor) -> Tensor {
    elementwise(context, &[first, second], promote(&[first, second]))
}

fn reduce(context: &mut Context, call: &Call<'_>, operator: Operator) -> Outcome {
    let (target, index, written) = (call.tensor(0)?, call.tensor(2)?, call.tensor(3)?);
    let reduction = Reduction::of(call)?;
    let includes_self = call.bool(5).unwrap_or(true);
    let wants_gradient = context.is_grad_on() && (target.requires_grad() || written.requires_grad());
    let is_unlike = operator == Operator::Scatter && index.shape() != written.shape();
    let is_unrecorded = operator == Operator::Index && reduction != Reduction::Extreme;
    if is_unrecorded || (wants_gradient && is_unlike) {
        return Err(Unmodelled);
    }
    let result = copy_of(context, target);
    if reduction == Reduction::Mean {
        let ones = copy_of(context, written);
        let counts = copy_of(context, &result);
        drop(elementwise(context, &[&counts], Dtype::Bool));
        drop(counts);
        drop(ones);
    }
    let kept = result.detach();
    let saved = |_: &dyn Fn(usize) -> bool| {
        smallvec![Some(index.clone()), Some(target.clone()), Some(written.clone()), Some(kept)]
    };
    let backward = Reduced { operator, reduction, includes_self };
    let edge = context.record(&[Some(target), Some(written)], 1, saved, backward);
    Ok(smallvec![result.with_edge(edge)])
}

pub(super) fn scatter_reduce(context: &mut Context, call: &Call<'_>) -> Outcome {
    reduce(context, call, Operator::Scatter)
}

pub(super) fn index_reduce(context: &mut Context, call: &Call<'_>) -> Outcome {
    reduce(context, call, Operator::Index)
}
