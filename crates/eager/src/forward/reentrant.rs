//! Reentrant checkpoints: when its gradient has come, the function runs again, with a backward pass of its own.

use std::rc::Rc;

use vramfit_graph::bind::BoundStep;
use vramfit_graph::model::TensorId;

use super::Forward;
use super::region::Region;
use crate::autograd::engine::{BackwardPass, run_pass};
use crate::autograd::{Backward, Body, Context, Frame, Gradients, Held, KeptResults, Node, Saved, Tensor};
use crate::memory::Category;
use crate::operators::made_leaf;

/// What `CheckpointFunction` keeps: its tensors, and what its function uses beside them.
#[derive(Debug)]
struct Reentrant {
    body: Body,
    /// Whose tensors are saved.
    inputs: Vec<TensorId>,
}

impl Backward for Reentrant {
    fn region(&self, node: &Node) -> Option<Rc<Frame>> {
        let saved = node.saved.borrow();
        let held = self.inputs.iter().zip(saved.iter());
        let held = held.filter_map(|(id, tensor)| Some((*id, Held::Tensor(tensor.clone()?)))).collect();
        Some(Frame::new(self.body, held, KeptResults::NONE))
    }

    fn apply(&self, _context: &mut Context, _node: &Node, _gradients: &mut Gradients) -> Gradients {
        Gradients::new()
    }

    fn saves_afterwards(&self) -> bool {
        true
    }
}

/// A reentrant checkpoint whose function runs without a graph.
pub(super) struct OpenCheckpoint {
    begin: usize,
    inputs: Vec<(TensorId, Tensor)>,
    was_grad_on: bool,
}

impl Forward<'_> {
    pub(super) fn begin_reentrant(&mut self, context: &mut Context, begin: usize) -> OpenCheckpoint {
        let was_grad_on = context.is_grad_on();
        context.set_grad(false);
        let mut inputs = match self.end_of_checkpoint(begin) {
            Some(end) if was_grad_on => self.inputs_of(&Region::checkpointed(begin + 1, end - 1)),
            _ => Vec::new(),
        };
        let arguments = self.arguments_of(begin).iter().filter(|_| was_grad_on);
        for &id in arguments {
            if let Some(tensor) = &self.tensors[id.0 as usize]
                && inputs.iter().all(|(known, _)| *known != id)
            {
                inputs.push((id, tensor.clone()));
            }
        }
        OpenCheckpoint { begin, inputs, was_grad_on }
    }

    pub(super) fn end_reentrant(
        &mut self,
        context: &mut Context,
        end: usize,
        open: OpenCheckpoint,
        results: &[TensorId],
    ) {
        context.set_grad(open.was_grad_on);
        let arguments = self.arguments_of(open.begin).iter();
        let given: Vec<Option<Tensor>> = arguments.map(|id| self.tensors[id.0 as usize].clone()).collect();
        let given: Vec<Option<&Tensor>> = given.iter().map(Option::as_ref).collect();
        let (inputs, tensors): (Vec<TensorId>, Saved) =
            open.inputs.into_iter().map(|(id, tensor)| (id, Some(tensor))).unzip();
        let backward = Reentrant { body: Body::Reentrant(open.begin, end), inputs };
        if let Some(edge) = context.record(&given, results.len(), |_| tensors, backward) {
            self.lead_to(results, &edge);
        }
    }

    fn end_of_checkpoint(&self, begin: usize) -> Option<usize> {
        let mut depth = 0_usize;
        (begin..self.bound.steps.len()).find(|&index| {
            match self.bound.steps[index] {
                BoundStep::Checkpoint { .. } => depth += 1,
                BoundStep::EndCheckpoint(_) => depth -= 1,
                _ => {}
            }
            depth == 0
        })
    }

    fn arguments_of(&self, begin: usize) -> &[TensorId] {
        match &self.bound.steps[begin] {
            BoundStep::Checkpoint { arguments, .. } => arguments,
            _ => &[],
        }
    }

    /// Runs the function again on detached arguments, then its backward pass. The frame has the gradients of its results, and
    /// gets those of its arguments.
    pub(super) fn reentrant_again(&mut self, context: &mut Context, frame: &Rc<Frame>, (begin, end): (usize, usize)) {
        let BoundStep::EndCheckpoint(results) = &self.bound.steps[end] else { return };
        let memory = Rc::clone(context.memory());
        memory.borrow_mut().set_category(Category::Activations);
        let was_grad_on = context.is_grad_on();
        context.set_grad(true);
        let before = self.tensors.clone();
        let arguments = self.arguments_of(begin).to_vec();
        for (id, held) in &frame.inputs {
            let tensor = held.tensor(&memory);
            let is_argument = arguments.contains(id);
            self.tensors[id.0 as usize] = Some(match is_argument {
                true if tensor.requires_grad() => made_leaf(&tensor.detach()),
                true => tensor.detach(),
                false => tensor,
            });
        }
        let detached: Vec<Option<Tensor>> = arguments.iter().map(|id| self.tensors[id.0 as usize].clone()).collect();
        let bound = self.bound;
        for (index, step) in bound.steps.iter().enumerate().take(end).skip(begin + 1) {
            if let BoundStep::Call(call) = step {
                self.cast_again(context, call);
            }
            self.step(context, index, step);
            self.call_hooks(context, step);
        }
        let outputs: Vec<Option<Tensor>> = results.iter().map(|id| self.tensors[id.0 as usize].take()).collect();
        let given = frame.gradients.take();
        let roots = outputs.iter().zip(&given);
        let roots =
            roots.filter_map(|(output, given)| Some((output.as_ref()?.edge()?.clone(), given.clone()?))).collect();
        memory.borrow_mut().set_category(Category::Temporary);
        let (passes, hooks) = (self.passes, self.hooks.clone());
        let pass = BackwardPass { roots, keeps_graph: false, inputs: None, only: None, retains: &[] };
        run_pass(context, pass, &|context, frame| {
            let mut inner = Forward::new(passes, &before);
            inner.hooks.clone_from(&hooks);
            inner.run_again(context, frame);
        });
        context.set_grad(was_grad_on);
        let gradient = |tensor: &Option<Tensor>| tensor.as_ref()?.leaf_gradient()?.borrow().clone();
        frame.gradients.replace(detached.iter().map(gradient).collect());
    }
}
