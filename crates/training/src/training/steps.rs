//! The loop itself. What stays bound here is what a plain script holds.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use smallvec::smallvec;
use vramfit_allocator::{Settings, SimulatedDriver};
use vramfit_graph::bind::Bound;
use vramfit_graph::dtype::Dtype;
use vramfit_graph::model::{Mode, Precision};

use super::build::{Tensors, move_inputs, move_model};
use super::held::{Held, Name};
use super::loss::added_loss;
use super::micro::Series;
use super::program::{Mark, Position, Program, Repeat, Round};
use super::report::{Phase, Run};
use super::second::{Counts, First, Rebinding, can_be_told, tell};
use super::settings::{Loop, ZeroGrad};
use super::state::State;
use crate::optimizer::clip::clip_grad_norm;
use crate::optimizer::scaler::GradScaler;
use crate::optimizer::{Optimizer, Parameter, zero_grad};
use vramfit_eager::autograd::Plans;
use vramfit_eager::autograd::Tensor;
use vramfit_eager::autograd::Visits;
use vramfit_eager::autograd::engine;
use vramfit_eager::autograd::{Backward, Gradients, Node};
use vramfit_eager::autograd::{Context, Thread};
use vramfit_eager::forward::{ADDED_LOSS, Forward, Instant, Missing, NOWHERE, Passes};
use vramfit_eager::forward::{Choice, UnknownModule, regions};
use vramfit_eager::machine::Machine;
use vramfit_eager::memory::{Category, Memory};

/// Room for so many requests is made for each captured step: a transformer makes that many in two training steps.
const REQUESTS_A_STEP: usize = 6;

/// Simulates a run on a GPU without end.
///
/// # Errors
/// The model has no module that is to be checkpointed.
pub fn train(
    bound: &Bound<'_>,
    options: &Loop,
    settings: Settings,
    machine: Machine,
    keeps_journal: bool,
) -> Result<Run, UnknownModule> {
    let program = record(bound, options, machine)?;
    Ok(program.run_keeping(settings, SimulatedDriver::in_process(u64::MAX), keeps_journal))
}

/// What a run asks of the allocator: simulates steps until one leaves everything as the one before it did.
///
/// # Errors
/// The model has no module that is to be checkpointed.
pub fn record(bound: &Bound<'_>, options: &Loop, machine: Machine) -> Result<Program, UnknownModule> {
    match record_steps(bound, options, machine, Steps::Told)? {
        Some(program) => Ok(program),
        None => Ok(record_steps(bound, options, machine, Steps::Repeated)?.unwrap_or_default()),
    }
}

/// What is asked for up to the end of the first forward pass.
///
/// # Errors
/// The model has no module that is to be checkpointed.
pub fn record_forward(bound: &Bound<'_>, options: &Loop, machine: Machine) -> Result<Program, UnknownModule> {
    let passes = passes(bound, options)?;
    let mut script = Script::build(&passes, options, context(bound, options, machine));
    script.forward();
    script.end(Phase::Forward, Some(0), Some(0));
    Ok(script.finish(None))
}

/// The same with every step simulated, which proves that [`record`] is right to stop.
///
/// # Errors
/// The model has no module that is to be checkpointed.
pub fn record_every_step(bound: &Bound<'_>, options: &Loop, machine: Machine) -> Result<Program, UnknownModule> {
    Ok(record_steps(bound, options, machine, Steps::Simulated)?.unwrap_or_default())
}

/// Which steps are simulated.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Steps {
    /// All.
    Simulated,
    /// Those up to the first that leaves everything as the one before it did.
    Repeated,
    /// The first, and of the second what cannot be told from it.
    Told,
}

/// The passes of a loop, with what it checkpoints.
fn passes<'a>(bound: &'a Bound<'a>, options: &Loop) -> Result<Passes<'a>, UnknownModule> {
    let choice = if bound.variant.mode == Mode::Train { &options.checkpoint } else { &Choice::Nothing };
    Ok(Passes::new(bound, regions(bound, choice)?, options.scenario))
}

