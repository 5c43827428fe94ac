//! Dropout: a mask of one byte an element, and the result. In place, of features and of everything, noise is
//! multiplied instead.

use smallvec::smallvec;
use vramfit_graph::dims::Dims;
use vramfit_graph::dtype::Dtype;
use vramfit_graph::format::Format;
use vramfit_graph::layout::Layout;

use super::call::{Call, Outcome, Unmodelled};
use super::facts::*;
use crate::autograd::{Backward, Context, Edge, Gradients, Node, Tensor};

/// What the family's operators have in common.
const FAMILY: Facts = Facts::of_family(
    Library::Own,
    Launch::LocalMemory,
    Time::moves("dropout", Extent::Larger),
    Keeps::Nothing,
    Autocast::Unchanged,
    Samples::Apart,
);

/// What those have in common that write into their first argument.
const IN_PLACE: Facts = Facts { effect: Effect::WritesFirst, ..FAMILY };

pub(super) const OPERATORS: &[Operator] = &[
    Operator::new(
        &["aten.dropout.default"],
        Facts {
            memory: Modelled(dropout),
            view_dispatch: "dropout_off",
            keeps: Keeps::Results,
            evaluation: Evaluation::Unsets("train"),
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.dropout_.default"],
        Facts { memory: Modelled(dropout_in_place), keeps: Keeps::Results, ..IN_PLACE },
    ),
    Operator::new(
        &["aten.native_dropout.default"],
        Facts {
            memory: Modelled(native_dropout),
            time: Time::ASSUMED,
            evaluation: Evaluation::Unsets("train"),
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.feature_dropout.default"],
        Facts { memory: Modelled(feature_dropout), evaluation: Evaluation::Unsets("train"), ..FAMILY },
    ),
    Operator::new(&["aten.feature_dropout_.default"], Facts { memory: Modelled(feature_dropout_in_place), ..IN_PLACE }),
    Operator::new(&["aten.alpha_dropout.default"], Facts { evaluation: Evaluation::Unsets("train"), ..FAMILY }),
    Operator::new(&["aten.alpha_dropout_.default"], IN_PLACE),
    Operator::new(
        &["aten.feature_alpha_dropout.default"],
        Facts { time: Time::ASSUMED, evaluation: Evaluation::Unsets("train"), ..FAMILY },
    ),
];

/// Saved: the mask. The result has the format that the gradient suggests, which for rows is always the first
/// (`dropout_backward_cuda` in `Dropout.cu`).
#[derive(Debug)]
struct Masked;

impl Backward for Masked {
    fn apply(&self, context: &mut Context, _node: &Node, gradients: &mut Gradients) -> Gradients {
        let result = gradients[0].as_ref().map(|gradient| {
            let format = Format::suggested(gradient.layout());
            context.empty(format.layout(gradient.dtype(), gradient.shape()))
        });
        smallvec![result]
    }
}

/// Saved: the noise, which the gradient is multiplied with.
#[derive(Debug)]
struct Noisy;

impl Backward for Noisy {
    fn apply(&self, context: &mut Context, node: &Node, gradients: &mut Gradients) -> Gradients {
        let noise = node.saved(0);
        let result = gradients[0].as_ref().map(|gradient| {
            let layout = Layout::broadcast(&[gradient.layout(), noise.layout()], gradient.dtype());
            context.empty(layout)
        });
        smallvec![result]
    }
}

fn is_kept(source: &Tensor, part: f64, is_training: bool) -> bool {
    part == 0.0 || !is_training || source.layout().elements() == 0
}

fn dropout(context: &mut Context, call: &Call<'_>) -> Outcome {
    let source = call.tensor(0)?;
    let (part, is_training) = (call.float(1)?, call.bool(2)?);
    if is_kept(source, part, is_training) {
        return Ok(smallvec![source.clone()]);
    }
    if part == 1.0 {
        let zero = context.empty_contiguous(source.dtype(), &[]);
        return Ok(smallvec![multiplied(context, source, zero)]);
    }
    let (result, _, edge) = masked(context, source);
    Ok(smallvec![result.with_edge(edge)])
}

/// The fused kernel: result, mask, and where the gradient goes.
fn masked(context: &mut Context, source: &Tensor) -> (Tensor, Tensor, Option<Edge>) {
    let mask = context.empty(source.like(Dtype::Bool));
    let result = context.empty(source.like(source.dtype()));
    let edge = context.record(&[Some(source)], 2, |_| smallvec![Some(mask.detach())], Masked);
    (result, mask, edge)
}

fn native_dropout(context: &mut Context, call: &Call<'_>) -> Outcome {
    let source = call.tensor(0)?;
    let is_training = call.is_none(2) || call.bool(2)?;
    if call.float(1)? == 1.0 || !is_training || source.layout().elements() == 0 {
        return Err(Unmodelled);
    }
    let (result, mask, edge) = masked(context, source);
    Ok(smallvec![result.with_edge(edge), mask])
}

/// The source times noise.
fn multiplied(context: &mut Context, source: &Tensor, noise: Tensor) -> Tensor {
    let layout = Layout::broadcast(&[source.layout(), noise.layout()], source.dtype());
    let result = context.empty(layout);
    let edge = context.record(&[Some(source)], 1, |_| smallvec![Some(noise)], Noisy);
    result.with_edge(edge)
}

/// The source times noise, in its own memory.
fn multiplied_in_place(context: &mut Context, source: &Tensor, noise: Tensor) -> Tensor {
    let edge = context.record(&[Some(source)], 1, |_| smallvec![Some(noise)], Noisy);
    source.detach().with_edge(edge)
}

fn dropout_in_place(context: &mut Context, call: &Call<'_>) -> Outcome {
    let source = call.tensor(0)?;
    let (part, is_training) = (call.float(1)?, call.bool(2)?);
    if is_kept(source, part, is_training) {
        return Ok(smallvec![source.clone()]);
    }
    let noise = match part == 1.0 {
        true => context.empty_contiguous(source.dtype(), &[]),
        false => context.empty(source.like(source.dtype())),
    };
    Ok(smallvec![multiplied_in_place(context, source, noise)])
}

/// Noise with one number for each feature of each row.
fn feature_noise(context: &mut Context, source: &Tensor, part: f64) -> Result<Tensor, Unmodelled> {
    if part == 1.0 {
        return Ok(context.empty_contiguous(source.dtype(), &[]));
    }
    if source.shape().len() < 2 {
        return Err(Unmodelled);
    }
    let shape: Dims = source.shape().iter().enumerate().map(|(dim, &size)| if dim < 2 { size } else { 1 }).collect();
    Ok(context.empty_contiguous(source.dtype(), &shape))
}

fn feature_dropout(context: &mut Context, call: &Call<'_>) -> Outcome {
    let source = call.tensor(0)?;
    let (part, is_training) = (call.float(1)?, call.bool(2)?);
    if is_kept(source, part, is_training) {
        return Ok(smallvec![source.clone()]);
    }
    let noise = feature_noise(context, source, part)?;
    Ok(smallvec![multiplied(context, source, noise)])
}

fn feature_dropout_in_place(context: &mut Context, call: &Call<'_>) -> Outcome {
    let source = call.tensor(0)?;
    let (part, is_training) = (call.float(1)?, call.bool(2)?);
    if is_kept(source, part, is_training) {
        return Ok(smallvec![source.clone()]);
    }
    let noise = feature_noise(context, source, part)?;
    Ok(smallvec![multiplied_in_place(context, source, noise)])
}
