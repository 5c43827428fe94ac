//! `lstm`, `gru` and `rnn`: a whole layer as one call of cuDNN, forward and backward.

use smallvec::{SmallVec, smallvec};
use vramfit_cudnn::recurrent::{Kind, RecurrentPass, RecurrentProblem};
use vramfit_graph::dims::Dims;
use vramfit_graph::dtype::Dtype;
use vramfit_graph::layout::Layout;

use crate::autograd::{Backward, Context, Edge, Gradients, Node, RecurrentWeights, Saved, Tensor};
use crate::memory::Category;
use crate::operators::call::{Call, Outcome, Unmodelled, only};
use crate::operators::copy::{cast_into, cast_to};
use crate::operators::view::permuted_in_graph;

/// Bytes of the random numbers' state that dropout between layers keeps, as recorded on an H200.
const DROPOUT_STATE: u64 = 6_488_064;

/// Whether a module's weights are one block on the GPU: `flatten_parameters` skips bfloat16.
pub fn is_flattened(dtype: Dtype) -> bool {
    matches!(dtype, Dtype::Float32 | Dtype::Float16 | Dtype::Float64)
}

/// Whether weights lie in one block already (`try_get_weight_buf` in `RNN.cpp`).
fn are_one_block(context: &Context, weights: &[Tensor]) -> bool {
    let block = |weight: &Tensor| weight.storage().and_then(|storage| storage.id());
    match (context.recurrent_weights, weights) {
        (RecurrentWeights::Flattened, [first, ..]) => is_flattened(first.dtype()),
        (RecurrentWeights::AsStored, [first, others @ ..]) => {
            others.iter().all(|weight| block(weight).is_some() && block(weight) == block(first))
        }
        _ => false,
    }
}

fn take_workspace(context: &mut Context, problem: &RecurrentProblem, pass: RecurrentPass) {
    context.note_assumed_workspace();
    context.use_dnn_handle();
    let workspace = context.scratch(problem.workspace(pass));
    workspace.become_category(Category::Workspace);
    context.hold_scratch(workspace);
}

/// Inputs are the sequence, the first states, then the weights. Saved: the states (an LSTM's cells first), the sequence,
/// the result, the reserve, the weights in one piece where they were put together for this call.
#[derive(Debug)]
struct Recurrent {
    problem: RecurrentProblem,
    states: usize,
    weights: SmallVec<[Layout; 8]>,
    is_batch_first: bool,
}

impl Backward for Recurrent {
    /// `_cudnn_rnn_backward`: a result that nothing used has a gradient of zeros.
    fn apply(&self, context: &mut Context, node: &Node, gradients: &mut Gradients) -> Gradients {
        if gradients.iter().all(Option::is_none) {
            return smallvec![None; 1 + self.states + self.weights.len()];
        }
        let input = node.saved(self.states);
        // Saved from the last state on; an LSTM's hidden states are narrower than its cells where they are projected.
        let layout_of = |output: usize| node.saved(self.states - output).layout().clone();
        let gradient =
            gradients[0].clone().unwrap_or_else(|| self.zeros_like_result(context, &node.saved(self.states + 1)));
        let of_states: SmallVec<[Tensor; 2]> = (1..=self.states)
            .map(|output| match gradients.get(output) {
                Some(Some(given)) => given.clone(),
                _ => context.empty(layout_of(output)),
            })
            .collect();
        let read = context.contiguous(&input);
        let incoming = context.contiguous(&gradient);
        let result = context.empty_contiguous(input.dtype(), input.shape());
        let of_states_read: SmallVec<[Tensor; 2]> = of_states.iter().map(|state| context.contiguous(state)).collect();
        let states: SmallVec<[Tensor; 2]> = (1..=self.states).map(|output| context.empty(layout_of(output))).collect();
        take_workspace(context, &self.problem, RecurrentPass::Backward);
        context.release_scratch();
        drop_in_reverse(of_states_read);
        drop(incoming);
        drop(read);
        let weights = (0..self.weights.len()).any(|index| node.wants(1 + self.states + index)).then(|| {
            let read = context.contiguous(&input);
            let whole: i64 = self.weights.iter().map(Layout::elements).sum();
            let whole = context.empty_contiguous(input.dtype(), &[whole]);
            take_workspace(context, &self.problem, RecurrentPass::Backward);
            context.release_scratch();
            drop(read);
            whole
        });
        drop_in_reverse(of_states);
        drop(gradient);
        let mut answer: Gradients = smallvec![node.wants(0).then_some(result)];
        for (index, state) in states.into_iter().enumerate() {
            answer.push(node.wants(1 + index).then_some(state));
        }
        for (index, layout) in self.weights.iter().enumerate() {
            let is_wanted = node.wants(1 + self.states + index);
            answer.push(weights.as_ref().filter(|_| is_wanted).map(|whole| whole.unsafe_view(layout.clone())));
        }
        answer
    }
}

