//! One step of a recurrent layer (`nn.LSTMCell`, `nn.GRUCell`, `nn.RNNCell`), written by PyTorch itself.

use smallvec::smallvec;

use crate::autograd::{Backward, Context, Edge, Gradients, Node, Tensor};
use crate::operators::call::{Call, Outcome, Unmodelled, only};
use crate::operators::pointwise::{KERNEL_OF_RESULT, add_into, apply};
use crate::operators::product::{linear, multiply};
use crate::operators::view::transposed;

/// `factor @ weight.t()` of matrices.
fn product(context: &mut Context, factor: &Tensor, weight: &Tensor) -> Result<Tensor, Unmodelled> {
    let turned = only(transposed(context, weight))?;
    only(multiply(context, factor, &turned))
}

/// A fused cell's backward kernel, from `RNN.cu`. Inputs are the two products, the state and the two biases. The gradients
/// of the products are as wide as `gates` states.
#[derive(Debug)]
struct FusedCell {
    gates: i64,
    /// Whether one gradient serves both products, and its sum both biases.
    is_shared: bool,
}

impl Backward for FusedCell {
    fn apply(&self, context: &mut Context, node: &Node, gradients: &mut Gradients) -> Gradients {
        let Some(gradient) = gradients.iter().flatten().next().cloned() else { return smallvec![None; 5] };
        let dtype = gradient.dtype();
        let &[rows, states] = gradient.shape() else { return smallvec![None; 5] };
        let of_gates = |context: &Context| context.empty_contiguous(dtype, &[rows, self.gates * states]);
        let of_input = of_gates(context);
        let of_hidden = if self.is_shared { of_input.clone() } else { of_gates(context) };
        let of_state = context.empty_contiguous(dtype, &[rows, states]);
        let bias = |place: usize, of: &Tensor| node.wants(place).then(|| context.sum(of, &[0], false, dtype));
        let input_bias = bias(3, &of_input);
        let hidden_bias = match (self.is_shared, node.wants(4)) {
            (true, true) => input_bias.clone().or_else(|| bias(4, &of_input)),
            (false, true) => bias(4, &of_hidden),
            (_, false) => None,
        };
        smallvec![Some(of_input), Some(of_hidden), Some(of_state), input_bias, hidden_bias]
    }
}

/// What the GRU's kernel keeps for its backward pass, in states.
const KEPT_BY_GRU: i64 = 5;

/// Two products, then one kernel for all else.
pub(super) fn gru_cell(context: &mut Context, call: &Call<'_>) -> Outcome {
    let (input, state) = (call.tensor(0)?, call.tensor(1)?);
    let (&[rows, states], 2) = (state.shape(), input.shape().len()) else { return Err(Unmodelled) };
    let (input_bias, hidden_bias) = (call.optional_tensor(4), call.optional_tensor(5));
    let of_input = product(context, input, call.tensor(2)?)?;
    let of_hidden = product(context, state, call.tensor(3)?)?;
    let kept = context.empty_contiguous(state.dtype(), &[rows, KEPT_BY_GRU * states]);
    let result = context.empty_contiguous(state.dtype(), state.shape());
    let inputs = [Some(&of_input), Some(&of_hidden), Some(state), input_bias, hidden_bias];
    let saved = |_: &dyn Fn(usize) -> bool| {
        smallvec![
            hidden_bias.cloned(),
            Some(of_hidden.clone()),
            Some(state.clone()),
            input_bias.cloned(),
            Some(of_input.clone()),
            Some(kept)
        ]
    };
    let edge = context.record(&inputs, 2, saved, FusedCell { gates: 3, is_shared: false });
    Ok(smallvec![result.with_edge(edge)])
}

/// Two products, then one kernel that keeps the four gates. Hidden state and cells are given as a list.
pub(super) fn lstm_cell(context: &mut Context, call: &Call<'_>) -> Outcome {
    let (input, states) = (call.tensor(0)?, call.tensor_list(1)?);
    let &[hidden, cells] = states.as_slice() else { return Err(Unmodelled) };
    if input.shape().len() != 2 || cells.shape().len() != 2 {
        return Err(Unmodelled);
    }
    let (input_bias, hidden_bias) = (call.optional_tensor(4), call.optional_tensor(5));
    let of_input = product(context, input, call.tensor(2)?)?;
    let of_hidden = product(context, hidden, call.tensor(3)?)?;
    let gates = context.empty(of_input.like(of_input.dtype()));
    let next_hidden = context.empty(cells.like(cells.dtype()));
    let next_cells = context.empty(cells.like(cells.dtype()));
    let inputs = [Some(&of_input), Some(&of_hidden), Some(cells), input_bias, hidden_bias];
    let saved = |_: &dyn Fn(usize) -> bool| {
        smallvec![
            Some(cells.clone()),
            hidden_bias.cloned(),
            Some(of_hidden.clone()),
            input_bias.cloned(),
            Some(of_input.clone()),
            Some(next_cells.detach()),
            Some(gates.clone())
        ]
    };
    let edge = context.record(&inputs, 3, saved, FusedCell { gates: 4, is_shared: true });
    drop(gates);
    drop(of_hidden);
    drop(of_input);
    let of_cells = edge.clone().map(|edge| Edge { output: 1, ..edge });
    Ok(smallvec![next_hidden.with_edge(edge), next_cells.with_edge(of_cells)])
}

/// `nonlinearity(linear(state) + linear(input))`, the sum in place.
pub(super) fn simple_cell(context: &mut Context, call: &Call<'_>) -> Outcome {
    let (input, state) = (call.tensor(0)?, call.tensor(1)?);
    let of_hidden = only(linear(context, state, call.tensor(3)?, call.optional_tensor(5)))?;
    let of_input = only(linear(context, input, call.tensor(2)?, call.optional_tensor(4)))?;
    let sum = only(add_into(context, &of_hidden, &of_input))?;
    let result = apply(context, &KERNEL_OF_RESULT, &[&sum]);
    drop(of_input);
    Ok(smallvec![result])
}