/// A machine on which nothing has run yet.
fn context(bound: &Bound<'_>, options: &Loop, machine: Machine) -> Context {
    let memory = Rc::new(RefCell::new(Memory::with_capacity(REQUESTS_A_STEP * bound.steps.len())));
    let mut context = Context::new(memory, machine);
    context.set_plans(Plans { are_benchmarked: options.is_cudnn_benchmarked, assumption: options.scenario });
    context
}

/// `None` where a second step that was to be told from the first turns out to be another.
fn record_steps(
    bound: &Bound<'_>,
    options: &Loop,
    machine: Machine,
    steps: Steps,
) -> Result<Option<Program>, UnknownModule> {
    let passes = passes(bound, options)?;
    let mut script = Script::build(&passes, options, context(bound, options, machine));
    script.copies_micro_batches = steps != Steps::Simulated;
    let mut before: Option<State> = None;
    let mut repeat = None;
    for step in 0..options.steps {
        let start = script.position();
        let counts = (steps == Steps::Told && step == 0).then(|| Counts::of(&script));
        match bound.variant.mode {
            Mode::Train => script.train(step),
            Mode::Eval | Mode::EvalGrad => script.evaluate(step),
        }
        let left = options.steps - step - 1;
        if let Some(counts) = counts
            && can_be_told(&script)
            && let Some(left) = State::places(&script)
        {
            let told = tell(&mut script, &First { start, counts, left });
            return Ok(told.map(|repeat| script.finish(repeat)));
        }
        let after = if steps != Steps::Simulated && left > 0 { State::of(&script) } else { None };
        if let (Some(before), Some(after)) = (&before, &after)
            && before.is_like(after)
            && script.steps_alike(step, options.steps)
        {
            let (before, after, next_id) = (before.ids().to_vec(), after.ids().to_vec(), script.position().id);
            repeat = Some(Repeat { count: left, start, next_id, before, after });
            break;
        }
        before = after;
    }
    Ok(Some(script.finish(repeat)))
}

/// Simulates one step on a GPU without end, and tells what it went through.
///
/// # Errors
/// The model has no module that is to be checkpointed.
pub fn visit(bound: &Bound<'_>, options: &Loop, machine: Machine) -> Result<Visits, UnknownModule> {
    let passes = passes(bound, options)?;
    let mut context = context(bound, options, machine);
    context.visits = Some(Box::default());
    let mut script = Script::build(&passes, options, context);
    script.forward();
    if bound.variant.mode == Mode::Train {
        script.backward();
    }
    Ok(script.context.visits.take().map_or_else(Visits::default, |visits| *visits))
}

/// The script's variables.
pub(super) struct Script<'a> {
    pub bound: &'a Bound<'a>,
    pub options: &'a Loop,
    passes: &'a Passes<'a>,
    pub context: Context,
    pub marks: Vec<Mark>,
    pub tensors: Tensors,
    pub parameters: Vec<Parameter>,
    pub optimizer: Option<Optimizer>,
    pub scaler: Option<GradScaler>,
    pub held: Held,
    /// The target of an added loss.
    pub classes: Option<Tensor>,
    missing: Missing,
    /// Where the names are bound in the first forward pass.
    pub rebindings: Vec<Rebinding>,
    /// Where the optimizer's last step began.
    pub step_start: Position,
    /// Micro-batches that do again what the one before did.
    pub rounds: Vec<Round>,
    /// Whether micro-batches that would do the same again are copied.
    copies_micro_batches: bool,
}

