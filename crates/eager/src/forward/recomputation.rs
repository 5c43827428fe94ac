//! Checkpointed regions in the forward pass: what they hold, and how they run again.

use std::rc::Rc;

use smallvec::SmallVec;
use vramfit_graph::bind::{BoundCall, BoundStep};
use vramfit_graph::model::TensorId;

use super::Forward;
use super::region::{Region, updates_cache};
use crate::autograd::{Body, Context, Frame, Held, Tensor};
use crate::memory::Category;

impl Forward<'_> {
    /// The tensors a region uses that exist before it, except weights and their casts.
    pub(super) fn inputs_of(&self, region: &Region) -> Vec<(TensorId, Tensor)> {
        let given = self.bound.model.parameters.len() + self.bound.model.buffers.len();
        let mut inputs: Vec<(TensorId, Tensor)> = Vec::new();
        let mut add = |id: TensorId| {
            if id.0 as usize >= given
                && !self.passes.casts.contains_key(&id)
                && let Some(tensor) = &self.tensors[id.0 as usize]
                && inputs.iter().all(|(known, _)| *known != id)
            {
                inputs.push((id, tensor.clone()));
            }
        };
        for step in &self.bound.steps[region.first..=region.last] {
            match step {
                BoundStep::Enter(_, tensors) => tensors.iter().for_each(|&id| add(id)),
                BoundStep::Call(call) => call.each_tensor(&mut add),
                _ => {}
            }
        }
        inputs
    }

    /// Drops the keys and values that a region has put into a cache.
    pub(super) fn drop_cache(&mut self, region: &Region) {
        let steps = &self.bound.steps[region.first..=region.last];
        let results: &[TensorId] = match steps.last() {
            Some(BoundStep::Exit(_, results)) => results,
            _ => &[],
        };
        for step in steps {
            if let BoundStep::Call(call) = step
                && updates_cache(self.bound, call)
            {
                let cached = call.results.iter().flatten().filter(|id| !results.contains(id));
                cached.for_each(|id| self.tensors[id.0 as usize] = None);
            }
        }
    }

    /// Recomputes a checkpointed region, up to the last tensor that its backward pass needs.
    pub fn run_again(&mut self, context: &mut Context, frame: &Rc<Frame>) {
        if let Body::Reentrant(begin, end) = frame.body {
            self.reentrant_again(context, frame, (begin, end));
            return;
        }
        let memory = Rc::clone(context.memory());
        memory.borrow_mut().set_category(Category::Activations);
        let was_grad_on = context.is_grad_on();
        context.set_grad(true);
        // PyTorch holds the inputs until the region has been recomputed.
        let inputs: Vec<(TensorId, Tensor)> =
            frame.inputs.iter().map(|(id, held)| (*id, held.tensor(&memory))).collect();
        for (id, tensor) in &inputs {
            self.tensors[id.0 as usize] = Some(tensor.clone());
        }
        context.checkpointing.begin_again(Rc::clone(frame));
        match frame.body {
            Body::Steps(first, last) => self.steps_again(context, first, last),
            Body::ChunkOfLoss(_) => self.chunk_again(context),
            Body::Reentrant(..) => {}
        }
        if let Some(hooks) = &self.hooks {
            hooks.stopped();
        }
        context.checkpointing.end(&memory);
        context.set_grad(was_grad_on);
        memory.borrow_mut().set_category(Category::Temporary);
    }

    /// Runs the steps of a region again, up to the last tensor that its backward pass needs.
    fn steps_again(&mut self, context: &mut Context, first: usize, last: usize) {
        let steps = &self.bound.steps;
        for (index, step) in steps.iter().enumerate().take(last + 1).skip(first) {
            match step {
                BoundStep::Free(_) => self.step(context, index, step),
                _ if context.checkpointing.is_complete() => {}
                BoundStep::Call(call) => {
                    self.cast_again(context, call);
                    self.step(context, index, step);
                    if context.checkpointing.is_complete() {
                        for id in call.results.iter().flatten() {
                            self.tensors[id.0 as usize] = None;
                        }
                    }
                }
                BoundStep::EndFunction { results, .. } => {
                    self.step(context, index, step);
                    if context.checkpointing.is_complete() {
                        results.iter().for_each(|id| self.tensors[id.0 as usize] = None);
                    }
                }
                _ => {
                    self.step(context, index, step);
                    self.call_hooks(context, step);
                }
            }
        }
    }

    /// Repeats the casts of weights that a call uses: a recomputed region has its own autocast region, whose cache is
    /// empty.
    pub(super) fn cast_again(&mut self, context: &mut Context, call: &BoundCall<'_>) {
        let mut needed: SmallVec<[usize; 2]> = SmallVec::new();
        let mut add = |id: TensorId| {
            if let Some(&made) = self.passes.casts.get(&id)
                && self.tensors[id.0 as usize].is_none()
            {
                needed.push(made);
            }
        };
        call.each_tensor(&mut add);
        for made in needed {
            let steps = &self.bound.steps;
            self.step(context, made, &steps[made]);
        }
    }
}

/// What a checkpointed region holds of an input. `checkpoint` saves positional arguments for backward, and holds keyword
/// arguments. A capture does not tell them apart: those that require a gradient are taken to be positional.
pub(super) fn held(context: &Context, tensor: Tensor) -> Held {
    if tensor.requires_grad() { Held::by_position(context, &tensor) } else { Held::Tensor(tensor) }
}
