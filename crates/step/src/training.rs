//! The training loop: three steps of forward, backward, step, as a plain script writes them.

use std::cell::RefCell;
use std::rc::Rc;

use vramfit_allocator::{OutOfMemory, Settings, SimulatedDriver};
use vramfit_graph::bind::{Bound, BoundTensor};
use vramfit_graph::model::TensorId;

use crate::engine;
use crate::forward::{Forward, Missing, Rules};
use crate::kernels::reduce::Gpu;
use crate::memory::{Category, Entry, Memory, Peak, SharedMemory};
use crate::ops::{BlasWorkspace, Context, Thread};
use crate::optimizer::{Kind, Parameter, optimizer};
use crate::tensor::{Layout, Tensor};

/// A part of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Moving the model and the inputs to the GPU.
    Build,
    /// The forward pass and the loss.
    Forward,
    /// The backward pass.
    Backward,
    /// The optimizer's step.
    Step,
}

/// A phase's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PhaseReport {
    /// Which.
    pub phase: Phase,
    /// In which step; `None` while building.
    pub step: Option<u32>,
    /// Allocated at its end.
    pub allocated: u64,
    /// The most within it.
    pub peak: Peak,
    /// Reserved at its end.
    pub reserved: u64,
    /// Where its requests begin in the journal.
    pub journal_start: usize,
}

/// What the loop does.
#[derive(Clone, Debug)]
pub struct Loop {
    /// How many steps.
    pub steps: u32,
    /// The optimizer.
    pub optimizer: Kind,
}

/// The GPU, as far as a step's memory depends on it.
#[derive(Clone, Copy, Debug)]
pub struct Machine {
    /// Its size.
    pub gpu: Gpu,
    /// cuBLAS's workspaces on it.
    pub blas: BlasWorkspace,
}

/// An H200, as measured.
pub const H200: Machine = Machine {
    gpu: Gpu { multiprocessors: 132, threads_per_multiprocessor: 2048 },
    blas: BlasWorkspace { handle: 33_554_432, lt: 1_048_576 },
};

/// What a simulated run gave.
#[derive(Clone, Debug)]
pub struct Run {
    /// The phases in order.
    pub phases: Vec<PhaseReport>,
    /// The most that was reserved after building.
    pub peak_reserved: u64,
    /// Operators without a rule.
    pub missing: Missing,
    /// The allocation that failed, if one did.
    pub failure: Option<OutOfMemory>,
    /// The requests, where they were asked for.
    pub journal: Vec<Entry>,
}

/// Simulates a training run.
pub fn train(bound: &Bound<'_>, options: &Loop, settings: Settings, machine: Machine, keeps_journal: bool) -> Run {
    let mut memory = Memory::new(settings, SimulatedDriver::unlimited());
    if keeps_journal {
        memory.keep_journal();
    }
    let memory = Rc::new(RefCell::new(memory));
    let mut context = Context::new(Rc::clone(&memory), machine.gpu, machine.blas);
    let mut reports = Reports { memory: Rc::clone(&memory), phases: Vec::new(), journal_start: 0 };
    let mut tensors: Vec<Option<Tensor>> = vec![None; bound.tensors.len()];
    let parameters = build(bound, &mut context, &mut tensors);
    reports.end(Phase::Build, None);
    let rules = Rules::of(bound);
    let mut optimizer = optimizer(options.optimizer, parameters.len());
    let mut missing = Missing::new();
    let mut held = Held::default();
    for step in 0..options.steps {
        for parameter in &parameters {
            parameter.gradient.borrow_mut().take();
        }
        context.set_thread(Thread::Main);
        context.set_grad(bound.variant.has_grad);
        let mut forward = Forward::new(bound, &rules, &tensors);
        let outputs = &mut held.outputs;
        forward.run(&mut context, |_| outputs.clear());
        missing = std::mem::take(&mut forward.missing);
        held.take_over(bound, forward);
        reports.end(Phase::Forward, Some(step));
        if let Some(loss) = &held.loss {
            backward(&mut context, loss);
        }
        reports.end(Phase::Backward, Some(step));
        context.set_thread(Thread::Main);
        optimizer.step(&mut context, &parameters);
        reports.end(Phase::Step, Some(step));
    }
    let peak_reserved = reports.phases.iter().map(|phase| phase.reserved).max().unwrap_or(0);
    let failure = memory.borrow().failure();
    let journal = memory.borrow().journal().to_vec();
    Run { phases: reports.phases, peak_reserved, missing, failure, journal }
}

fn backward(context: &mut Context, loss: &Tensor) {
    let Some(edge) = loss.edge().cloned() else { return };
    context.memory().borrow_mut().set_category(Category::Temporary);
    let gradient = context.empty(loss.layout().clone());
    context.set_thread(Thread::Backward);
    engine::run(context, &edge, gradient.clone());
    drop(gradient);
}

/// What the script still holds of the last iteration.
#[derive(Default)]
struct Held {
    outputs: Vec<Tensor>,
    loss: Option<Tensor>,
}

impl Held {
    fn take_over(&mut self, bound: &Bound<'_>, forward: Forward<'_>) {
        let take = |id: TensorId| forward.tensors[id.0 as usize].clone();
        self.loss = bound.variant.loss.and_then(take);
        self.outputs = bound.variant.outputs.iter().filter_map(|&id| take(id)).collect();
    }
}

/// Moves weights, inputs and targets to the GPU.
fn build(bound: &Bound<'_>, context: &mut Context, tensors: &mut [Option<Tensor>]) -> Vec<Parameter> {
    let model = bound.model;
    let memory: SharedMemory = Rc::clone(context.memory());
    memory.borrow_mut().set_category(Category::Parameters);
    for &id in &model.move_order {
        tensors[id.0 as usize] = Some(context.empty(layout(bound.tensor(id))));
    }
    memory.borrow_mut().set_category(Category::Inputs);
    for input in model.inputs.iter().chain(&model.targets) {
        tensors[input.tensor.0 as usize] = Some(context.empty(layout(bound.tensor(input.tensor))));
    }
    let mut parameters = Vec::new();
    for weight in &model.parameters {
        let place = &mut tensors[weight.tensor.0 as usize];
        let Some(tensor) = place.take() else { continue };
        if !weight.requires_grad {
            *place = Some(tensor);
            continue;
        }
        let gradient = Rc::new(RefCell::new(None));
        let edge = engine::sink(Rc::clone(&gradient), tensor.layout(), 0);
        let tensor = tensor.with_edge(Some(edge));
        *place = Some(tensor.clone());
        parameters.push(Parameter { tensor, gradient });
    }
    parameters
}

fn layout(tensor: &BoundTensor) -> Layout {
    Layout { dtype: tensor.dtype, shape: tensor.shape.clone(), strides: tensor.strides.clone() }
}

struct Reports {
    memory: SharedMemory,
    phases: Vec<PhaseReport>,
    journal_start: usize,
}

impl Reports {
    fn end(&mut self, phase: Phase, step: Option<u32>) {
        let mut memory = self.memory.borrow_mut();
        let report = PhaseReport {
            phase,
            step,
            allocated: memory.allocator().allocated_bytes(),
            peak: memory.peak(),
            reserved: memory.allocator().reserved_bytes(),
            journal_start: self.journal_start,
        };
        self.journal_start = memory.journal().len();
        memory.reset_peak();
        drop(memory);
        self.phases.push(report);
    }
}
