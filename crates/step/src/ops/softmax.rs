//! Softmax and its logarithm.

use smallvec::smallvec;
use vramfit_graph::dtype::Dtype;

use super::{Call, Context, Outcome, Rule};
use crate::tape::{Backward, Gradients, Node};
use crate::tensor::{Layout, Tensor};

pub(super) fn rule(name: &str) -> Option<Rule> {
    Some(match name {
        "aten.log_softmax.int" => log_softmax_call,
        _ => return None,
    })
}

#[derive(Debug)]
struct LogSoftmax(Dtype);

impl Backward for LogSoftmax {
    fn apply(&self, context: &mut Context, node: &Node, gradients: &mut Gradients) -> Gradients {
        let result = node.saved(0);
        smallvec![gradients[0].as_ref().map(|_| context.empty_contiguous(self.0, result.shape()))]
    }
}

/// The logarithm of the softmax: one result, which is saved.
pub(super) fn log_softmax(context: &mut Context, source: &Tensor, dtype: Dtype) -> Tensor {
    let result = context.empty(Layout::contiguous(dtype, source.shape()));
    let edge = context.record(&[Some(source)], 1, |_| smallvec![Some(result.detach())], LogSoftmax(source.dtype()));
    result.with_edge(edge)
}

fn log_softmax_call(context: &mut Context, call: &Call<'_>) -> Outcome {
    let source = call.tensor(0)?;
    let dtype = call.result(0)?.dtype;
    Ok(smallvec![log_softmax(context, source, dtype)])
}
