//! The operators that autograd's formulas call, as a backward pass with `create_graph` records them, and their own gradients
//! (`derivatives.yaml`).

mod batch_norm;
mod layer_norm;
mod pieces;
mod pools;

use smallvec::smallvec;

use super::call::{Call, Outcome};
use super::facts::*;
use crate::autograd::{Backward, Context, Gradients, Node, Tensor};

/// What the family's operators have in common.
const FAMILY: Facts = Facts::of_family(
    Library::Own,
    Launch::LocalMemory,
    Time::ASSUMED,
    Keeps::Inputs,
    Autocast::Unchanged,
    Samples::Unknown,
);

pub(super) const OPERATORS: &[Operator] = &[
    Operator::new(
        &[
            "aten.elu_backward.default",
            "aten.hardtanh_backward.default",
            "aten.leaky_relu_backward.default",
            "aten.threshold_backward.default",
        ],
        Facts { memory: Modelled(masked), ..FAMILY },
    ),
    Operator::new(
        &["aten.sigmoid_backward.default"],
        Facts { memory: Modelled(|context, call| of_result(context, call, OfResult { factors: 3 })), ..FAMILY },
    ),
    Operator::new(
        &["aten.tanh_backward.default"],
        Facts { memory: Modelled(|context, call| of_result(context, call, OfResult { factors: 2 })), ..FAMILY },
    ),
    Operator::new(
        &["aten.gelu_backward.default", "aten.silu_backward.default", "aten.softplus_backward.default"],
        Facts { memory: Modelled(of_input), ..FAMILY },
    ),
    Operator::new(&["aten.mse_loss_backward.default"], Facts { memory: Modelled(of_mse_loss), ..FAMILY }),
    Operator::new(&["aten._log_softmax_backward_data.default"], Facts { memory: Modelled(of_log_softmax), ..FAMILY }),
    Operator::new(&["aten._softmax_backward_data.default"], Facts { memory: Modelled(of_softmax), ..FAMILY }),
    Operator::new(&["aten.nll_loss_backward.default"], Facts { memory: Modelled(of_nll_loss), ..FAMILY }),
    Operator::new(
        &["aten.max_pool2d_with_indices_backward.default"],
        Facts { memory: Modelled(pools::of_max_pool), ..FAMILY },
    ),
    Operator::new(
        &["aten.avg_pool2d_backward.default", "aten.avg_pool3d_backward.default"],
        Facts { memory: Modelled(pools::of_average_pool), keeps: Keeps::Nothing, ..FAMILY },
    ),
    Operator::new(
        &["aten.native_batch_norm_backward.default"],
        Facts { memory: Modelled(batch_norm::of_batch_norm), ..FAMILY },
    ),
    Operator::new(
        &["aten.native_layer_norm_backward.default"],
        Facts { memory: Modelled(layer_norm::of_layer_norm), ..FAMILY },
    ),
    Operator::new(
        &["aten.slice_backward.default"],
        Facts { memory: Modelled(pieces::of_slice), keeps: Keeps::Nothing, ..FAMILY },
    ),
    Operator::new(
        &["aten.upsample_bilinear2d_backward.default", "aten.upsample_nearest2d_backward.default"],
        Facts { memory: Modelled(pieces::of_resize), keeps: Keeps::Nothing, ..FAMILY },
    ),
];

/// The result of a formula of a gradient and a second tensor, both of which it saves.
fn recorded(context: &mut Context, call: &Call<'_>, result: Tensor, backward: impl Backward + 'static) -> Outcome {
    let (gradient, other) = (call.tensor(0)?, call.tensor(1)?);
    let saved = |_: &dyn Fn(usize) -> bool| smallvec![Some(gradient.clone()), Some(other.clone())];
    let edge = context.record(&[Some(gradient), Some(other)], 1, saved, backward);
    Ok(smallvec![result.with_edge(edge)])
}

/// A gradient that passes where a mask lets it: so does its own gradient, and the masked tensor gets zeros.
#[derive(Debug)]
struct Masked;