impl Recurrent {
    /// Contiguous in the shape of the result as the module returns it.
    fn zeros_like_result(&self, context: &mut Context, result: &Tensor) -> Tensor {
        let &[length, batch, width] = result.shape() else { return context.empty(result.layout().clone()) };
        if !self.is_batch_first {
            return context.empty_contiguous(result.dtype(), &[length, batch, width]);
        }
        let zeros = context.empty_contiguous(result.dtype(), &[batch, length, width]);
        let strides = [width, length * width, 1].into();
        zeros.view(Layout { dtype: result.dtype(), shape: result.shape().into(), strides })
    }
}

/// As C++ ends the lives of variables.
fn drop_in_reverse(tensors: SmallVec<[Tensor; 2]>) {
    for tensor in tensors.into_iter().rev() {
        drop(tensor);
    }
}

/// A call's tensors, cast as autocast casts them.
struct Tensors {
    input: Tensor,
    /// Hidden, then cells.
    states: SmallVec<[Tensor; 2]>,
    weights: Vec<Tensor>,
    /// The weights in one piece, where this call made it.
    whole: Option<Tensor>,
}

impl Tensors {
    /// Under autocast: all weights into one piece, the states from the last on, the sequence.
    fn cast(context: &mut Context, given: Tensors, dtype: Dtype) -> Tensors {
        if given.input.dtype() == dtype && given.weights.iter().all(|weight| weight.dtype() == dtype) {
            return given;
        }
        let whole: i64 = given.weights.iter().map(|weight| weight.layout().elements()).sum();
        let whole = context.empty_contiguous(dtype, &[whole]);
        let weights = given.weights.iter().map(|weight| cast_into(context, weight, &whole, dtype)).collect();
        let mut states: SmallVec<[Tensor; 2]> =
            given.states.iter().rev().map(|state| cast_to(context, state, dtype)).collect();
        states.reverse();
        let input = cast_to(context, &given.input, dtype);
        Tensors { input, states, weights, whole: Some(whole) }
    }
}

/// Where a call's arguments are, and what the two forms differ in.
struct Form {
    /// The position of the first states.
    states: usize,
    /// For a packed batch: its time steps.
    steps: Option<i64>,
    is_batch_first: bool,
}

pub(super) fn recurrent(context: &mut Context, call: &Call<'_>, kind: Kind) -> Outcome {
    run_form(context, call, kind, &Form { states: 1, steps: None, is_batch_first: call.bool(8)? })
}

/// Rows of a packed batch, and how many of them each time step has, on the host.
pub(super) fn recurrent_packed(context: &mut Context, call: &Call<'_>, kind: Kind) -> Outcome {
    let steps = call.tensor(1)?.layout().elements();
    run_form(context, call, kind, &Form { states: 2, steps: Some(steps), is_batch_first: false })
}

