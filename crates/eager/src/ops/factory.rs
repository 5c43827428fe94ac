//! Tensors made from nothing, and writing into tensors.

use smallvec::smallvec;

use super::pointwise::rebased;
use super::{Call, Context, Outcome, Rule};
use crate::autograd::{Backward, Gradients, Node};
use vramfit_graph::layout::Layout;

pub(super) fn rule(name: &str) -> Option<Rule> {
    let (base, _) = name.strip_prefix("aten.")?.split_once('.')?;
    Some(match base {
        "arange" | "zeros" | "ones" | "full" | "empty" | "rand" | "randn" | "randint" | "linspace" | "logspace"
        | "eye" | "new_zeros" | "new_ones" | "new_full" | "new_empty" | "new_tensor" | "scalar_tensor" | "one_hot"
        | "empty_permuted" | "tril_indices" | "triu_indices" | "hann_window" | "searchsorted" | "bucketize"
        | "polar" => made,
        "zeros_like" | "ones_like" | "full_like" | "empty_like" | "rand_like" | "randn_like" | "randint_like" => like,
        "bernoulli" => bernoulli,
        "zero_" | "fill_" | "normal_" | "uniform_" | "bernoulli_" | "random_" | "exponential_" => fill,
        "copy_" => copy_into,
        _ => return None,
    })
}

fn made(context: &mut Context, call: &Call<'_>) -> Outcome {
    Ok(smallvec![context.empty(call.result(0)?)])
}

fn like(context: &mut Context, call: &Call<'_>) -> Outcome {
    let wanted = call.result(0)?;
    let source = call.tensor(0)?;
    let is_contiguous = call.arguments.iter().any(|value| {
        matches!(value, vramfit_graph::bind::Value::MemoryFormat(vramfit_graph::model::MemoryFormat::Contiguous))
    });
    let layout = if is_contiguous || source.is_on_host() {
        Layout::contiguous(wanted.dtype, &wanted.shape).into()
    } else {
        source.like(wanted.dtype)
    };
    Ok(smallvec![context.empty(layout)])
}

/// Chances in half precision are cast to single first.
fn bernoulli(context: &mut Context, call: &Call<'_>) -> Outcome {
    let source = call.tensor(0)?;
    let result = context.empty(source.like(source.dtype()));
    let single = vramfit_graph::dtype::Dtype::Float32;
    let cast = source.dtype().is_half().then(|| context.empty(source.like(single)));
    drop(cast);
    let edge = context.record(&[Some(source)], 1, |_| smallvec![], Zeros);
    Ok(smallvec![result.with_edge(edge)])
}

/// What was overwritten gets zeros for a gradient.
#[derive(Debug)]
struct Zeros;

impl Backward for Zeros {
    fn apply(&self, context: &mut Context, _node: &Node, gradients: &mut Gradients) -> Gradients {
        smallvec![gradients[0].as_ref().map(|gradient| context.empty(gradient.like(gradient.dtype())))]
    }
}

fn fill(context: &mut Context, call: &Call<'_>) -> Outcome {
    let target = call.tensor(0)?;
    let edge = context.record(&[Some(target)], 1, |_| smallvec![], Zeros);
    if edge.is_none() { Ok(smallvec![target.clone()]) } else { rebased(target, edge) }
}

/// A copy into a tensor: what was there gets zeros, the source the gradient itself.
#[derive(Debug)]
struct CopiedInto;

impl Backward for CopiedInto {
    fn apply(&self, context: &mut Context, node: &Node, gradients: &mut Gradients) -> Gradients {
        let Some(gradient) = gradients[0].clone() else { return smallvec![None, None] };
        let zeros = node.wants(0).then(|| context.empty(gradient.like(gradient.dtype())));
        smallvec![zeros, node.wants(1).then_some(gradient)]
    }
}

fn copy_into(context: &mut Context, call: &Call<'_>) -> Outcome {
    let target = call.tensor(0)?;
    let edge = context.record(&[Some(target), call.optional_tensor(1)], 1, |_| smallvec![], CopiedInto);
    if edge.is_none() { Ok(smallvec![target.clone()]) } else { rebased(target, edge) }
}
