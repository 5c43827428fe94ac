//! The simulated process: runs a script's actions and writes what they allocate and free to the journal.

mod added_loss;
mod average;
mod hooks;
pub(crate) mod moves;
mod names;
mod passes;
mod placement;
mod quantized;
mod ranks;
mod recorded;
mod scaled_loss;
mod weights;

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use vramfit_cudnn::Scenario;
use vramfit_eager::autograd::{Context, Tensor, Visits};
use vramfit_eager::forward::{Missing, UnknownModule};
use vramfit_eager::machine::Machine;
use vramfit_eager::memory::{Memory, OUTSIDE_MODEL};

use crate::optimizer::clip::clip_grad_norm;
use crate::optimizer::scaler::GradScaler;
use crate::optimizer::{Group, Optimizer, Parameter};
use crate::program::{Mark, MicroBatchRun, Position, Program, Repeat};
use crate::report::Phase;
use crate::script::{Action, Script};
use average::AveragedModel;
use hooks::Hooks;
use names::Names;
pub(crate) use names::kept_by_model;
pub(crate) use passes::{LivePass, Rebinding, shared};
pub(crate) use ranks::Rank;
pub use ranks::{Traffic, sharded_modules};

/// Journal entries that are reserved for each step of a captured pass: a transformer makes as many in two training steps.
const REQUESTS_PER_STEP: usize = 6;

/// A process that runs a script.
pub(crate) struct Process<'s> {
    pub script: &'s Script<'s>,
    pub context: Context,
    pub passes: Vec<LivePass<'s>>,
    /// The weights of each model.
    pub parameters: Vec<Vec<Parameter>>,
    /// The number of each of these among the parameters of its model.
    numbers: Vec<Vec<usize>>,
    /// The optimizers that have been created.
    pub optimizers: Vec<Option<Optimizer>>,
    /// By model and number of the weight, the optimizer that updates it in the backward pass.
    hooks: Vec<Hooks>,
    pub scalers: Vec<GradScaler>,
    /// The averaged copy of each model.
    pub averages: Vec<Option<AveragedModel>>,
    /// How each model is spread over ranks.
    pub ranks: Vec<Option<Rank>>,
    /// What the library keeps that quantised the first weight.
    quantization_table: Option<Tensor>,
    pub marks: Vec<Mark>,
    /// Where each pass bound its names for the first time.
    pub rebindings: Vec<Rebinding>,
    /// Micro-batches that were copied instead of simulated.
    pub micro_batch_runs: Vec<MicroBatchRun>,
    step: Option<u32>,
    micro_batch: Option<u32>,
    next_micro_batch: u32,
}

