//! Variance, standard deviation, norm, logsumexp.

use smallvec::smallvec;
use vramfit_graph::bind::Value;
use vramfit_graph::dtype::Dtype;

use super::{Over, reduced, summing};
use crate::kernels::reduce::Reduction;
use crate::ops::pointwise::elementwise;
use crate::ops::{Call, Context, Outcome, Rule, Unmodelled};
use crate::tape::{Backward, Gradients, Node};
use crate::tensor::Tensor;

pub(super) fn rule(name: &str) -> Option<Rule> {
    Some(match name {
        "aten.var.default" => |context, call| variance(context, call, &Over::all(call)?, false),
        "aten.std.default" => |context, call| variance(context, call, &Over::all(call)?, true),
        "aten.var.dim" => |context, call| variance(context, call, &Over::at(call, 1, 3)?, false),
        "aten.std.dim" => |context, call| variance(context, call, &Over::at(call, 1, 3)?, true),
        "aten.var.correction" => |context, call| variance(context, call, &Over::at(call, 1, 3)?, false),
        "aten.std.correction" => |context, call| variance(context, call, &Over::at(call, 1, 3)?, true),
        "aten.linalg_vector_norm.default" => norm,
        "aten.logsumexp.default" => logsumexp,
        _ => return None,
    })
}

/// Mean, sum of squares and two counts are kept for each partial result.
const WELFORD: Reduction = Reduction { partial_bytes: 16, input_vector: 2, max_threads: 512 };

/// `2 / N * grad * (self - mean)`.
#[derive(Debug)]
struct Variance {
    over: Over,
    is_root: bool,
}

impl Backward for Variance {
    fn apply(&self, context: &mut Context, node: &Node, gradients: &mut Gradients) -> Gradients {
        let Some(gradient) = gradients[0].clone() else { return smallvec![None] };
        let source = node.saved(0);
        let dtype = gradient.dtype();
        let of_root = self.is_root.then(|| {
            let result = node.saved(1);
            let doubled = elementwise(context, &[&result], dtype);
            let quotient = elementwise(context, &[&gradient, &doubled], dtype);
            let is_zero = elementwise(context, &[&result], Dtype::Bool);
            drop(is_zero);
            drop(doubled);
            quotient
        });
        let gradient = of_root.as_ref().unwrap_or(&gradient);
        let is_whole = self.over.dims.len() == source.shape().len() && !self.over.keeps_dims;
        let over = if is_whole { self.over.clone() } else { self.over.keeping() };
        let mean = reduced(context, &source, &over, source.dtype(), summing(source.dtype()));
        let centred = elementwise(context, &[&source, &mean], source.dtype());
        let seen = if is_whole { gradient.clone() } else { self.over.restored(gradient, source.shape()) };
        let scaled = elementwise(context, &[&seen], dtype);
        let result = elementwise(context, &[&scaled, &centred], dtype);
        drop(scaled);
        drop(centred);
        drop(mean);
        drop(of_root);
        smallvec![Some(result)]
    }
}

fn variance(context: &mut Context, call: &Call<'_>, over: &Over, is_root: bool) -> Outcome {
    let source = call.tensor(0)?;
    let result = reduced(context, source, over, source.dtype(), WELFORD);
    let kept = result.detach();
    let edge = context.record(
        &[Some(source)],
        1,
        |_| smallvec![Some(source.clone()), is_root.then_some(kept)],
        Variance { over: over.clone(), is_root },
    );
    Ok(smallvec![result.with_edge(edge)])
}

/// The first and second norm.
#[derive(Debug)]
struct Norm {
    over: Over,
    is_second: bool,
}

impl Backward for Norm {
    fn apply(&self, context: &mut Context, node: &Node, gradients: &mut Gradients) -> Gradients {
        let Some(gradient) = gradients[0].clone() else { return smallvec![None] };
        let (source, result) = (node.saved(0), node.saved(1));
        let dtype = source.dtype();
        let gradient = self.over.restored(&gradient, source.shape());
        let result = self.over.restored(&result, source.shape());
        let direction = elementwise(context, &[&source, &result], dtype);
        let is_zero = self.is_second.then(|| elementwise(context, &[&result], Dtype::Bool));
        let answer = elementwise(context, &[&gradient, &direction], dtype);
        drop(is_zero);
        drop(direction);
        smallvec![Some(answer)]
    }
}

fn norm(context: &mut Context, call: &Call<'_>) -> Outcome {
    let source = call.tensor(0)?;
    let order = match call.arguments.get(1) {
        Some(Value::Float(order)) => *order,
        Some(Value::Int(order)) => *order as f64,
        _ => 2.0,
    };
    let over = Over::at(call, 2, 3)?;
    let is_known = order == 1.0 || order == 2.0;
    if context.is_grad_on() && source.requires_grad() && !is_known {
        return Err(Unmodelled);
    }
    let dtype = call.result(0)?.dtype;
    let result = reduced(context, source, &over, dtype, summing(dtype));
    let kept = result.detach();
    let edge = context.record(
        &[Some(source)],
        1,
        |_| smallvec![Some(source.clone()), Some(kept)],
        Norm { over, is_second: order == 2.0 },
    );
    Ok(smallvec![result.with_edge(edge)])
}

fn logsumexp(context: &mut Context, call: &Call<'_>) -> Outcome {
    #[derive(Debug)]
    struct Logsumexp(Over);
    impl Backward for Logsumexp {
        fn apply(&self, context: &mut Context, node: &Node, gradients: &mut Gradients) -> Gradients {
            let Some(gradient) = gradients[0].clone() else { return smallvec![None] };
            let (source, result) = (node.saved(0), node.saved(1));
            let gradient = self.0.restored(&gradient, source.shape());
            let result = self.0.restored(&result, source.shape());
            let difference = elementwise(context, &[&source, &result], source.dtype());
            let power = elementwise(context, &[&difference], source.dtype());
            let answer = elementwise(context, &[&gradient, &power], source.dtype());
            drop(power);
            drop(difference);
            smallvec![Some(answer)]
        }
    }
    let source = call.tensor(0)?;
    let over = Over::listed(call)?;
    let dtype = source.dtype();
    if !dtype.is_differentiable() {
        return Err(Unmodelled);
    }
    let largest = reduced(context, source, &over.keeping(), dtype, super::extreme::largest(dtype));
    let absolute = elementwise(context, &[&largest], dtype);
    let is_infinite = elementwise(context, &[&absolute], Dtype::Bool);
    drop(is_infinite);
    drop(absolute);
    let powers: Tensor = elementwise(context, &[source, &largest], dtype);
    let result = reduced(context, &powers, &over, dtype, summing(dtype));
    drop(powers);
    drop(largest);
    let kept = result.detach();
    let edge = context.record(&[Some(source)], 1, |_| smallvec![Some(source.clone()), Some(kept)], Logsumexp(over));
    Ok(smallvec![result.with_edge(edge)])
}
