//! The forward pass: runs the steps of a captured pass.

mod found_results;
mod frozen;
mod function;
mod kept_types;
mod loss_head;
mod module_choice;
mod module_hooks;
mod passes;
mod recomputation;
mod reentrant;
mod region;
mod replay;
mod run_call;
mod script;
mod unknown;
mod written;

use std::collections::{BTreeMap, BTreeSet};
use std::rc::{Rc, Weak};

use vramfit_graph::bind::{Bound, BoundCall, BoundStep};
use vramfit_graph::dtype::Dtype;
use vramfit_graph::model::{Origin, TensorId};

use crate::autograd::{Body, Context, Frame, Node, Tensor};
use crate::memory::Category;
use crate::operators::{Call, Effect, HidesBase, copied_to_host, is_view_of_product, made_leaf};

pub use crate::autograd::Missing;
pub use crate::operators::LossHead;
pub use frozen::{chooses, frozen_weights};
use function::OpenFunction;
pub use module_choice::{Choice, UnknownModule, chosen_modules};
pub use module_hooks::ModuleHooks;
pub use passes::Passes;
use recomputation::held;
use reentrant::OpenCheckpoint;
pub use region::{Region, block_names, is_transformers_model, module_names, regions, regions_keeping, updates_cache};
use run_call::{Outcome, on_host, returns_arguments, run_call};
pub use script::PhaseEnd;
pub use unknown::SCRATCH;
use written::{WrittenBases, is_same_edge};

/// A running forward pass.
pub struct Forward<'a> {
    passes: &'a Passes<'a>,
    bound: &'a Bound<'a>,
    /// The open custom functions.
    functions: Vec<OpenFunction<'a>>,
    /// The open checkpoints; `None` for one that is not reentrant.
    checkpoints: Vec<Option<OpenCheckpoint>>,
    /// Of each open autocast region: what autocast cast to before it.
    autocasts: Vec<Option<Dtype>>,
    /// The tensors that Python holds, by id.
    pub tensors: Vec<Option<Tensor>>,
    /// Operators without a rule that the pass has called.
    pub missing: Missing,
    /// The bases that were written into while they had views.
    written_bases: WrittenBases,
    /// The nodes of results that Python drops while formulas still use what is behind them.
    dropped_nodes: BTreeMap<TensorId, Weak<Node>>,
    /// The results that are views of memory that has no other name.
    hidden_views: BTreeSet<TensorId>,
    /// Where the phases of a recorded script ended.
    pub phase_ends: Vec<PhaseEnd>,
    /// Hooks on the model's modules.
    pub hooks: Option<Rc<dyn ModuleHooks>>,
}

/// An event within the pass at which the script binds a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Instant {
    /// The model has returned.
    ModelReturned,
    /// The loss is computed; the script's autocast region has not ended yet.
    LossMade,
}

