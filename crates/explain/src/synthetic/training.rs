//! A synthetic training: a chain of layers, a loss, autograd without frames, an optimizer, an evaluation now and then.

use vramfit_trace::snapshot::StackId;

use super::{FrameSpec, Held, Program};

const MODULE: FrameSpec<'_> = ("site-packages/torch/nn/modules/module.py", 1787, "_call_impl");
const SEQUENTIAL: FrameSpec<'_> = ("site-packages/torch/nn/modules/container.py", 250, "forward");
const LINEAR: FrameSpec<'_> = ("site-packages/torch/nn/modules/linear.py", 134, "forward");
const FUNCTIONAL: FrameSpec<'_> = ("site-packages/torch/nn/functional.py", 3462, "cross_entropy");
const ADAM: FrameSpec<'_> = ("site-packages/torch/optim/adam.py", 240, "_multi_tensor_adam");
const ADAM_STATE: FrameSpec<'_> = ("site-packages/torch/optim/adam.py", 166, "_init_group");
const OPTIMIZER: FrameSpec<'_> = ("site-packages/torch/optim/optimizer.py", 526, "wrapper");
const MAIN: FrameSpec<'_> = ("train.py", 90, "main");
/// What cuBLAS keeps from its first call on.
const WORKSPACE: u64 = 8_519_680;
const VALIDATION: FrameSpec<'_> = ("train.py", 91, "main");

/// What a training loop keeps by mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// Nothing.
    Nothing,
    /// Every step's activations: `total = total + loss` with a retained graph.
    Graph,
    /// Every step's output: `history.append(logits)`.
    Outputs,
    /// The last few outputs only, as a `deque` with a length does.
    LastOutputs(usize),
    /// The outputs of an epoch, dropped at its end.
    OutputsOfEpoch,
}

/// A synthetic training.
#[derive(Clone, Debug)]
pub struct Training {
    /// Layers of the model.
    pub layers: usize,
    /// Bytes of a layer's parameters.
    pub parameters: u64,
    /// Bytes of a layer's output; the data's and the model's output are as large.
    pub activation: u64,
    /// Steps an epoch.
    pub steps: usize,
    /// Epochs.
    pub epochs: usize,
    /// Forward and backward passes a step.
    pub accumulate: usize,
    /// What the loop keeps by mistake.
    pub kept: Kept,
    /// Batches of the evaluation after each epoch.
    pub evaluation: usize,
    /// Whether the evaluation runs under `no_grad`.
    pub has_no_grad: bool,
    /// Whether the evaluation keeps its outputs until its end.
    pub keeps_predictions: bool,
    /// Whether batches differ in size.
    pub varies: bool,
    /// Whether events carry frames.
    pub has_frames: bool,
    /// Whether the optimizer makes temporaries as large as all parameters, as foreach Adam does.
    pub is_foreach: bool,
    /// Bytes of a tensor that only the loss needs, such as logits in fp32; 0 for none.
    pub loss_temporary: u64,
    /// Steps before the recording is switched on.
    pub unrecorded: usize,
    /// Whether gradients are freed only after the forward pass.
    pub zeroes_late: bool,
}

impl Default for Training {
    fn default() -> Self {
        Training {
            layers: 4,
            parameters: 2 << 20,
            activation: 6 << 20,
            steps: 6,
            epochs: 1,
            accumulate: 1,
            kept: Kept::Nothing,
            evaluation: 0,
            has_no_grad: true,
            keeps_predictions: false,
            varies: false,
            has_frames: true,
            is_foreach: false,
            loss_temporary: 0,
            unrecorded: 0,
            zeroes_late: false,
        }
    }
}

/// What a training holds while it runs.
#[derive(Default)]
struct State {
    parameters: Vec<Held>,
    gradients: Vec<Held>,
    optimizer: Vec<Held>,
    output: Vec<Held>,
    loss: Option<Held>,
    data: Option<Held>,
    workspaces: usize,
    kept: Vec<Held>,
    passes: usize,
}

impl Training {
    /// Runs it, until memory is refused.
    pub fn run(&self, program: &mut Program) -> Option<()> {
        let mut state = State::default();
        for _ in 0..self.layers {
            let stack = self.stack(program, &[("site-packages/torch/nn/modules/module.py", 1343, "convert"), MAIN]);
            state.parameters.push(program.try_allocate(self.parameters, stack)?);
        }
        for _ in 0..self.unrecorded {
            self.step(program, &mut state)?;
        }
        if self.unrecorded > 0 {
            program.start_recording();
        }
        for _ in 0..self.epochs {
            for _ in 0..self.steps {
                self.step(program, &mut state)?;
            }
            if self.kept == Kept::OutputsOfEpoch {
                program.free_all(state.kept.drain(..));
            }
            self.evaluate(program)?;
        }
        Some(())
    }

