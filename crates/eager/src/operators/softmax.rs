//! Softmax and its logarithm.

use smallvec::smallvec;
use vramfit_graph::dtype::Dtype;
use vramfit_graph::layout::Layout;

use super::call::{Call, Outcome};
use super::facts::*;
use crate::autograd::{Backward, Context, Gradients, Node, Tensor};

/// What the family's operators have in common.
const FAMILY: Facts = Facts::of_family(
    Library::Own,
    Launch::Kernel,
    Time::ASSUMED,
    Keeps::Results,
    Autocast::SingleByDtype,
    Samples::Along(1),
);

pub(super) const OPERATORS: &[Operator] = &[
    Operator::new(
        &["aten.softmax.int"],
        Facts {
            memory: Modelled(softmax_call),
            time: Time::moves("softmax", Extent::Larger),
            samples: Samples::Along(1),
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.log_softmax.int"],
        Facts {
            memory: Modelled(log_softmax_call),
            time: Time::moves("log_softmax", Extent::Larger),
            samples: Samples::Along(1),
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten._softmax.default"],
        Facts {
            memory: Modelled(inner_softmax),
            keeps: Keeps::Nothing,
            autocast: Autocast::Unchanged,
            samples: Samples::Along(1),
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten._log_softmax.default"],
        Facts {
            memory: Modelled(inner_log_softmax),
            keeps: Keeps::Nothing,
            autocast: Autocast::Unchanged,
            samples: Samples::Along(1),
            ..FAMILY
        },
    ),
];

/// Which of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Plain,
    Logarithm,
}

/// Saved: the result. The gradient has the type that the input had.
#[derive(Debug)]
struct Softmax(Kind, Dtype);

impl Backward for Softmax {
    fn apply(&self, context: &mut Context, node: &Node, gradients: &mut Gradients) -> Gradients {
        let Some(gradient) = gradients[0].clone() else { return smallvec![None] };
        let saved = node.saved(0);
        let result = context.empty_contiguous(self.1, saved.shape());
        let factor = match self.0 {
            Kind::Plain => {
                let layout = Layout::broadcast(&[gradient.layout(), saved.layout()], saved.dtype());
                context.empty(layout)
            }
            Kind::Logarithm => gradient,
        };
        let contiguous = context.contiguous(&factor);
        drop(contiguous);
        drop(factor);
        smallvec![Some(result)]
    }
}

/// The result in `dtype`, which differs from the source's where half precision goes to single in one kernel.
fn fused(context: &mut Context, source: &Tensor, dtype: Dtype, kind: Kind) -> Tensor {
    let result = context.empty_contiguous(dtype, source.shape());
    let contiguous = context.contiguous(source);
    drop(contiguous);
    let backward = Softmax(kind, source.dtype());
    let edge = context.record(&[Some(source)], 1, |_| smallvec![Some(result.detach())], backward);
    result.with_edge(edge)
}

/// Softmax or its logarithm, with the cast that `dtype` asks for.
pub(super) fn softmax(context: &mut Context, source: &Tensor, dtype: Dtype, kind: Kind) -> Tensor {
    let is_one_kernel = source.dtype() == Dtype::Float16 && dtype == Dtype::Float32;
    if dtype == source.dtype() || is_one_kernel {
        return fused(context, source, dtype, kind);
    }
    let converted = super::copy::cast_to(context, source, dtype);
    fused(context, &converted, dtype, kind)
}

fn call_of(context: &mut Context, call: &Call<'_>, kind: Kind) -> Outcome {
    let source = call.tensor(0)?;
    let dtype = call.dtype(2).unwrap_or(source.dtype());
    Ok(smallvec![softmax(context, source, dtype, kind)])
}

fn softmax_call(context: &mut Context, call: &Call<'_>) -> Outcome {
    call_of(context, call, Kind::Plain)
}

fn log_softmax_call(context: &mut Context, call: &Call<'_>) -> Outcome {
    call_of(context, call, Kind::Logarithm)
}

fn inner_call_of(context: &mut Context, call: &Call<'_>, kind: Kind) -> Outcome {
    let source = call.tensor(0)?;
    let dtype = call.result(0)?.dtype;
    Ok(smallvec![fused(context, source, dtype, kind)])
}

fn inner_softmax(context: &mut Context, call: &Call<'_>) -> Outcome {
    inner_call_of(context, call, Kind::Plain)
}

fn inner_log_softmax(context: &mut Context, call: &Call<'_>) -> Outcome {
    inner_call_of(context, call, Kind::Logarithm)
}