impl<'a> Forward<'a> {
    /// A pass that begins with the tensors in `before`: weights, inputs, targets.
    pub fn new(passes: &'a Passes<'a>, before: &[Option<Tensor>]) -> Forward<'a> {
        let mut tensors = before.to_vec();
        tensors.resize(passes.bound.tensors.len(), None);
        Forward {
            passes,
            bound: passes.bound,
            functions: Vec::new(),
            checkpoints: Vec::new(),
            autocasts: Vec::new(),
            tensors,
            missing: Missing::new(),
            written_bases: WrittenBases::default(),
            dropped_nodes: BTreeMap::new(),
            hidden_views: BTreeSet::new(),
            phase_ends: Vec::new(),
            hooks: None,
        }
    }

    /// Runs the pass; calls `observe` at each [`Instant`] with the tensors that Python then holds.
    pub fn run(
        &mut self,
        context: &mut Context,
        mut observe: impl FnMut(&mut Context, &mut [Option<Tensor>], Instant),
    ) {
        context.memory().borrow_mut().set_category(Category::Activations);
        let loss_made = self.loss_made_at();
        let steps = &self.bound.steps;
        let mut regions = self.passes.regions.iter().peekable();
        let mut late = self.passes.late.iter().peekable();
        let mut open: Option<(&Region, Vec<(TensorId, Tensor)>)> = None;
        for (index, step) in steps.iter().enumerate() {
            while let Some(late) = late.next_if(|late| late.until <= index) {
                self.release(late.tensor);
            }
            while regions.next_if(|region| region.first < index).is_some() {}
            if let Some(region) = regions.next_if(|region| region.first == index && context.is_grad_on()) {
                let inputs = self.inputs_of(region);
                if region.is_checkpointed {
                    let inputs = inputs.into_iter().map(|(id, tensor)| (id, held(context, tensor))).collect();
                    let body = Body::Steps(region.first, region.last);
                    context.checkpointing.begin(Frame::new(body, inputs, region.keeps));
                    open = Some((region, Vec::new()));
                } else {
                    open = Some((region, inputs));
                }
            }
            if index == loss_made {
                observe(context, &mut self.tensors, Instant::LossMade);
            }
            if !self.replaces_step(context, index) {
                self.step(context, index, step);
            }
            self.call_hooks(context, step);
            if let (BoundStep::Exit(_, results), true) = (step, self.passes.made_leaves.contains(&index)) {
                self.require_grad(context, results);
            }
            if open.as_ref().is_some_and(|(region, _)| region.last == index) {
                let memory = Rc::clone(context.memory());
                context.checkpointing.end(&memory);
                if let Some((region, _)) = open.take().filter(|(region, _)| region.turns_cache_off) {
                    self.drop_cache(region);
                }
            }
            if matches!(step, BoundStep::Exit(0, _)) {
                observe(context, &mut self.tensors, Instant::ModelReturned);
            }
        }
        if loss_made == steps.len() {
            observe(context, &mut self.tensors, Instant::LossMade);
        }
    }

    pub(super) fn call_hooks(&mut self, context: &mut Context, step: &BoundStep<'_>) {
        let Some(hooks) = self.hooks.clone() else { return };
        match step {
            BoundStep::Enter(module, given) => hooks.entered(context, *module, given, &mut self.tensors),
            BoundStep::Exit(module, results) => hooks.left(context, *module, results, &mut self.tensors),
            _ => {}
        }
    }

    /// `requires_grad_()` on a module's results.
    fn require_grad(&mut self, context: &Context, results: &[TensorId]) {
        for TensorId(id) in results {
            if let Some(tensor) =
                self.tensors[*id as usize].take_if(|tensor| context.is_grad_on() && !tensor.requires_grad())
            {
                self.tensors[*id as usize] = Some(made_leaf(&tensor));
            }
        }
    }

    /// The step before which the script binds the loss: after the model and the loss function, within the outermost
    /// autocast region if there is one.
    fn loss_made_at(&self) -> usize {
        let steps = &self.bound.steps;
        let last = steps.iter().rposition(|step| matches!(step, BoundStep::EndLoss | BoundStep::Exit(0, _)));
        last.map_or(steps.len(), |last| last + 1)
    }

    fn step(&mut self, context: &mut Context, index: usize, step: &BoundStep<'a>) {
        match step {
            BoundStep::Call(call) => {
                context.memory().borrow_mut().set_origin(index as u32);
                if let Some(visits) = &mut context.visits {
                    visits.note_call(index as u32);
                }
                if context.checkpointing.is_on() {
                    let memory = Rc::clone(context.memory());
                    context.checkpointing.begin_call(index as u32, &memory);
                }
                let has_frozen = !self.passes.frozen_casts.is_empty();
                if has_frozen {
                    self.cast_frozen(context, call);
                    context.memory().borrow_mut().set_origin(index as u32);
                }
                if context.offload.target().is_some() && context.is_grad_on() && !context.checkpointing.is_on() {
                    self.list_copies(context, call);
                }
                self.call(context, index, call);
                context.offload.end_call();
                if has_frozen {
                    self.drop_frozen_casts(call);
                }
            }
            BoundStep::Free(tensors) => {
                for tensor in tensors.iter().filter(|tensor| !self.passes.is_late.contains(*tensor)) {
                    if self.passes.finds_results_of.contains(tensor) {
                        self.remember_node(*tensor);
                    }
                    if !self.is_saved_later(*tensor) {
                        self.release(*tensor);
                    }
                }
            }
            BoundStep::Enter(..) if self.bound.model.origin == Origin::Script => {
                context.memory().borrow_mut().set_category(Category::Activations);
            }
            BoundStep::Grad(is_on) => context.set_grad(*is_on),
            BoundStep::Autocast { is_gpu, dtype, is_enabled, .. } => {
                self.autocasts.push(context.autocast());
                if *is_gpu {
                    context.set_autocast(dtype.filter(|_| *is_enabled));
                }
            }
            BoundStep::EndAutocast => {
                if let Some(before) = self.autocasts.pop() {
                    context.set_autocast(before);
                }
            }
            BoundStep::Function { name, arguments } => self.begin_function(context, index, (*name, *arguments)),
            BoundStep::EndFunction { results, saved } => self.end_function(context, index, results, saved),
            BoundStep::Checkpoint { is_reentrant, .. } => {
                let open = is_reentrant.then(|| self.begin_reentrant(context, index));
                self.checkpoints.push(open);
            }
            BoundStep::EndCheckpoint(results) => {
                if let Some(Some(open)) = self.checkpoints.pop() {
                    self.end_reentrant(context, index, open, results);
                }
            }
            _ => {}
        }
    }

    /// Runs a call muted, to list what its functions copy to the host before they run.
    fn list_copies(&self, context: &mut Context, call: &BoundCall<'_>) {
        let facts = self.passes.facts(call);
        let is_on_host = |id: &TensorId| self.bound.tensor(*id).is_on_host;
        if returns_arguments(call, facts) || call.results.iter().flatten().any(is_on_host) {
            return;
        }
        let memory = Rc::clone(context.memory());
        let visits = context.visits.take();
        memory.borrow_mut().set_muted(true);
        context.offload.begin_listing();
        let name = self.bound.operator_name(call);
        drop(run_call(context, (name, facts), &self.view_of(call), self.passes.scenario));
        memory.borrow_mut().set_muted(false);
        context.visits = visits;
        context.offload.begin_call(&memory);
    }

    /// A call as a rule sees it.
    fn view_of<'c>(&'c self, call: &'c BoundCall<'_>) -> Call<'c> {
        Call {
            arguments: &call.arguments,
            tensors: &self.tensors,
            captured: call.results.iter().map(|id| id.map(|id| self.bound.tensor(id))).collect(),
        }
    }

    fn call(&mut self, context: &mut Context, index: usize, call: &BoundCall<'_>) {
        if let Effect::Script(done) = self.passes.facts(call).effect {
            self.script_call(context, done, call);
            return;
        }
        let is_on_host = |id: &TensorId| self.bound.tensor(*id).is_on_host;
        // Lists that are written in place have no results. Their memory stays, but that of sparse tensors.
        let is_sparse = context.has_met_sparse && self.view_of(call).has_sparse();
        if !is_sparse && !call.results.is_empty() && call.results.iter().flatten().all(is_on_host) {
            if self.passes.facts(call).is_copy {
                self.copy_to_host(context, call);
            }
            self.keep_host_results(call);
            return;
        }
        let facts = self.passes.facts(call);
        if returns_arguments(call, facts) {
            return;
        }
        if let Some(kept) = self.kept_type(call)
            && self.call_on_kept_type(index, call, kept)
        {
            return;
        }
        let is_in_place = facts.effect.is_in_place();
        if self.has_written_bases() && context.is_grad_on() {
            call.each_tensor(&mut |id: TensorId| self.renew_view(context, id));
        }
        let view = self.view_of(call);
        let name = self.bound.operator_name(call);
        let Outcome { results, is_modelled } = run_call(context, (name, facts), &view, self.passes.scenario);
        let hides_base = match facts.hides_base {
            HidesBase::Never => false,
            HidesBase::Always => true,
            HidesBase::OfFlatInput => is_view_of_product(&view),
        };
        drop(view);
        if !is_modelled {
            self.missing.entry(name.to_owned()).or_default().push(index as u32);
        }
        for (id, result) in call.results.iter().zip(results) {
            if let Some(id) = id {
                let before = self.tensors[id.0 as usize].take();
                if hides_base {
                    self.hidden_views.insert(*id);
                }
                let is_into_view = is_in_place && (self.bound.tensor(*id).is_view || self.hidden_views.contains(id));
                let written =
                    before.as_ref().filter(|before| is_in_place && !is_same_edge(before.edge(), result.edge()));
                let written = written.map(|before| before.edge().cloned());
                drop(before);
                self.tensors[id.0 as usize] = Some(result);
                match written {
                    Some(edge) if is_into_view => self.write_into_base(context, *id, edge),
                    Some(_) => self.note_write(*id),
                    None => self.note_view(*id),
                }
            }
        }
    }

    fn copy_to_host(&self, context: &mut Context, call: &BoundCall<'_>) {
        let view = self.view_of(call);
        if let (Ok(source), Ok(result)) = (view.tensor(0), view.result(0)) {
            copied_to_host(context, source, &result);
        }
    }

    fn keep_host_results(&mut self, call: &BoundCall<'_>) {
        for id in call.results.iter().flatten() {
            let captured = self.bound.tensor(*id);
            let tensor = on_host(captured);
            let is_leaf = captured.is_leaf && captured.requires_grad;
            self.tensors[id.0 as usize] = Some(if is_leaf { made_leaf(&tensor) } else { tensor });
        }
    }
}