impl Backward for Masked {
    fn apply(&self, context: &mut Context, node: &Node, gradients: &mut Gradients) -> Gradients {
        let Some(gradient) = gradients[0].clone() else { return smallvec![None, None] };
        let like = |context: &mut Context| context.empty(gradient.like(gradient.dtype()));
        let passed = node.wants(0).then(|| like(context));
        let zeros = node.wants(1).then(|| like(context));
        smallvec![passed, zeros]
    }
}

fn masked(context: &mut Context, call: &Call<'_>) -> Outcome {
    let (gradient, other) = (call.tensor(0)?, call.tensor(1)?);
    let result = context.empty(call.result(0)?);
    // The gradient itself is not saved.
    let saved = |_: &dyn Fn(usize) -> bool| smallvec![Some(other.clone())];
    let edge = context.record(&[Some(gradient), Some(other)], 1, saved, Masked);
    Ok(smallvec![result.with_edge(edge)])
}

/// A gradient that is computed from an activation's result. The result's own gradient is a product, all factors of which live until
/// the whole formula is computed.
#[derive(Debug)]
struct OfResult {
    factors: usize,
}

impl Backward for OfResult {
    fn apply(&self, context: &mut Context, node: &Node, gradients: &mut Gradients) -> Gradients {
        let Some(gradient) = gradients[0].clone() else { return smallvec![None, None] };
        let like = |context: &mut Context| context.empty(gradient.like(gradient.dtype()));
        let of_gradient = node.wants(0).then(|| like(context));
        let of_result = node.wants(1).then(|| {
            let factors: Vec<Tensor> = (0..self.factors).map(|_| like(context)).collect();
            let result = like(context);
            factors.into_iter().rev().for_each(drop);
            result
        });
        smallvec![of_gradient, of_result]
    }
}

fn of_result(context: &mut Context, call: &Call<'_>, backward: OfResult) -> Outcome {
    let result = context.empty(call.result(0)?);
    recorded(context, call, result, backward)
}

/// The same computed from the activation's input, by one kernel each.
#[derive(Debug)]
struct OfInput;

impl Backward for OfInput {
    fn apply(&self, context: &mut Context, node: &Node, gradients: &mut Gradients) -> Gradients {
        let Some(gradient) = gradients[0].clone() else { return smallvec![None, None] };
        let like = |context: &mut Context| context.empty(gradient.like(gradient.dtype()));
        let of_gradient = node.wants(0).then(|| like(context));
        let of_input = node.wants(1).then(|| {
            let factor = like(context);
            let result = like(context);
            drop(factor);
            result
        });
        smallvec![of_gradient, of_input]
    }
}

fn of_input(context: &mut Context, call: &Call<'_>) -> Outcome {
    let result = context.empty(call.result(0)?);
    recorded(context, call, result, OfInput)
}

/// The gradient of a squared difference: a multiple of its own gradient, for the target with the other sign.
#[derive(Debug)]
struct OfMseLoss;

impl Backward for OfMseLoss {
    fn apply(&self, context: &mut Context, node: &Node, gradients: &mut Gradients) -> Gradients {
        let Some(gradient) = gradients[0].clone() else { return smallvec![None, None, None] };
        let like = |context: &mut Context| context.empty(gradient.like(gradient.dtype()));
        let of_gradient = node.wants(0).then(|| like(context));
        let of_input = node.wants(1).then(|| {
            let product = like(context);
            let result = like(context);
            drop(product);
            result
        });
        let of_target = node.wants(2).then(|| {
            let product = like(context);
            let doubled = like(context);
            let result = like(context);
            drop(doubled);
            drop(product);
            result
        });
        smallvec![of_gradient, of_input, of_target]
    }
}

fn of_mse_loss(context: &mut Context, call: &Call<'_>) -> Outcome {
    let result = context.empty(call.result(0)?);
    let (gradient, input, target) = (call.tensor(0)?, call.tensor(1)?, call.tensor(2)?);
    let saved =
        |_: &dyn Fn(usize) -> bool| smallvec![Some(gradient.clone()), Some(input.clone()), Some(target.clone())];
    let edge = context.record(&[Some(gradient), Some(input), Some(target)], 1, saved, OfMseLoss);
    Ok(smallvec![result.with_edge(edge)])
}

