//! Activations: one result, and one tensor saved for the gradient.

use smallvec::smallvec;

use super::{Call, Context, Outcome, Rule};
use crate::tape::{Backward, Gradients, Node};

pub(super) fn rule(name: &str) -> Option<Rule> {
    Some(match name {
        "aten.relu.default" | "aten.tanh.default" | "aten.sigmoid.default" => saving_result,
        "aten.gelu.default"
        | "aten.silu.default"
        | "aten.leaky_relu.default"
        | "aten.elu.default"
        | "aten.hardtanh.default"
        | "aten.relu6.default"
        | "aten.hardswish.default"
        | "aten.hardsigmoid.default"
        | "aten.mish.default"
        | "aten.softplus.default"
        | "aten.celu.default"
        | "aten.selu.default" => saving_input,
        _ => return None,
    })
}

/// The gradient is one new tensor.
#[derive(Debug)]
struct Activated;

impl Backward for Activated {
    fn apply(&self, context: &mut Context, node: &Node, gradients: &mut Gradients) -> Gradients {
        let saved = node.saved(0);
        smallvec![gradients[0].as_ref().map(|gradient| {
            let layout = context.broadcast_layout(&[gradient.layout(), saved.layout()], saved.dtype());
            context.empty(layout)
        })]
    }
}

fn saving_result(context: &mut Context, call: &Call<'_>) -> Outcome {
    let source = call.tensor(0)?;
    let result = context.empty(source.layout().like(source.dtype()));
    let edge = context.record(&[Some(source)], 1, |_| smallvec![Some(result.detach())], Activated);
    Ok(smallvec![result.with_edge(edge)])
}

fn saving_input(context: &mut Context, call: &Call<'_>) -> Outcome {
    let source = call.tensor(0)?;
    let result = context.empty(source.layout().like(source.dtype()));
    let edge = context.record(&[Some(source)], 1, |_| smallvec![Some(source.clone())], Activated);
    Ok(smallvec![result.with_edge(edge)])
}
