//! Padding with what lies at the edges.

use smallvec::smallvec;

use super::{Call, Context, Outcome, Rule};
use crate::autograd::{Backward, Gradients, Node};
use vramfit_graph::dims::Dims;

pub(super) fn rule(name: &str) -> Option<Rule> {
    Some(match name {
        "aten.reflection_pad1d.default"
        | "aten.reflection_pad2d.default"
        | "aten.reflection_pad3d.default"
        | "aten.replication_pad1d.default"
        | "aten.replication_pad2d.default"
        | "aten.replication_pad3d.default" => edges,
        _ => return None,
    })
}

/// The gradient is added up in a new tensor of the input's shape. The input is saved.
#[derive(Debug)]
struct Padded(Dims);

impl Backward for Padded {
    fn apply(&self, context: &mut Context, _node: &Node, gradients: &mut Gradients) -> Gradients {
        smallvec![gradients[0].as_ref().map(|gradient| context.empty_contiguous(gradient.dtype(), &self.0))]
    }
}

fn edges(context: &mut Context, call: &Call<'_>) -> Outcome {
    let source = call.tensor(0)?;
    let result = context.empty_contiguous(source.dtype(), &call.result(0)?.shape);
    drop(context.contiguous(source));
    let saved = |_: &dyn Fn(usize) -> bool| smallvec![Some(source.clone())];
    let edge = context.record(&[Some(source)], 1, saved, Padded(source.shape().into()));
    Ok(smallvec![result.with_edge(edge)])
}