/// The gradient of the logarithm of a softmax along a dimension, saved: the gradient and the logarithms. Each formula is one
/// expression of C++, which computes the right operand first and frees its temporaries when all of it is computed, the last first.
#[derive(Debug)]
struct OfLogSoftmax(i64);

impl Backward for OfLogSoftmax {
    fn apply(&self, context: &mut Context, node: &Node, gradients: &mut Gradients) -> Gradients {
        let Some(gradient) = gradients[0].clone() else { return smallvec![None, None] };
        let like = |context: &mut Context| context.empty(gradient.like(gradient.dtype()));
        let of_gradient = node.wants(0).then(|| {
            let exponential = like(context);
            let product = like(context);
            let sum = context.sum(&product, &[self.0], true, product.dtype());
            let result = like(context);
            drop(sum);
            drop(product);
            drop(exponential);
            result
        });
        let of_result = node.wants(1).then(|| {
            let incoming = node.saved(0);
            let exponential = like(context);
            let sum = context.sum(&incoming, &[self.0], true, incoming.dtype());
            let negative = context.empty(sum.shared_layout());
            let product = like(context);
            let result = like(context);
            drop(product);
            drop(negative);
            drop(sum);
            drop(exponential);
            result
        });
        smallvec![of_gradient, of_result]
    }
}

/// The same of a softmax: its gradient's own is the kernel again, that of its result three products, one minus the others.
#[derive(Debug)]
struct OfSoftmax(i64);

impl Backward for OfSoftmax {
    fn apply(&self, context: &mut Context, node: &Node, gradients: &mut Gradients) -> Gradients {
        let Some(gradient) = gradients[0].clone() else { return smallvec![None, None] };
        let like = |context: &mut Context| context.empty(gradient.like(gradient.dtype()));
        let of_gradient = node.wants(0).then(|| {
            let result = like(context);
            let product = like(context);
            drop(product);
            result
        });
        let of_result = node.wants(1).then(|| {
            let summed = |context: &mut Context| {
                let product = like(context);
                let sum = context.sum(&product, &[self.0], true, product.dtype());
                (product, sum, like(context))
            };
            let last = summed(context);
            let middle = summed(context);
            let first = like(context);
            let difference = like(context);
            let result = like(context);
            drop(difference);
            drop(first);
            for (product, sum, term) in [middle, last] {
                drop(term);
                drop(sum);
                drop(product);
            }
            result
        });
        smallvec![of_gradient, of_result]
    }
}

fn of_log_softmax(context: &mut Context, call: &Call<'_>) -> Outcome {
    let result = context.empty(call.result(0)?);
    recorded(context, call, result, OfLogSoftmax(call.int(2)?))
}

fn of_softmax(context: &mut Context, call: &Call<'_>) -> Outcome {
    let result = context.empty(call.result(0)?);
    recorded(context, call, result, OfSoftmax(call.int(2)?))
}

/// The gradient of a loss that picks one entry a row: its own gradient is that loss again, and the rows get zeros.
#[derive(Debug)]
struct OfNllLoss;

impl Backward for OfNllLoss {
    fn apply(&self, context: &mut Context, node: &Node, gradients: &mut Gradients) -> Gradients {
        let Some(gradient) = gradients[0].clone() else { return smallvec![None, None] };
        let of_gradient = node.wants(0).then(|| {
            let loss = context.empty_contiguous(gradient.dtype(), &[]);
            drop(context.empty_contiguous(gradient.dtype(), &[]));
            loss
        });
        let zeros = node.wants(1).then(|| context.empty(gradient.like(gradient.dtype())));
        smallvec![of_gradient, zeros]
    }
}

fn of_nll_loss(context: &mut Context, call: &Call<'_>) -> Outcome {
    let result = context.empty(call.result(0)?);
    let (gradient, rows, target) = (call.tensor(0)?, call.tensor(1)?, call.tensor(2)?);
    let saved = |_: &dyn Fn(usize) -> bool| smallvec![Some(target.clone()), call.optional_tensor(3).cloned()];
    let edge = context.record(&[Some(gradient), Some(rows)], 1, saved, OfNllLoss);
    Ok(smallvec![result.with_edge(edge)])
}
