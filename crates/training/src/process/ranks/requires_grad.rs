//! Which tensors of a pass require gradients, where some weights do not.

use std::collections::BTreeSet;

use vramfit_graph::bind::{Bound, BoundStep};
use vramfit_graph::model::TensorId;

/// By tensor: whether it requires grad with these weights frozen. A result does if it was captured so and an argument does.
pub(super) fn requires_grad(bound: &Bound<'_>, frozen: &BTreeSet<TensorId>) -> Vec<bool> {
    let mut requires = vec![false; bound.tensors.len()];
    let weights = bound.model.parameters.iter().filter(|weight| weight.requires_grad);
    for weight in weights.filter(|weight| !frozen.contains(&weight.tensor)) {
        requires[weight.tensor.0 as usize] = true;
    }
    // The arguments of a custom function are its results' only ones: within it nothing is recorded.
    let mut functions: Vec<bool> = Vec::new();
    for step in &bound.steps {
        match step {
            BoundStep::Call(call) => {
                let mut is_reached = false;
                call.each_tensor(&mut |tensor| is_reached |= requires[tensor.0 as usize]);
                for result in call.results.iter().flatten() {
                    let captured = bound.tensor(*result);
                    requires[result.0 as usize] |= captured.requires_grad && (is_reached || captured.is_leaf);
                }
            }
            BoundStep::Function { arguments, .. } => {
                functions.push(arguments.iter().any(|argument| requires[argument.0 as usize]));
            }
            BoundStep::EndFunction { results, .. } => {
                let is_reached = functions.pop().unwrap_or_default();
                for result in results.iter() {
                    requires[result.0 as usize] |= is_reached && bound.tensor(*result).requires_grad;
                }
            }
            _ => {}
        }
    }
    requires
}
