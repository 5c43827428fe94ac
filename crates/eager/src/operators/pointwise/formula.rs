//! Elementwise operators as tables: what is saved, and the steps of each gradient's formula.
//!
//! A formula of `derivatives.yaml` is written down as the tensors it makes, in the order in which they are made. What
//! is not the result goes at the end of the expression, the newest first, as C++ destroys temporaries.

use smallvec::{SmallVec, smallvec};
use vramfit_graph::dtype::Dtype;
use vramfit_graph::layout::Layout;

use crate::autograd::{Backward, Context, Gradients, Node, Saved, Tensor};
use crate::operators::call::{Call, Outcome, Unmodelled};

/// What a step reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operand {
    /// The incoming gradient.
    Gradient,
    /// A saved tensor.
    Saved(usize),
    /// The tensor that an earlier step of the same formula made.
    Made(usize),
}

/// A step of a formula.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    /// A new tensor as large as its operands broadcast, of their common type.
    Like(&'static [Operand]),
    /// The same, contiguous whatever the operands are.
    Compact(&'static [Operand]),
    /// The same as `Like`, of truth values.
    Truth(&'static [Operand]),
    /// A new tensor of one element and the gradient's type.
    Number,
    /// A number that goes to the GPU in double precision.
    WideNumber,
    /// These go, in this order.
    Drop(&'static [usize]),
}

/// How a gradient is found.
#[derive(Clone, Copy, Debug)]
pub enum Formula {
    /// The incoming gradient itself.
    Pass,
    /// Zeros of the input's own shape.
    Zeros,
    /// By steps; the last one makes the result.
    Steps(&'static [Step]),
}

/// What an operator saves.
#[derive(Clone, Copy, Debug)]
pub enum Save {
    /// An input, always.
    Input(usize),
    /// An input, if the gradient for another input is wanted.
    InputFor(usize, usize),
    /// The result.
    Result,
}

/// An elementwise operator.
#[derive(Clone, Copy, Debug)]
pub struct Elementwise {
    /// Which arguments are its differentiable inputs; numbers among them are no tensors.
    pub inputs: &'static [usize],
    /// What it saves, in the order in which it is freed.
    pub saves: &'static [Save],
    /// Inputs and their formulas, in the order in which they are found.
    pub gradients: &'static [(usize, Formula)],
}

impl Backward for &'static Elementwise {
    fn apply(&self, context: &mut Context, node: &Node, gradients: &mut Gradients) -> Gradients {
        let mut results: Gradients = smallvec![None; node.inputs.len()];
        let Some(gradient) = gradients[0].clone() else { return results };
        for (input, formula) in self.gradients {
            if node.wants(*input) {
                results[*input] = Some(match (formula, &node.inputs[*input]) {
                    (Formula::Zeros, Some(layout)) => context.empty_contiguous(layout.dtype, &layout.shape),
                    _ => evaluate(context, node, &gradient, formula),
                });
            }
        }
        results
    }
}

/// Evaluates a formula.
pub fn evaluate(context: &Context, node: &Node, gradient: &Tensor, formula: &Formula) -> Tensor {
    let Formula::Steps(steps) = formula else { return gradient.clone() };
    let saved = node.saved.borrow();
    let mut made: SmallVec<[Option<Tensor>; 8]> = SmallVec::new();
    for step in *steps {
        match step {
            Step::WideNumber => made.push(Some(context.empty_contiguous(Dtype::Float64, &[]))),
            Step::Number => made.push(Some(context.empty_contiguous(gradient.dtype(), &[]))),
            Step::Drop(places) => {
                for &place in *places {
                    made[place].take();
                }
            }
            Step::Like(from) | Step::Compact(from) | Step::Truth(from) => {
                let tensor = {
                    let operands: SmallVec<[&Tensor; 3]> = from
                        .iter()
                        .filter_map(|operand| match *operand {
                            Operand::Gradient => Some(gradient),
                            Operand::Saved(index) => saved.get(index).and_then(Option::as_ref),
                            Operand::Made(index) => made[index].as_ref(),
                        })
                        .filter(|tensor| !tensor.is_on_host())
                        .collect();
                    let dtype = if matches!(step, Step::Truth(_)) { Dtype::Bool } else { promote(&operands) };
                    match step {
                        Step::Compact(_) => {
                            let layouts: SmallVec<[&Layout; 3]> =
                                operands.iter().map(|operand| operand.layout()).collect();
                            context.empty_contiguous(dtype, &Layout::broadcast(&layouts, dtype).shape)
                        }
                        _ => elementwise(context, &operands, dtype),
                    }
                };
                made.push(Some(tensor));
            }
        }
    }
    let mut result = None;
    while result.is_none() && !made.is_empty() {
        result = made.pop().flatten();
    }
    let result = result.unwrap_or_else(|| gradient.clone());
    while let Some(temporary) = made.pop() {
        drop(temporary);
    }
    result
}

/// A new tensor as large as `operands` broadcast.
pub fn elementwise(context: &Context, operands: &[&Tensor], dtype: Dtype) -> Tensor {
    let layouts: SmallVec<[&Layout; 3]> = operands.iter().map(|operand| operand.layout()).collect();
    context.empty(Layout::broadcast(&layouts, dtype))
}

/// The common type of tensors: those with dimensions decide, unless one without has a higher kind of number.
pub fn promote(operands: &[&Tensor]) -> Dtype {
    let common = |has_dims: bool| {
        operands
            .iter()
            .filter(|tensor| tensor.shape().is_empty() != has_dims)
            .map(|tensor| tensor.dtype())
            .reduce(wider)
    };
    match (common(true), common(false)) {
        (Some(full), Some(number)) if kind(number) > kind(full) => number,
        (Some(full), _) => full,
        (None, Some(number)) => number,
        (None, None) => Dtype::Float32,
    }
}

fn kind(dtype: Dtype) -> u8 {
    match dtype {
        Dtype::Bool => 0,
        Dtype::Uint8 | Dtype::Int8 | Dtype::Int16 | Dtype::Int32 | Dtype::Int64 => 1,
        Dtype::Complex64 | Dtype::Complex128 => 3,
        _ => 2,
    }
}

fn wider(one: Dtype, other: Dtype) -> Dtype {
    if one == other {
        return one;
    }
    match kind(one).cmp(&kind(other)) {
        std::cmp::Ordering::Less => other,
        std::cmp::Ordering::Greater => one,
        std::cmp::Ordering::Equal if one.bytes() == other.bytes() => match one {
            Dtype::Uint8 | Dtype::Int8 => Dtype::Int16,
            _ => Dtype::Float32,
        },
        std::cmp::Ordering::Equal if one.bytes() > other.bytes() => one,
        std::cmp::Ordering::Equal => other,
    }
}

/// Puts an elementwise operator into the graph.
pub fn record(
    context: &mut Context,
    inputs: &[Option<&Tensor>],
    saved_inputs: &[Option<&Tensor>],
    result: &Tensor,
    operator: &'static Elementwise,
) -> Option<crate::autograd::Edge> {
    if !result.dtype().is_differentiable() || operator.gradients.is_empty() {
        return None;
    }
    let saved = |wants: &dyn Fn(usize) -> bool| -> Saved {
        operator
            .saves
            .iter()
            .map(|save| match *save {
                Save::Input(index) => saved_inputs.get(index).copied().flatten().cloned(),
                Save::InputFor(index, wanted) => {
                    saved_inputs.get(index).copied().flatten().filter(|_| wants(wanted)).cloned()
                }
                Save::Result => Some(result.detach()),
            })
            .collect()
    };
    context.record(inputs, 1, saved, operator)
}

/// An elementwise call that makes a new tensor.
pub fn run(context: &mut Context, call: &Call<'_>, operator: &'static Elementwise) -> Outcome {
    let inputs: SmallVec<[Option<&Tensor>; 3]> =
        operator.inputs.iter().map(|&index| call.optional_tensor(index)).collect();
    let dtype = call.result(0)?.dtype;
    let operands: SmallVec<[&Tensor; 3]> =
        inputs.iter().flatten().copied().filter(|tensor| !tensor.is_on_host()).collect();
    if operands.is_empty() {
        return Err(Unmodelled);
    }
    let result = elementwise(context, &operands, dtype);
    let edge = record(context, &inputs, &inputs, &result, operator);
    Ok(smallvec![result.with_edge(edge)])
}

/// An elementwise operator on tensors of the GPU, inside a rule that is made of several.
pub fn apply(context: &mut Context, operator: &'static Elementwise, inputs: &[&Tensor]) -> Tensor {
    let result = elementwise(context, inputs, promote(inputs));
    let inputs: SmallVec<[Option<&Tensor>; 3]> = inputs.iter().copied().map(Some).collect();
    let edge = record(context, &inputs, &inputs, &result, operator);
    result.with_edge(edge)
}

/// An elementwise call that writes into its first argument. What it overwrites but needs later it copies first.
pub fn run_in_place(context: &mut Context, call: &Call<'_>, operator: &'static Elementwise) -> Outcome {
    let inputs: SmallVec<[Option<&Tensor>; 3]> =
        operator.inputs.iter().map(|&index| call.optional_tensor(index)).collect();
    let target = call.tensor(0)?;
    let wants = |index: usize| inputs.get(index).copied().flatten().is_some_and(Tensor::requires_grad);
    let is_recorded = context.is_grad_on() && (0..inputs.len()).any(wants);
    let needs_old = is_recorded
        && operator.saves.iter().any(|save| match *save {
            Save::Input(index) => index == 0,
            Save::InputFor(index, wanted) => index == 0 && wants(wanted),
            Save::Result => false,
        });
    let old = needs_old.then(|| context.empty(target.like(target.dtype())));
    let mut saved_inputs: SmallVec<[Option<&Tensor>; 3]> = inputs.iter().copied().collect();
    if let Some(old) = &old {
        saved_inputs[0] = Some(old);
    }
    if !is_recorded {
        return Ok(smallvec![target.clone()]);
    }
    let edge = record(context, &inputs, &saved_inputs, target, operator);
    rebased(target, edge)
}

/// The tensor that was written into, with its new place in the graph. Where it is a view, the forward pass gives its base
/// a new place too.
pub fn rebased(target: &Tensor, edge: Option<crate::autograd::Edge>) -> Outcome {
    Ok(smallvec![target.detach().with_edge(edge)])
}

/// An operator that gives no gradient: comparisons and the like.
pub static NO_GRADIENT: Elementwise = Elementwise { inputs: &[0, 1, 2], saves: &[], gradients: &[] };