fn run_form(context: &mut Context, call: &Call<'_>, kind: Kind, form: &Form) -> Outcome {
    let first = form.states;
    let states = match kind {
        Kind::Lstm => call.tensor_list(first)?,
        _ => vec![call.tensor(first)?],
    };
    let weights = call.tensor_list(first + 1)?;
    let (has_biases, layers, dropout) = (call.bool(first + 2)?, call.int(first + 3)?, call.float(first + 4)?);
    let (is_training, is_both_ways) = (call.bool(first + 5)?, call.bool(first + 6)?);
    let directions = 1 + i64::from(is_both_ways);
    let of_a_layer = if has_biases { 4 } else { 2 };
    let is_projected = weights.len() as i64 == (of_a_layer + 1) * layers * directions;
    let is_plain = weights.len() as i64 == of_a_layer * layers * directions;
    let rank = if form.steps.is_some() { 2 } else { 3 };
    if !(is_plain || is_projected) || call.tensor(0)?.shape().len() != rank {
        return Err(Unmodelled);
    }
    if context.offload.target().is_some() {
        // Saved weights would be copied to the host one by one, which was not followed up.
        return Err(Unmodelled);
    }
    let has_dropout = dropout > 0.0 && is_training;
    if has_dropout {
        context.use_dropout_state(DROPOUT_STATE);
    }
    let given = Tensors {
        input: call.tensor(0)?.clone(),
        states: states.into_iter().cloned().collect(),
        weights: weights.into_iter().cloned().collect(),
        whole: None,
    };
    // Autocast runs them in float16, whatever its own type is (`AutocastRNN.cpp`).
    let tensors = match context.autocast() {
        Some(_) => Tensors::cast(context, given, Dtype::Float16),
        None => given,
    };
    let input = match form.is_batch_first {
        true => only(permuted_in_graph(context, &tensors.input, &[1, 0, 2]))?,
        false => tensors.input.clone(),
    };
    let (Some(hidden), Some(cells)) = (tensors.states.first(), tensors.states.last()) else {
        return Err(Unmodelled);
    };
    let (&[_, sequences, outputs], &[_, _, hidden]) = (hidden.shape(), cells.shape()) else { return Err(Unmodelled) };
    let (length, batch, rows) = match (form.steps, input.shape()) {
        (None, &[length, batch, _]) => (length, batch, None),
        (Some(steps), &[rows, _]) => (steps, sequences, Some(rows)),
        _ => return Err(Unmodelled),
    };
    let inputs = input.shape().last().copied().unwrap_or(0);
    let projection = if is_projected { outputs } else { 0 };
    let dtype = input.dtype();
    let problem = RecurrentProblem {
        kind,
        dtype,
        is_training,
        has_dropout,
        layers,
        directions,
        length,
        batch,
        rows,
        inputs,
        hidden,
        projection,
    };
    let mut outcome = run(context, &problem, &input, &tensors, form.is_batch_first)?;
    drop(input);
    drop(tensors);
    if form.is_batch_first {
        let result = only(permuted_in_graph(context, &outcome[0], &[1, 0, 2]))?;
        outcome[0] = result;
    }
    Ok(outcome)
}

/// `_cudnn_rnn`.
fn run(
    context: &mut Context,
    problem: &RecurrentProblem,
    input: &Tensor,
    tensors: &Tensors,
    is_batch_first: bool,
) -> Outcome {
    let (dtype, states) = (problem.dtype, tensors.states.len());
    let read = context.contiguous(input);
    let mut shape: Dims = input.shape().into();
    if let Some(width) = shape.last_mut() {
        *width = problem.outputs() * problem.directions;
    }
    let result = context.empty_contiguous(dtype, &shape);
    let last: SmallVec<[Tensor; 2]> =
        tensors.states.iter().map(|state| context.empty_contiguous(dtype, state.shape())).collect();
    let whole = match &tensors.whole {
        Some(whole) => Some(whole.clone()),
        None if are_one_block(context, &tensors.weights) => None,
        // cuDNN gets a copy of them that is one block.
        None => {
            let elements: i64 = tensors.weights.iter().map(|weight| weight.layout().elements()).sum();
            Some(context.empty_contiguous(dtype, &[elements]))
        }
    };
    take_workspace(context, problem, RecurrentPass::Forward);
    let reserve =
        problem.is_training.then(|| context.empty_contiguous(Dtype::Uint8, &[problem.reserve().cast_signed()]));
    context.release_scratch();
    drop(read);
    let backward = Recurrent {
        problem: *problem,
        states,
        weights: tensors.weights.iter().map(|weight| weight.layout().clone()).collect(),
        is_batch_first,
    };
    let inputs: Vec<Option<&Tensor>> =
        std::iter::once(input).chain(&tensors.states).chain(&tensors.weights).map(Some).collect();
    let kept = result.detach();
    let edge = context.record(
        &inputs,
        1 + states,
        |_| {
            let mut saved: Saved = tensors.states.iter().rev().cloned().map(Some).collect();
            saved.push(Some(input.clone()));
            saved.push(Some(kept));
            saved.push(reserve.clone());
            saved.push(whole.clone());
            saved
        },
        backward,
    );
    drop(reserve);
    drop(whole);
    let mut results: SmallVec<[Tensor; 1]> = smallvec![result.with_edge(edge.clone())];
    for (index, state) in last.into_iter().enumerate() {
        results.push(state.with_edge(edge.clone().map(|edge| Edge { output: 1 + index, ..edge })));
    }
    Ok(results)
}
