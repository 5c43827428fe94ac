//! The simulated process: runs a script's actions and writes what they allocate and free to the journal.

mod added_loss;
mod average;
mod hooks;
pub(crate) mod moves;
mod names;
mod quantized;
mod ranks;
mod recorded;
mod scaled_loss;

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use vramfit_cudnn::Scenario;
use vramfit_eager::autograd::{Context, Tensor, Thread, Visits, engine};
use vramfit_eager::forward::{Forward, Instant, Missing, Passes, UnknownModule, frozen_weights, regions_keeping};
use vramfit_eager::machine::Machine;
use vramfit_eager::memory::{ADDED_LOSS, Category, Memory, OUTSIDE_MODEL};

use crate::optimizer::clip::clip_grad_norm;
use crate::optimizer::scaler::GradScaler;
use crate::optimizer::{Group, Optimizer, Parameter};
use crate::program::{Mark, MicroBatchRun, Position, Program, Repeat};
use crate::report::Phase;
use crate::script::{Action, Name, Parallel, Pass, Script};
use added_loss::added_loss;
use average::AveragedModel;
use hooks::Hooks;
use moves::{Tensors, move_inputs, move_model, share_model};
use names::Names;
pub use ranks::Traffic;
use ranks::{Rank, Replica, shard};
use scaled_loss::{Scaling, scaled};

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

/// A captured pass with the tensors that the script holds for it.
pub(crate) struct LivePass<'s> {
    shared: Passes<'s>,
    /// Weights, inputs and targets, by id.
    pub tensors: Tensors,
    pub names: Names,
    /// The target of an added loss.
    pub classes: Option<Tensor>,
    /// Whether inputs are copied to the GPU within each step.
    pub has_fresh_inputs: bool,
    has_run: bool,
    missing: Missing,
}

/// Where a pass binds a name for the first time: a later step frees there what the name held.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rebinding {
    pub pass: usize,
    pub name: Name,
    /// How many requests came before it.
    pub entry: usize,
    /// How many side events came before it.
    pub side_event: usize,
}

