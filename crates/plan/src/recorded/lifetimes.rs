//! When the tensors of a recorded script are made, used and dropped.

use vramfit_eager::operators::{Effect, ScriptCall, facts};
use vramfit_graph::model::{Argument, Call, Model, Size, Step, Tensor, TensorId};

use super::lines::Lines;

/// The steps of a recording.
pub(super) struct Recorded<'m> {
    pub(super) model: &'m Model,
    pub(super) lines: Lines<'m>,
    pub(super) steps: &'m [Step],
    pub(super) tensors: &'m [Tensor],
    /// By tensor.
    pub(super) lifetimes: Vec<Lifetime>,
    /// Where optimizers have done their steps.
    pub(super) updates: Vec<usize>,
    /// Where the grad mode changes, and to what.
    grad_modes: Vec<(usize, bool)>,
}

/// When a tensor is made, used and dropped, as indices of steps.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Lifetime {
    /// The call whose result it is.
    pub(super) made: Option<usize>,
    /// The last step that names it before it is dropped.
    pub(super) last_use: usize,
    /// Where Python drops it; `None` where it is held to the end.
    pub(super) dropped: Option<usize>,
}

impl<'m> Recorded<'m> {
    /// The only variant of a recording.
    pub(super) fn new(model: &'m Model, lines: Lines<'m>) -> Option<Recorded<'m>> {
        let variant = model.variants.first()?;
        let (steps, tensors) = (&model.steps[variant.steps], &model.tensors[variant.tensors]);
        let mut recorded = Recorded {
            model,
            lines,
            steps,
            tensors,
            lifetimes: vec![Lifetime::default(); tensors.len()],
            updates: Vec::new(),
            grad_modes: Vec::new(),
        };
        for (at, step) in steps.iter().enumerate() {
            recorded.follow(at, step);
        }
        Some(recorded)
    }

    fn follow(&mut self, at: usize, step: &Step) {
        if let Step::Free(dropped) = step {
            dropped.iter().for_each(|id| self.lifetimes[id.0 as usize].dropped = Some(at));
            return;
        }
        if let Step::Grad(is_on) = step {
            self.grad_modes.push((at, *is_on));
        }
        if let Step::Call(call) = step {
            if self.script_call(call) == Some(ScriptCall::EndPhase) && is_update(call) {
                self.updates.push(at);
            }
            for id in call.results.iter().flatten() {
                self.lifetimes[id.0 as usize].made.get_or_insert(at);
            }
            // Neither needs its tensors' memory.
            if matches!(self.script_call(call), Some(ScriptCall::Categorize | ScriptCall::FindResult)) {
                return;
            }
        }
        step.each_tensor(&mut |id| self.lifetimes[id.0 as usize].last_use = at);
    }

    /// What a call does that is no operator.
    pub(super) fn script_call(&self, call: &Call) -> Option<ScriptCall> {
        match facts(self.model.operators[call.operator as usize].id).effect {
            Effect::Script(call) => Some(call),
            _ => None,
        }
    }

    pub(super) fn call(&self, at: usize) -> Option<&'m Call> {
        match self.steps.get(at) {
            Some(Step::Call(call)) => Some(call),
            _ => None,
        }
    }

    /// The statement whose call made a tensor: no optimizer's, and no gradient.
    pub(super) fn statement_of(&self, id: TensorId) -> Option<u32> {
        let call = self.call(self.lifetimes[id.0 as usize].made?)?;
        let row = call.source.filter(|row| !self.lines.is_of_library(*row) && self.script_call(call).is_none())?;
        Some(self.lines.statement(row))
    }

    /// The first step after the statement in which the step at `at` is done, seen from the function that `frame` called: where a
    /// `del` would be. `None` where nothing of another statement follows.
    pub(super) fn after_statement(&self, at: usize, frame: Option<u32>) -> Option<usize> {
        let row_at = |at: usize| Lines::of(&self.steps[at]);
        // A module's end names no line: the call before it does.
        let last = (0..=at).rev().find_map(row_at)?;
        let line = self.lines.within(frame, last);
        (at + 1..self.steps.len()).find(|at| row_at(*at).is_some_and(|row| self.lines.within(frame, row) != line))
    }

    /// Whether operators add to graphs at a step.
    pub(super) fn is_grad_on(&self, at: usize) -> bool {
        let before = self.grad_modes.partition_point(|(change, _)| *change < at);
        before.checked_sub(1).is_none_or(|last| self.grad_modes[last].1)
    }

    /// How many optimizer steps were done before a step of the recording.
    pub(super) fn updates_before(&self, at: usize) -> usize {
        self.updates.partition_point(|update| *update < at)
    }

    /// The bytes of a tensor; 0 in host memory.
    pub(super) fn bytes(&self, id: TensorId) -> u64 {
        let tensor = &self.tensors[id.0 as usize];
        if tensor.is_on_host {
            return 0;
        }
        let types = self.model.variants.first().map(|variant| &self.model.types[variant.types]);
        types.and_then(|types| types.get(tensor.r#type as usize)).map_or(0, |of| {
            let sizes = of.shape.iter().map(|size| match size {
                Size::Known(size) => size.unsigned_abs(),
                Size::Symbolic(_) => 0,
            });
            sizes.product::<u64>() * of.dtype.bytes()
        })
    }
}

/// Whether a phase's end is that of an optimizer's step.
fn is_update(call: &Call) -> bool {
    matches!(call.arguments.first(), Some(Argument::Text(phase)) if phase == "step")
}