impl<'s> Process<'s> {
    /// A process that has not run any action yet.
    pub fn new(script: &'s Script<'s>, machine: Machine) -> Result<Process<'s>, UnknownModule> {
        let steps: usize = script.passes.iter().map(|pass| pass.bound.steps.len()).sum();
        let memory = Rc::new(RefCell::new(Memory::with_capacity(REQUESTS_PER_STEP * steps)));
        let mut context = Context::new(memory, machine);
        context.set_plans(script.plans);
        let mut passes = Vec::with_capacity(script.passes.len());
        for (index, pass) in script.passes.iter().enumerate() {
            passes.push(LivePass {
                shared: shared(pass, script.plans.assumption)?,
                tensors: vec![None; pass.bound.tensors.len()],
                names: Names::default(),
                classes: None,
                has_fresh_inputs: script.has_fresh_inputs(index),
                has_run: false,
                missing: Missing::new(),
            });
        }
        Ok(Process {
            script,
            context,
            passes,
            parameters: vec![Vec::new(); script.models],
            numbers: vec![Vec::new(); script.models],
            optimizers: script.optimizers.iter().map(|_| None).collect(),
            hooks: vec![Hooks::default(); script.models],
            scalers: (0..script.scalers).map(|_| GradScaler::default()).collect(),
            averages: (0..script.models).map(|_| None).collect(),
            ranks: (0..script.models).map(|_| None).collect(),
            quantization_table: None,
            marks: Vec::new(),
            rebindings: Vec::new(),
            micro_batch_runs: Vec::new(),
            step: None,
            micro_batch: None,
            next_micro_batch: 0,
        })
    }

    /// Runs actions in order.
    pub fn run_all(&mut self, actions: &[Action]) {
        for &action in actions {
            self.run(action);
        }
    }

    /// Runs one action.
    pub fn run(&mut self, action: Action) {
        self.context.memory().borrow_mut().set_origin(OUTSIDE_MODEL);
        match action {
            Action::MoveModel { model } => self.move_model(model),
            Action::Replicate { model } => self.replicate(model),
            Action::Shard { model } => self.shard(model),
            Action::SplitLayers { model } => self.split(model),
            Action::CreateEngine { model, optimizer } => self.create_engine(model, optimizer),
            Action::SetReduces { model, reduces } => {
                if let Some(rank) = &mut self.ranks[model] {
                    rank.set_reduces(reduces);
                }
            }
            Action::MoveInputs { pass, micro_batches } => self.move_inputs(pass, micro_batches),
            Action::ShareInputs { from, to } => self.share_inputs(from, to),
            Action::CreateOptimizer { optimizer } => {
                let setup = &self.script.optimizers[optimizer];
                let groups = self.groups_of(optimizer);
                let (context, parameters) = (&mut self.context, &self.parameters[setup.model]);
                let created = match groups {
                    Some(groups) => Optimizer::with_groups(context, setup.recipe, groups, parameters),
                    None => Optimizer::new(context, setup.recipe, parameters),
                };
                self.optimizers[optimizer] = Some(created);
            }
            Action::HookOptimizer { optimizer } => self.hook(optimizer),
            Action::BeginStep => {
                self.step = Some(self.step.map_or(0, |step| step + 1));
                self.next_micro_batch = 0;
            }
            Action::BeginMicroBatch => {
                self.micro_batch = Some(self.next_micro_batch);
                self.next_micro_batch += 1;
            }
            Action::EndMicroBatch => self.micro_batch = None,
            Action::ZeroGrad { optimizer, sets_to_none } => {
                let weights = self.weights_of(optimizer);
                match &self.optimizers[optimizer] {
                    Some(_) if self.script.optimizers[optimizer].zeroes_all => {
                        weights.iter().filter(|_| sets_to_none).for_each(|weight| drop(weight.gradient.take()));
                    }
                    Some(found) => found.zero_grad(weights, sets_to_none),
                    None => {}
                }
            }
            Action::Forward { pass, divides_loss } => self.forward(pass, divides_loss),
            Action::Backward { pass, scaler } => self.backward(pass, scaler),
            Action::Release { pass, name } => self.passes[pass].names.release(name),
            Action::Unscale { scaler, optimizer } => {
                let Process { script, context, parameters, optimizers, scalers, .. } = self;
                if let Some(found) = &optimizers[optimizer] {
                    let parameters = &parameters[script.optimizers[optimizer].model];
                    scalers[scaler].unscale(context, optimizer, found, parameters);
                }
            }
            Action::ClipGradients { model } => {
                let is_sharded = matches!(self.ranks[model], Some(Rank::Shards(_)));
                clip_grad_norm(&mut self.context, &self.parameters[model], is_sharded);
            }
            Action::Update { optimizer, scaler } => self.update(optimizer, scaler),
            Action::UpdateScaler { scaler } => self.scalers[scaler].update(),
            Action::CreateAverage { model } => {
                let pass = self.script.passes.iter().position(|pass| pass.model == model);
                self.averages[model] = pass.map(|index| {
                    let bound = self.script.passes[index].bound;
                    AveragedModel::new(bound, &mut self.context, &self.passes[index].tensors)
                });
            }
            Action::UpdateAverage { model } => {
                if let Some(average) = &mut self.averages[model] {
                    average.update(&mut self.context);
                }
            }
            Action::RunRecorded { pass } => self.run_recorded(pass),
            Action::EndPhase(phase) => self.end_phase(phase, self.step, self.micro_batch),
        }
    }

    /// Marks the end of a phase.
    pub fn end_phase(&mut self, phase: Phase, step: Option<u32>, micro_batch: Option<u32>) {
        let end = self.context.memory().borrow().journal().len();
        self.marks.push(Mark { phase, step, micro: micro_batch, end });
    }

    /// How far the journal has got.
    pub fn position(&self) -> Position {
        let memory = self.context.memory().borrow();
        Position {
            entry: memory.journal().len(),
            side_event: memory.side_events().len(),
            mark: self.marks.len(),
            id: memory.next_id(),
        }
    }

    /// The weights of an optimizer's model.
    pub fn weights_of(&self, optimizer: usize) -> &[Parameter] {
        &self.parameters[self.script.optimizers[optimizer].model]
    }

    /// Whether an optimizer updates weights in the backward pass.
    pub fn is_hooked(&self, optimizer: usize) -> bool {
        self.hooks.iter().any(|hooks| hooks.has(optimizer))
    }

    /// Notes from now on which calls run.
    pub fn note_visits(&mut self) {
        self.context.visits = Some(Box::default());
    }

    /// Which calls have run since [`Process::note_visits`].
    pub fn take_visits(&mut self) -> Visits {
        self.context.visits.take().map_or_else(Visits::default, |visits| *visits)
    }

    /// Ends the process; what its tensors free then is not recorded.
    pub fn finish(self, repeat: Option<Repeat>) -> Program {
        let next_id = self.context.memory().borrow().next_id();
        let managed = self.optimizers.iter().flatten().map(Optimizer::managed_bytes).sum();
        let (entries, side_events) = self.context.memory().borrow_mut().close();
        let mut missing = Missing::new();
        for pass in &self.passes {
            for (operator, steps) in &pass.missing {
                missing.entry(operator.clone()).or_default().extend(steps);
            }
        }
        Program {
            entries: Arc::new(entries),
            next_id,
            side_events,
            marks: self.marks,
            repeat,
            micro_batch_runs: self.micro_batch_runs,
            managed,
            missing,
            guessed: self.context.guessed().clone(),
            has_assumed_rows: self.context.has_assumed_rows(),
            cudnn_sources: self.context.cudnn_sources(),
            libraries: self.context.libraries(),
            plans: self.context.plan_table(),
            assumption: None,
            later_steps: 0,
            continued: None,
            answers_steady_state: true,
        }
    }

    /// An optimizer's groups, with the positions of their weights in `parameters`; weights that are frozen are left out.
    fn groups_of(&self, optimizer: usize) -> Option<Vec<Group>> {
        let setup = &self.script.optimizers[optimizer];
        let numbers = &self.numbers[setup.model];
        let positions = |group: &Group| {
            let weights = group.weights.iter().filter_map(|number| numbers.binary_search(number).ok()).collect();
            Group { weights, ..*group }
        };
        setup.groups.as_ref().map(|groups| groups.iter().map(positions).collect())
    }

    fn hook(&mut self, index: usize) {
        let model = self.script.optimizers[index].model;
        for weight in self.groups_of(index).into_iter().flatten().flat_map(|group| group.weights) {
            self.hooks[model].set(weight, index);
        }
    }

    fn update(&mut self, index: usize, scaler: Option<usize>) {
        let Process { script, context, parameters, optimizers, scalers, ranks, .. } = self;
        let Some(optimizer) = &mut optimizers[index] else { return };
        let model = script.optimizers[index].model;
        let is_skipped = script.plans.assumption == Scenario::Lower;
        match &ranks[model] {
            Some(Rank::DeepSpeed(engine)) if is_skipped && engine.may_overflow() => return engine.skip_update(context),
            Some(Rank::DeepSpeed(engine)) => return engine.update(context, optimizer),
            Some(Rank::Partitioned(engine)) if is_skipped && engine.may_overflow() => {
                return engine.skip_update(context);
            }
            Some(Rank::Partitioned(engine)) => return engine.update(context, optimizer),
            _ => {}
        }
        let parameters = &parameters[model];
        match scaler {
            Some(scaler) => scalers[scaler].step(context, index, optimizer, parameters),
            None => optimizer.step(context, parameters),
        }
    }
}
