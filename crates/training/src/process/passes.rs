//! A captured pass as the script runs it: forward, and backward from its loss.

use vramfit_cudnn::Scenario;
use vramfit_eager::autograd::{Context, Tensor, Thread, engine};
use vramfit_eager::forward::{
    Forward, Instant, LossHead, Missing, Passes, UnknownModule, frozen_weights, regions_keeping,
};
use vramfit_eager::memory::{ADDED_LOSS, Category, OUTSIDE_MODEL};

use super::Process;
use super::added_loss::added_loss;
use super::hooks::Hooked;
use super::moves::Tensors;
use super::names::Names;
use super::ranks::{Rank, check_head, sharded_modules};
use super::scaled_loss::{Scaling, scaled};
use crate::script::{Name, Parallel, Pass};

/// A captured pass with the tensors that the script holds for it.
pub(crate) struct LivePass<'s> {
    pub(super) shared: Passes<'s>,
    /// Weights, inputs and targets, by id.
    pub tensors: Tensors,
    pub names: Names,
    /// The target of an added loss.
    pub classes: Option<Tensor>,
    /// Whether inputs are copied to the GPU within each step.
    pub has_fresh_inputs: bool,
    pub(super) has_run: bool,
    pub(super) missing: Missing,
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
        sharded_modules(pass.bound, settings)?;
        if pass.loss_head != LossHead::Captured {
            check_head(pass.bound, settings)?;
        }
    }
    Passes::new(pass.bound, regions, scenario).with_frozen(frozen).with_loss_head(pass.loss_head)
}

impl Process<'_> {
    pub(super) fn forward(&mut self, index: usize, divides_loss: bool) {
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
        forward.hooks = rank.as_ref().and_then(Rank::module_hooks);
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

    pub(super) fn backward(&mut self, index: usize, scaler: Option<usize>) {
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
        let engine_hook = ranks[model].as_ref().and_then(Rank::engine_hook);
        // DeepSpeed's engine divides the loss by the number of micro-batches, also by one, and multiplies it by its scale.
        let divided = engine_hook.as_ref().map(|_| {
            context.memory().borrow_mut().set_category(Category::Temporary);
            scaled(context, &loss, Scaling::ByNumber)
        });
        let loss = divided.as_ref().map_or(loss, |divided| scaled(context, divided, Scaling::ByNumber));
        let Some(edge) = loss.edge().cloned() else { return };
        context.memory().borrow_mut().set_category(Category::Temporary);
        let gradient = context.empty(loss.shared_layout());
        context.set_thread(Thread::Backward);
        let hooked = Hooked::install(context, &hooks[model], &mut parameters[model], optimizers);
        if let Some(Rank::Replica(replica)) = &ranks[model] {
            context.gradient_hook = replica.hook();
        }
        if engine_hook.is_some() {
            context.gradient_hook = engine_hook;
        }
        let again = ranks[model].as_ref().and_then(Rank::hooks_again);
        engine::run_recomputing(context, &edge, gradient.clone(), &|context, frame| {
            let mut forward = Forward::new(shared, tensors);
            forward.hooks.clone_from(&again);
            forward.run_again(context, frame);
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
        if let Some(rank) = &ranks[model] {
            rank.finish_backward(context);
        }
        drop(edge);
        drop(loss);
        drop(divided);
    }
}
