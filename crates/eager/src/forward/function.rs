//! Custom autograd functions in the forward pass.

use std::rc::Rc;

use vramfit_graph::bind::BoundStep;
use vramfit_graph::model::TensorId;

use super::Forward;
use super::replay::{Replay, Replayed};
use super::unknown::Unknown;
use crate::autograd::{Context, Edge, Saved, Tensor};

/// A custom function whose forward runs.
pub(super) struct OpenFunction<'a> {
    /// The step at which it began.
    begin: usize,
    name: &'a str,
    arguments: &'a [TensorId],
    /// Whether gradients were on before it.
    was_grad_on: bool,
    /// What it passes to `save_for_backward`.
    saved: &'a [TensorId],
    /// Those of `saved` that Python has dropped: the context holds them until the function returns.
    dropped: Vec<TensorId>,
}

impl<'a> Forward<'a> {
    /// A custom function begins. Its forward runs without gradients.
    pub(super) fn begin_function(
        &mut self,
        context: &mut Context,
        begin: usize,
        (name, arguments): (&'a str, &'a [TensorId]),
    ) {
        let was_grad_on = context.is_grad_on();
        let saved = if was_grad_on { self.saved_by(begin) } else { &[] };
        self.functions.push(OpenFunction { begin, name, arguments, was_grad_on, saved, dropped: Vec::new() });
        context.set_grad(false);
    }

    /// What the function that begins at this step saves.
    fn saved_by(&self, begin: usize) -> &'a [TensorId] {
        let mut depth = 0;
        for step in &self.bound.steps[begin + 1..] {
            match step {
                BoundStep::Function { .. } | BoundStep::Checkpoint { .. } => depth += 1,
                BoundStep::EndFunction { saved, .. } if depth == 0 => return saved,
                BoundStep::EndCheckpoint(_) if depth == 0 => break,
                BoundStep::EndFunction { .. } | BoundStep::EndCheckpoint(_) => depth -= 1,
                _ => {}
            }
        }
        &[]
    }

    /// Whether a running function saves a tensor that Python drops; it is then dropped when the function ends.
    pub(super) fn is_saved_later(&mut self, id: TensorId) -> bool {
        let open = self.functions.iter_mut().rev().find(|open| open.saved.contains(&id));
        if let Some(open) = open {
            open.dropped.push(id);
            return true;
        }
        false
    }

    /// A custom function ends: records it in the graph.
    pub(super) fn end_function(&mut self, context: &mut Context, end: usize, results: &[TensorId], saved: &[TensorId]) {
        let Some(open) = self.functions.pop() else { return };
        let replay = self.passes.replays.get(&end).filter(|replay| replay.fits(open.arguments, results));
        if replay.is_none() {
            self.missing.entry(open.name.to_owned()).or_default().push(open.begin as u32);
        }
        context.set_grad(open.was_grad_on);
        if let Some(edge) = self.record_function(context, replay, (open.arguments, results, saved)) {
            self.lead_to(results, &edge);
        }
        for id in open.dropped {
            self.tensors[id.0 as usize] = None;
        }
    }

    /// The results' gradients go to a node.
    pub(super) fn lead_to(&mut self, results: &[TensorId], edge: &Edge) {
        for (output, id) in results.iter().enumerate() {
            let slot = &mut self.tensors[id.0 as usize];
            if let Some(tensor) = slot.take() {
                let edge = tensor.dtype().is_differentiable().then(|| Edge { output, ..edge.clone() });
                *slot = Some(tensor.with_edge(edge));
            }
        }
    }

    fn record_function(
        &self,
        context: &mut Context,
        replay: Option<&Rc<Replay>>,
        (arguments, results, saved): (&[TensorId], &[TensorId], &[TensorId]),
    ) -> Option<Edge> {
        let tensor = |id: &TensorId| self.tensors[id.0 as usize].clone();
        let arguments = replay.map_or(arguments, |replay| replay.arguments(arguments));
        let inputs: Vec<Option<Tensor>> = arguments.iter().map(tensor).collect();
        let given: Vec<Option<&Tensor>> = inputs.iter().map(Option::as_ref).collect();
        match replay {
            Some(replay) => {
                let saved: Vec<TensorId> = saved.iter().filter(|id| !replay.keeps(**id)).copied().collect();
                let tensors: Saved = saved.iter().map(tensor).collect();
                let replayed = Replayed::new(replay, saved, results, &self.tensors);
                context.record(&given, results.len(), |_| tensors, replayed)
            }
            None => {
                let saved: Saved = saved.iter().map(tensor).collect();
                let unknown = Unknown::function(self.passes.scenario, &inputs, &saved);
                context.record(&given, results.len(), |_| saved, unknown)
            }
        }
    }
}
