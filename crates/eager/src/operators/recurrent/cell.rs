//! `nn.GRUCell`: one step of a recurrent layer, written by PyTorch itself.

use smallvec::smallvec;

use crate::autograd::{Backward, Context, Gradients, Node, Tensor};
use crate::operators::call::{Call, Outcome, Unmodelled, only};
use crate::operators::product::multiply;
use crate::operators::view::transposed;

/// Reset, update and new state, each from the input and from the state.
const GATES: i64 = 3;
/// What the kernel keeps for its backward pass, in states.
const KEPT: i64 = 5;

/// `_thnn_fused_gru_cell_backward_cuda` in `RNN.cu`. Inputs are the two products, the state and the biases; saved are the state's product, the state, the
/// input's product, and what the kernel kept.
#[derive(Debug)]
struct GruCell;

impl Backward for GruCell {
    fn apply(&self, context: &mut Context, node: &Node, gradients: &mut Gradients) -> Gradients {
        let Some(gradient) = gradients[0].clone() else { return smallvec![None, None, None, None, None] };
        let dtype = gradient.dtype();
        let (rows, states) = (gradient.shape()[0], gradient.shape()[1]);
        let of_input = context.empty_contiguous(dtype, &[rows, GATES * states]);
        let of_hidden = context.empty_contiguous(dtype, &[rows, GATES * states]);
        let of_state = context.empty_contiguous(dtype, &[rows, states]);
        let bias = |place: usize, of: &Tensor| node.wants(place).then(|| context.sum(of, &[0], false, dtype));
        let biases = (bias(3, &of_input), bias(4, &of_hidden));
        smallvec![Some(of_input), Some(of_hidden), Some(of_state), biases.0, biases.1]
    }
}

/// Two products, then one kernel for all else.
pub(super) fn gru_cell(context: &mut Context, call: &Call<'_>) -> Outcome {
    let (input, state) = (call.tensor(0)?, call.tensor(1)?);
    let (&[rows, states], 2) = (state.shape(), input.shape().len()) else { return Err(Unmodelled) };
    let product = |context: &mut Context, factor: &Tensor, weight: &Tensor| {
        let turned = only(transposed(context, weight))?;
        only(multiply(context, factor, &turned))
    };
    let of_input = product(context, input, call.tensor(2)?)?;
    let of_state = product(context, state, call.tensor(3)?)?;
    let kept = context.empty_contiguous(state.dtype(), &[rows, KEPT * states]);
    let result = context.empty_contiguous(state.dtype(), state.shape());
    let inputs = [Some(&of_input), Some(&of_state), Some(state), call.optional_tensor(4), call.optional_tensor(5)];
    let saved = |_: &dyn Fn(usize) -> bool| {
        smallvec![Some(of_state.clone()), Some(state.clone()), Some(of_input.clone()), Some(kept)]
    };
    let edge = context.record(&inputs, 2, saved, GruCell);
    Ok(smallvec![result.with_edge(edge)])
}