/// What every run of a pass shares.
pub(crate) fn shared<'s>(pass: &Pass<'s>, scenario: Scenario) -> Result<Passes<'s>, UnknownModule> {
    let regions = regions_keeping(pass.bound, &pass.checkpoint, pass.kept_results)?;
    let frozen = frozen_weights(pass.bound, &pass.frozen)?;
    if let Parallel::Sharded(settings) = &pass.parallel {
        ranks::sharded_modules(pass.bound, settings)?;
    }
    Passes::new(pass.bound, regions, scenario).with_frozen(frozen).with_loss_head(pass.loss_head)
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
            Action::SetReduces { model, reduces } => {
                if let Some(rank) = &mut self.ranks[model] {
                    rank.set_reduces(reduces);
                }
            }
            Action::MoveInputs { pass, micro_batches } => self.move_inputs(pass, micro_batches),
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
            cudnn_sources: self.context.cudnn_sources(),
            libraries: self.context.libraries(),
            plans: self.context.plan_table(),
            assumption: None,
            later_steps: 0,
            continued: None,
            answers_steady_state: true,
        }
    }

    fn move_model(&mut self, model: usize) {
        let mut first: Option<usize> = None;
        for (index, pass) in self.script.passes.iter().enumerate().filter(|(_, pass)| pass.model == model) {
            match first {
                None => {
                    let LivePass { shared, tensors, .. } = &mut self.passes[index];
                    let (frozen, table) = (shared.frozen(), &mut self.quantization_table);
                    self.parameters[model] = move_model(pass.bound, &mut self.context, tensors, frozen, table);
                    let weights = pass.bound.model.parameters.iter().enumerate();
                    let trained = weights.filter(|(_, weight)| !frozen.contains(&weight.tensor));
                    self.numbers[model] = trained.map(|(number, _)| number).collect();
                    first = Some(index);
                }
                Some(first) => {
                    let (before, after) = self.passes.split_at_mut(index);
                    share_model(pass.bound, &mut self.context, &before[first].tensors, &mut after[0].tensors);
                }
            }
        }
    }

    /// The pass that brings a model's weights.
    fn first_pass(&self, model: usize) -> Option<usize> {
        self.script.passes.iter().position(|pass| pass.model == model)
    }

    fn replicate(&mut self, model: usize) {
        let Some(index) = self.first_pass(model) else { return };
        let pass = &self.script.passes[index];
        let Parallel::Replicated(settings) = &pass.parallel else { return };
        let count = pass.bound.model.parameters.len();
        let states = &self.passes[index].tensors[..count + pass.bound.model.buffers.len()];
        let buffers = states[count..].iter().flatten().cloned().collect();
        let states: Vec<Tensor> = states.iter().flatten().cloned().collect();
        let replica = Replica::new(&mut self.context, settings.clone(), &states, buffers, &self.parameters[model]);
        self.context.communicators = 1;
        self.ranks[model] = Some(Rank::Replica(replica));
    }

    fn shard(&mut self, model: usize) {
        let Some(index) = self.first_pass(model) else { return };
        let pass = &self.script.passes[index];
        let Parallel::Sharded(settings) = &pass.parallel else { return };
        let LivePass { shared, tensors, .. } = &mut self.passes[index];
        let frozen = shared.frozen();
        let (parameters, shards) = shard(pass.bound, &mut self.context, tensors, frozen, settings);
        let weights = pass.bound.model.parameters.iter().enumerate();
        self.numbers[model] =
            weights.filter(|(_, weight)| !frozen.contains(&weight.tensor)).map(|(number, _)| number).collect();
        self.parameters[model] = parameters;
        self.context.communicators = if settings.copies > 1 { 2 } else { 1 };
        self.ranks[model] = Some(Rank::Shards(Rc::new(shards)));
    }

    fn move_inputs(&mut self, pass: usize, micro_batches: u32) {
        let Pass { bound, parallel, .. } = &self.script.passes[pass];
        let cast_to = match parallel {
            Parallel::Sharded(settings) => settings.param_dtype,
            _ => None,
        };
        let tensors = &mut self.passes[pass].tensors;
        for inputs in [&bound.model.inputs, &bound.model.targets] {
            move_inputs(bound, &mut self.context, tensors, inputs, micro_batches, cast_to);
        }
    }

    fn forward(&mut self, index: usize, divides_loss: bool) {
        let Process { script, context, passes, rebindings, ranks, .. } = self;
        let bound = script.passes[index].bound;
        let rank = &mut ranks[script.passes[index].model];
        let kind = script.passes[index].loss;
        let LivePass { shared, tensors, names, classes, has_run, missing, .. } = &mut passes[index];
        let is_first = !std::mem::replace(has_run, true);
        let mut note_binding = |context: &Context, name| {
            if is_first {
                let memory = context.memory().borrow();
                let (entry, side_event) = (memory.journal().len(), memory.side_events().len());
                rebindings.push(Rebinding { pass: index, name, entry, side_event });
            }
        };
        let mut uncovered = Missing::new();
        context.set_thread(Thread::Main);
        context.set_grad(bound.variant.has_grad);
        context.offload.set(script.passes[index].offload);
        if let Some(rank) = rank.as_mut() {
            rank.before_forward(context);
        }
        let mut forward = Forward::new(shared, tensors);
        if let Some(Rank::Shards(shards)) = rank {
            forward.hooks = Some(Rc::<ranks::Shards>::clone(shards));
        }
        forward.run(context, |context, tensors, instant| match instant {
            Instant::ModelReturned => {
                names.bind_outputs(bound, tensors);
                note_binding(context, Name::Outputs);
            }
            Instant::LossMade => {
                // The script gives the loss no other name: undivided, only the model's outputs may still hold it.
                let whole = match bound.variant.loss {
                    Some(id) => tensors[id.0 as usize].take(),
                    None => {
                        context.memory().borrow_mut().set_origin(ADDED_LOSS);
                        let returned = bound.variant.outputs.iter().filter_map(|id| tensors[id.0 as usize].as_ref());
                        added_loss(context, kind, returned, classes).unwrap_or_else(|name| {
                            uncovered.entry(name.to_owned()).or_default().push(OUTSIDE_MODEL);
                            None
                        })
                    }
                };
                match whole {
                    Some(whole) if divides_loss => {
                        let divided = scaled(context, &whole, Scaling::ByNumber);
                        drop(whole);
                        names.bind_loss(Some(divided));
                    }
                    whole => names.bind_loss(whole),
                }
                note_binding(context, Name::Loss);
            }
        });
        context.offload.set(None);
        uncovered.append(&mut forward.missing);
        names.bind_kept(bound, &forward.tensors);
        note_binding(context, Name::Kept);
        drop(forward);
        *missing = uncovered;
    }

    fn backward(&mut self, index: usize, scaler: Option<usize>) {
        let Process { script, context, passes, parameters, optimizers, hooks, scalers, ranks, .. } = self;
        let model = script.passes[index].model;
        let LivePass { shared, tensors, names, missing, .. } = &mut passes[index];
        let Some(loss) = names.loss().cloned() else { return };
        context.set_grad(true);
        // The scaled loss has no name in the script: it lives as long as the call of `backward`.
        let loss = match scaler {
            Some(scaler) => {
                let scale = scalers[scaler].scale(context);
                context.memory().borrow_mut().set_category(Category::Temporary);
                scaled(context, &loss, Scaling::ByTensor(scale))
            }
            None => loss,
        };
        let Some(edge) = loss.edge().cloned() else { return };
        context.memory().borrow_mut().set_category(Category::Temporary);
        let gradient = context.empty(loss.shared_layout());
        context.set_thread(Thread::Backward);
        let hooked = hooks::Hooked::install(context, &hooks[model], &mut parameters[model], optimizers);
        if let Some(Rank::Replica(replica)) = &ranks[model] {
            context.gradient_hook = replica.hook();
        }
        engine::run_recomputing(context, &edge, gradient.clone(), &|context, frame| {
            Forward::new(shared, tensors).run_again(context, frame);
        });
        if let Some(rank) = &ranks[model] {
            rank.after_backward(context);
            context.gradient_hook = None;
        }
        if let Some(hooked) = hooked {
            (parameters[model], *optimizers) = hooked.remove(context);
        }
        context.set_thread(Thread::Main);
        for (operator, mut steps) in context.take_unmodelled() {
            missing.entry(operator).or_default().append(&mut steps);
        }
        drop(gradient);
        drop(edge);
        drop(loss);
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
        let Process { script, context, parameters, optimizers, scalers, .. } = self;
        let Some(optimizer) = &mut optimizers[index] else { return };
        let parameters = &parameters[script.optimizers[index].model];
        match scaler {
            Some(scaler) => scalers[scaler].step(context, index, optimizer, parameters),
            None => optimizer.step(context, parameters),
        }
    }
}
