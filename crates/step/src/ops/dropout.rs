//! Dropout: a mask of one byte an element, and the result.

use smallvec::smallvec;
use vramfit_graph::dtype::Dtype;

use super::{Call, Context, Outcome, Rule};
use crate::tape::{Backward, Gradients, Node};

pub(super) fn rule(name: &str) -> Option<Rule> {
    (name == "aten.dropout.default").then_some(dropout as Rule)
}

#[derive(Debug)]
struct Dropped;

impl Backward for Dropped {
    fn apply(&self, context: &mut Context, _node: &Node, gradients: &mut Gradients) -> Gradients {
        let result = gradients[0].as_ref().map(|gradient| context.empty(gradient.layout().like(gradient.dtype())));
        smallvec![result]
    }
}

fn dropout(context: &mut Context, call: &Call<'_>) -> Outcome {
    let source = call.tensor(0)?;
    let (part, is_training) = (call.float(1)?, call.bool(2)?);
    if part == 0.0 || !is_training || source.layout().elements() == 0 {
        return Ok(smallvec![source.clone()]);
    }
    let mask = context.empty(source.layout().like(Dtype::Bool));
    let result = context.empty(source.layout().like(source.dtype()));
    let edge = context.record(&[Some(source)], 2, |_| smallvec![Some(mask.clone())], Dropped);
    Ok(smallvec![result.with_edge(edge)])
}