impl<'a> Script<'a> {
    fn build(passes: &'a Passes<'a>, options: &'a Loop, mut context: Context) -> Script<'a> {
        let bound = passes.bound;
        let mut tensors: Tensors = vec![None; bound.tensors.len()];
        context.memory().borrow_mut().set_place(NOWHERE);
        let parameters = move_model(bound, &mut context, &mut tensors);
        if !options.has_fresh_inputs {
            move_inputs(bound, &mut context, &mut tensors, &bound.model.inputs);
            move_inputs(bound, &mut context, &mut tensors, &bound.model.targets);
        }
        let is_training = bound.variant.mode == Mode::Train;
        let optimizer = is_training.then(|| Optimizer::new(&mut context, options.optimizer, &parameters));
        let needs_scaler = is_training && bound.variant.precision == Precision::Autocast(Dtype::Float16);
        let scaler = needs_scaler.then(GradScaler::default);
        let mut script = Script {
            bound,
            options,
            passes,
            context,
            marks: Vec::new(),
            tensors,
            parameters,
            optimizer,
            scaler,
            held: Held::default(),
            classes: None,
            missing: Missing::new(),
            rebindings: Vec::new(),
            step_start: Position::default(),
            rounds: Vec::new(),
            copies_micro_batches: true,
        };
        script.end(Phase::Build, None, None);
        script
    }

    /// A phase ends.
    pub(super) fn end(&mut self, phase: Phase, step: Option<u32>, micro: Option<u32>) {
        let end = self.context.memory().borrow().journal().len();
        self.marks.push(Mark { phase, step, micro, end });
    }

    pub(super) fn position(&self) -> Position {
        let memory = self.context.memory().borrow();
        Position {
            entry: memory.journal().len(),
            aside: memory.asides().len(),
            mark: self.marks.len(),
            id: memory.next_id(),
        }
    }

    /// Whether the optimizer does in each step up to the last what it did in this one.
    pub(super) fn steps_alike(&self, step: u32, steps: u32) -> bool {
        self.optimizer.as_ref().is_none_or(|optimizer| optimizer.steps_alike(step + 1, steps))
    }

    /// Memory that is made in the first step and stays, beside what a [`State`] counts as lasting.
    pub(super) fn lasting_scalars(&self) -> impl Iterator<Item = u32> {
        let scaler = self.scaler.iter().flat_map(GradScaler::kept).flatten();
        scaler.chain(&self.classes).filter_map(|tensor| tensor.storage()?.id())
    }

    fn finish(self, repeat: Option<Repeat>) -> Program {
        let next_id = self.context.memory().borrow().next_id();
        let (entries, asides) = self.context.memory().borrow_mut().close();
        let libraries = self.context.libraries();
        let guessed = self.context.guessed().clone();
        let plans = self.context.plan_table();
        Program {
            entries: Arc::new(entries),
            next_id,
            asides,
            marks: self.marks,
            repeat,
            rounds: self.rounds,
            missing: self.missing,
            guessed,
            libraries,
            plans,
            assumption: None,
        }
    }

    fn train(&mut self, step: u32) {
        if self.options.zero_grad == ZeroGrad::BeforeForward {
            zero_grad(&self.parameters, self.options.sets_to_none);
        }
        let mut series = Series::new(self.options.accumulate.max(1), self.copies_micro_batches);
        while let Some(micro) = series.next() {
            series.begin(self);
            self.forward();
            self.end(Phase::Forward, Some(step), Some(micro));
            if self.options.lets_go {
                self.held.let_go(Name::Outputs);
            }
            if self.options.zero_grad == ZeroGrad::BeforeBackward && micro == 0 {
                zero_grad(&self.parameters, self.options.sets_to_none);
            }
            self.backward();
            if self.options.lets_go {
                self.held.let_go(Name::Loss);
            }
            self.end(Phase::Backward, Some(step), Some(micro));
            series.end(self);
        }
        self.step_start = self.position();
        self.step();
        self.end(Phase::Step, Some(step), None);
    }

    fn evaluate(&mut self, step: u32) {
        self.forward();
        self.end(Phase::Eval, Some(step), None);
    }

    fn forward(&mut self) {
        let Script { bound, options, passes, context, tensors, held, classes, rebindings, .. } = self;
        let is_first = rebindings.is_empty();
        let mut rebound = |context: &Context, name| {
            if is_first {
                let memory = context.memory().borrow();
                rebindings.push(Rebinding { name, entry: memory.journal().len(), aside: memory.asides().len() });
            }
        };
        let mut uncovered = Missing::new();
        context.set_thread(Thread::Main);
        context.set_grad(bound.variant.has_grad);
        context.memory().borrow_mut().set_place(NOWHERE);
        if options.has_fresh_inputs {
            move_inputs(bound, context, tensors, &bound.model.inputs);
            move_inputs(bound, context, tensors, &bound.model.targets);
        }
        let divides = bound.variant.mode == Mode::Train && options.accumulate > 1;
        let mut forward = Forward::new(passes, tensors);
        forward.run(context, |context, tensors, instant| match instant {
            Instant::ModelReturned => {
                held.bind_outputs(bound, tensors);
                rebound(context, Name::Outputs);
            }
            Instant::LossMade => {
                // The script gives the loss no other name: undivided, only the model's outputs may still hold it.
                let whole = match bound.variant.loss {
                    Some(id) => tensors[id.0 as usize].take(),
                    None => {
                        context.memory().borrow_mut().set_place(ADDED_LOSS);
                        let returned = bound.variant.outputs.iter().filter_map(|id| tensors[id.0 as usize].as_ref());
                        added_loss(context, options.loss, returned, classes).unwrap_or_else(|name| {
                            uncovered.entry(name.to_owned()).or_default().push(NOWHERE);
                            None
                        })
                    }
                };
                match whole {
                    Some(whole) if divides => {
                        let divided = scaled(context, &whole, Scaled::ByNumber);
                        drop(whole);
                        held.bind_loss(Some(divided));
                    }
                    whole => held.bind_loss(whole),
                }
                rebound(context, Name::Loss);
            }
        });
        uncovered.append(&mut forward.missing);
        held.keep(bound, &forward.tensors);
        rebound(context, Name::Kept);
        drop(forward);
        self.missing = uncovered;
    }

    fn backward(&mut self) {
        let Some(loss) = self.held.loss().cloned() else { return };
        let context = &mut self.context;
        context.set_grad(true);
        context.memory().borrow_mut().set_place(NOWHERE);
        // The scaled loss is no name of the script's: it lives as long as the call of `backward`.
        let loss = match &mut self.scaler {
            Some(scaler) => {
                let scale = scaler.scale(context);
                context.memory().borrow_mut().set_category(Category::Temporary);
                scaled(context, &loss, Scaled::ByTensor(scale))
            }
            None => loss,
        };
        let Some(edge) = loss.edge().cloned() else { return };
        context.memory().borrow_mut().set_category(Category::Temporary);
        let gradient = context.empty(loss.shared_layout());
        context.set_thread(Thread::Backward);
        let (passes, tensors) = (self.passes, &self.tensors);
        engine::run_recomputing(context, &edge, gradient.clone(), &|context, frame| {
            Forward::new(passes, tensors).run_again(context, frame);
        });
        context.set_thread(Thread::Main);
        drop(gradient);
        drop(edge);
        drop(loss);
    }

    pub(super) fn step(&mut self) {
        let Script { context, parameters, optimizer: Some(optimizer), scaler, options, .. } = self else { return };
        context.memory().borrow_mut().set_place(NOWHERE);
        if options.clips_gradients {
            if let Some(scaler) = scaler {
                scaler.unscale(context, parameters);
            }
            clip_grad_norm(context, parameters);
        }
        match scaler {
            Some(scaler) => {
                scaler.step(context, optimizer, parameters);
                scaler.update();
            }
            None => optimizer.step(context, parameters),
        }
    }
}

/// A scalar times another, or divided by a number: the gradient is again a new scalar.
#[derive(Debug)]
enum Scaled {
    ByNumber,
    ByTensor(Tensor),
}

impl Backward for Scaled {
    fn apply(&self, context: &mut Context, _node: &Node, gradients: &mut Gradients) -> Gradients {
        smallvec![gradients[0].as_ref().map(|gradient| context.empty(gradient.shared_layout()))]
    }
}

fn scaled(context: &mut Context, loss: &Tensor, how: Scaled) -> Tensor {
    let dtype = match &how {
        Scaled::ByTensor(scale) if loss.dtype().bytes() < scale.dtype().bytes() => scale.dtype(),
        _ => loss.dtype(),
    };
    let result = context.empty(loss.layout().with_dtype(dtype));
    let edge = context.record(&[Some(loss)], 1, |_| smallvec![], how);
    result.with_edge(edge)
}
