//! The linear layer that DeepSpeed puts in the place of PyTorch's when it partitions weights: `LinearFunctionForZeroStage3`.
//!
//! It saves the weight itself, not a view of it, so that the weight's memory can be freed and filled again.

use smallvec::smallvec;

use super::any_rank::{matmul, times_weight};
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
    let (input, is_trained) = (input.detach(), weight.requires_grad());
    match bias {
        Some(bias) if input.shape().len() == 2 => only(add_product(context, &bias.detach(), (&input, &turned))),
        Some(bias) => {
            let product = only(times_weight(context, &input, &turned, is_trained))?;
            only(add_into(context, &product, &bias.detach()))
        }
        None => only(times_weight(context, &input, &turned, is_trained)),
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
            found[0] = Some(only(times_weight(context, gradient, &weight, node.wants(1)))?.detach());
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

    use std::cell::RefCell;
    use std::rc::Rc;

    use super::*;
    use crate::autograd::engine;
    use crate::machine::H200;
    use crate::memory::{Category, Entry, Memory, Storage};
    use vramfit_graph::dtype::Dtype;
    use vramfit_graph::layout::Layout;

    /// A weight whose memory can be freed and filled again.
    fn weight(context: &Context, shape: &[i64]) -> Tensor {
        let layout = Rc::new(Layout::contiguous(Dtype::Float32, shape));
        let storage = Storage::refillable(context.memory(), layout.bytes(), Category::Parameters);
        let edge = engine::sink(Rc::default(), Rc::clone(&layout), 0);
        Tensor::on_storage(storage, layout).with_edge(Some(edge))
    }

    fn allocated(context: &Context, from: usize) -> Vec<u64> {
        let memory = context.memory().borrow();
        let bytes = |entry: &Entry| match *entry {
            Entry::Allocate { bytes, category: Category::Workspace, .. } if bytes > 0 => None,
            Entry::Allocate { bytes, .. } => Some(bytes),
            Entry::Free { .. } => None,
        };
        memory.journal()[from..].iter().filter_map(bytes).collect()
    }

    #[test]
    fn the_weight_is_free_between_forward_and_backward_pass() {
        let memory = Rc::new(RefCell::new(Memory::new()));
        let mut context = Context::new(Rc::clone(&memory), H200);
        context.set_grad(true);
        let input = context.empty_contiguous(Dtype::Float32, &[2, 3, 8]);
        let (kernel, bias) = (weight(&context, &[16, 8]), weight(&context, &[16]));
        let fill = |weight: &Tensor| weight.storage().unwrap().refill(weight.layout().bytes());
        let empty = |weight: &Tensor| weight.storage().unwrap().resize_to_nothing();
        fill(&kernel);
        fill(&bias);
        let before = memory.borrow().live();
        let output = only(linear(&mut context, &input, &kernel, Some(&bias))).unwrap();
        assert_eq!(output.shape(), [2, 3, 16]);
        let held = memory.borrow().live();
        empty(&kernel);
        empty(&bias);
        assert_eq!(memory.borrow().live(), held - 2, "nothing but the weights held their memory");
        assert!(held > before);
        fill(&kernel);
        fill(&bias);
        let start = memory.borrow().journal().len();
        let gradient = context.empty(output.shared_layout());
        let edge = output.edge().unwrap().clone();
        let found = LinearFunction::gradients(&mut context, &edge.node, &gradient).unwrap();
        assert!(found[0].is_none(), "the input wants none");
        assert_eq!(allocated(&context, start), [2 * 3 * 16 * 4, 16 * 8 * 4, 16 * 4]);
    }
}