    fn stack(&self, program: &mut Program, frames: &[FrameSpec<'_>]) -> StackId {
        if self.has_frames { program.stack(frames) } else { StackId::NONE }
    }

    /// Bytes of the next batch's tensors.
    fn size(&self, pass: usize) -> u64 {
        let factor = if self.varies { 4 + (pass as u64 * 7) % 5 } else { 8 };
        self.activation * factor / 8
    }

    fn step(&self, program: &mut Program, state: &mut State) -> Option<()> {
        if !self.zeroes_late {
            program.free_all(state.gradients.drain(..));
        }
        for _ in 0..self.accumulate {
            self.pass(program, state)?;
        }
        self.optimize(program, state)
    }

    fn pass(&self, program: &mut Program, state: &mut State) -> Option<()> {
        let size = self.size(state.passes);
        state.passes += 1;
        let data_stack = self.stack(program, &[("train.py", 21, "train"), MAIN]);
        let data = program.try_allocate(size, data_stack)?;
        let old_data = state.data.replace(data);
        if self.kept == Kept::Graph {
            state.kept.extend(old_data);
        } else {
            program.free_all(old_data);
        }
        let mut activations = Vec::new();
        for layer in 0..self.layers {
            let stack = self.stack(
                program,
                &[
                    LINEAR,
                    MODULE,
                    SEQUENTIAL,
                    MODULE,
                    ("model.py", 30, "forward"),
                    MODULE,
                    ("train.py", 23, "train"),
                    MAIN,
                ],
            );
            activations.push(program.try_allocate(size, stack)?);
            if layer == 0 && state.workspaces == 0 {
                program.try_allocate(WORKSPACE, stack)?;
                state.workspaces = 1;
            }
        }
        program.free_all(state.output.drain(..));
        let loss_stack = self.stack(program, &[FUNCTIONAL, ("train.py", 24, "train"), MAIN]);
        if self.loss_temporary > 0 {
            let temporary = program.try_allocate(self.loss_temporary, loss_stack)?;
            program.free(temporary);
        }
        let saved = program.try_allocate(size, loss_stack)?;
        let loss = program.try_allocate(4, loss_stack)?;
        program.free_all(state.loss.replace(loss));
        if self.zeroes_late {
            program.free_all(state.gradients.drain(..));
        }
        self.backward(program, state, activations, saved)
    }

    fn backward(
        &self,
        program: &mut Program,
        state: &mut State,
        mut activations: Vec<Held>,
        saved: Held,
    ) -> Option<()> {
        let size = self.size(state.passes - 1);
        let mut gradient = program.try_allocate(size, StackId::NONE)?;
        let is_first = state.gradients.is_empty();
        let output = activations.pop();
        for layer in (0..self.layers).rev() {
            let next = program.try_allocate(size, StackId::NONE)?;
            let weight = program.try_allocate(self.parameters, StackId::NONE)?;
            if is_first {
                state.gradients.push(weight);
            } else {
                program.free(weight);
            }
            if layer + 1 == self.layers && state.workspaces == 1 {
                program.try_allocate(WORKSPACE, StackId::NONE)?;
                state.workspaces = 2;
            }
            program.free(std::mem::replace(&mut gradient, next));
            if self.kept != Kept::Graph
                && let Some(activation) = activations.pop()
            {
                program.free(activation);
            }
        }
        program.free(gradient);
        match self.kept {
            Kept::Graph => {
                state.kept.extend(activations);
                state.kept.extend(output);
                state.kept.push(saved);
            }
            Kept::Nothing => {
                program.free(saved);
                state.output.extend(output);
            }
            Kept::Outputs | Kept::LastOutputs(_) | Kept::OutputsOfEpoch => {
                program.free(saved);
                state.kept.extend(output);
                if let Kept::LastOutputs(most) = self.kept
                    && state.kept.len() > most
                {
                    program.free(state.kept.remove(0));
                }
            }
        }
        Some(())
    }

    fn optimize(&self, program: &mut Program, state: &mut State) -> Option<()> {
        let line = ("train.py", 26, "train");
        if state.optimizer.is_empty() {
            let stack = self.stack(program, &[ADAM_STATE, OPTIMIZER, line, MAIN]);
            for _ in 0..2 * self.layers {
                state.optimizer.push(program.try_allocate(self.parameters, stack)?);
            }
        }
        if self.is_foreach {
            let stack = self.stack(program, &[ADAM, OPTIMIZER, line, MAIN]);
            let mut temporaries = Vec::new();
            for _ in 0..self.layers {
                temporaries.push(program.try_allocate(self.parameters, stack)?);
            }
            program.free_all(temporaries);
        }
        Some(())
    }

    fn evaluate(&self, program: &mut Program) -> Option<()> {
        let (mut predictions, mut graph, mut output) = (Vec::new(), Vec::new(), None);
        for batch in 0..self.evaluation {
            let data_stack = self.stack(program, &[("train.py", 40, "validate"), VALIDATION]);
            let data = program.try_allocate(self.size(batch), data_stack)?;
            let mut activations = Vec::new();
            for _ in 0..self.layers {
                let stack = self.stack(
                    program,
                    &[
                        LINEAR,
                        MODULE,
                        SEQUENTIAL,
                        MODULE,
                        ("model.py", 30, "forward"),
                        MODULE,
                        ("train.py", 40, "validate"),
                        VALIDATION,
                    ],
                );
                activations.push(program.try_allocate(self.size(batch), stack)?);
                if self.has_no_grad && activations.len() > 1 {
                    program.free(activations.remove(0));
                }
            }
            let result = activations.pop()?;
            if self.keeps_predictions {
                predictions.push(result);
                graph.extend(activations);
                if !self.has_no_grad {
                    graph.push(data);
                    continue;
                }
            } else {
                program.free_all(output.replace(result));
                program.free_all(std::mem::replace(&mut graph, activations));
            }
            program.free(data);
        }
        program.free_all(predictions);
        program.free_all(graph);
        program.free_all(output);
        Some(())
    }
}
