//! The linear layer that DeepSpeed puts in the place of PyTorch's when it partitions weights: `LinearFunctionForZeroStage3`.
//!
//! It saves the weight itself, not a view of it, so that the weight's memory can be freed and filled again.

use smallvec::smallvec;

use super::any_rank::matmul;
use super::matrix::add_product;
use crate::autograd::{Backward, Context, Gradients, Node, Tensor};
use crate::operators::call::{Outcome, Unmodelled, only};
use crate::operators::pointwise::add_into;
use crate::operators::view::{reshape_to, transposed};

/// `input @ weight.t() + bias`.
pub(super) fn linear(context: &mut Context, input: &Tensor, weight: &Tensor, bias: Option<&Tensor>) -> Outcome {
    let result = without_graph(context, |context| forward(context, input, weight, bias))?;
    let saved = smallvec![Some(input.clone()), Some(weight.clone()), bias.cloned()];
    let edge = context.record(&[Some(input), Some(weight), bias], 1, |_| saved, LinearFunction);
    Ok(smallvec![result.detach().with_edge(edge)])
}

fn forward(
    context: &mut Context,
    input: &Tensor,
    weight: &Tensor,
    bias: Option<&Tensor>,
) -> Result<Tensor, Unmodelled> {
    let turned = only(transposed(context, &weight.detach()))?;
    match bias {
        Some(bias) if input.shape().len() == 2 => {
            only(add_product(context, &bias.detach(), (&input.detach(), &turned)))
        }
        Some(bias) => {
            let product = only(matmul(context, &input.detach(), &turned))?;
            only(add_into(context, &product, &bias.detach()))
        }
        None => only(matmul(context, &input.detach(), &turned)),
    }
}

fn without_graph<T>(context: &mut Context, run: impl FnOnce(&mut Context) -> T) -> T {
    let was_on = context.is_grad_on();
    context.set_grad(false);
    let result = run(context);
    context.set_grad(was_on);
    result
}

#[derive(Debug)]
struct LinearFunction;

impl LinearFunction {
    fn gradients(context: &mut Context, node: &Node, gradient: &Tensor) -> Result<Gradients, Unmodelled> {
        let (input, weight) = (node.saved(0).detach(), node.saved(1).detach());
        let rows = |tensor: &Tensor| -> Result<[i64; 2], Unmodelled> {
            let (&last, outer) = tensor.shape().split_last().ok_or(Unmodelled)?;
            Ok([outer.iter().product(), last])
        };
        let mut found: Gradients = smallvec![None, None, None];
        if node.wants(0) {
            // The product of more than two dimensions is another shape of a product of matrices that nothing else holds.
            found[0] = Some(only(matmul(context, gradient, &weight))?.detach());
        }
        if node.wants(1) {
            let flat = only(reshape_to(context, gradient, &rows(gradient)?))?;
            let turned = only(transposed(context, &flat))?;
            let flat_input = only(reshape_to(context, &input, &rows(&input)?))?;
            found[1] = Some(only(matmul(context, &turned, &flat_input))?);
        }
        if node.wants(2) {
            let dims: Vec<i64> = (0..gradient.shape().len() as i64 - 1).collect();
            found[2] = Some(context.sum(gradient, &dims, false, gradient.dtype()));
        }
        Ok(found)
    }
}

impl Backward for LinearFunction {
    fn apply(&self, context: &mut Context, node: &Node, gradients: &mut Gradients) -> Gradients {
        let Some(gradient) = gradients[0].clone() else { return smallvec![None, None, None] };
        without_graph(context, |context| LinearFunction::gradients(context, node, &gradient))
            .unwrap_or_else(|_| smallvec![None, None, None])
    }

    fn saves_afterwards(&self) -> bool {
        true
    }
}
