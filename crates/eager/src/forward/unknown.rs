//! Operators without a rule, and functions whose backward is not in the capture.

use smallvec::SmallVec;
use vramfit_cudnn::Scenario;
use vramfit_graph::bind::BoundStep;
use vramfit_graph::model::TensorId;

use super::Forward;
use crate::autograd::{Backward, Context, Edge, Gradients, Node, Saved, Tensor};
use crate::operators::Call;

/// Upper bound assumed for the scratch memory of an operator without a rule, as a multiple of what it reads and writes.
/// Nothing bounds what such an operator does; this covers fused layers, which keep a few activations of their own.
pub const SCRATCH: u64 = 4;

impl<'a> Forward<'a> {
    /// A custom function begins; its backward is not in the capture.
    pub(super) fn begin_function(&mut self, context: &Context, index: usize, name: &str) {
        self.missing.entry(name.to_owned()).or_default().push(index as u32);
        self.functions.push(context.is_grad_on());
    }

    /// Records a function whose backward is not known in the graph.
    pub(super) fn end_function(
        &mut self,
        context: &mut Context,
        index: usize,
        results: &[TensorId],
        saved: &[TensorId],
    ) {
        let (Some(true), Some(arguments)) = (self.functions.pop(), self.function_arguments(index)) else { return };
        let was_grad_on = context.is_grad_on();
        context.set_grad(true);
        let inputs: Vec<Tensor> = arguments.iter().filter_map(|id| self.tensors[id.0 as usize].clone()).collect();
        let inputs: Vec<Option<&Tensor>> = inputs.iter().map(Some).collect();
        let saved: Saved = saved.iter().map(|id| self.tensors[id.0 as usize].clone()).collect();
        let touched = inputs.iter().flatten().copied().chain(saved.iter().flatten());
        let unknown = Unknown { scenario: self.passes.scenario, scratch: scratch(touched) };
        let edge = context.record(&inputs, results.len(), |_| saved, unknown);
        context.set_grad(was_grad_on);
        for (output, id) in results.iter().enumerate() {
            let slot = &mut self.tensors[id.0 as usize];
            if let (Some(tensor), Some(edge)) = (slot.take(), &edge) {
                let edge = tensor.dtype().is_differentiable().then(|| Edge { output, ..edge.clone() });
                *slot = Some(tensor.with_edge(edge));
            }
        }
    }

    /// The arguments of the function or region that ends at this step.
    fn function_arguments(&self, end: usize) -> Option<&'a [TensorId]> {
        let mut depth = 0;
        for step in self.bound.steps[..end].iter().rev() {
            match step {
                BoundStep::EndFunction { .. } | BoundStep::EndCheckpoint(_) => depth += 1,
                BoundStep::Function { arguments, .. } | BoundStep::Checkpoint { arguments, .. } if depth == 0 => {
                    return Some(arguments);
                }
                BoundStep::Function { .. } | BoundStep::Checkpoint { .. } => depth -= 1,
                _ => {}
            }
        }
        None
    }
}

/// The upper bound of the scratch memory of an operator on these tensors.
fn scratch<'a>(tensors: impl Iterator<Item = &'a Tensor>) -> u64 {
    let bytes = tensors.fold(0_u64, |sum, tensor| sum.saturating_add(tensor.layout().bytes()));
    bytes.saturating_mul(SCRATCH)
}

/// A function whose backward is not known: it returns a gradient for each input.
#[derive(Debug)]
struct Unknown {
    scenario: Scenario,
    scratch: u64,
}

impl Backward for Unknown {
    fn apply(&self, context: &mut Context, node: &Node, gradients: &mut Gradients) -> Gradients {
        let scratch = (self.scenario == Scenario::Upper).then(|| context.scratch(self.scratch));
        let incoming = gradients.iter().flatten().next().filter(|_| self.scenario == Scenario::Lower).cloned();
        let results = node
            .inputs
            .iter()
            .enumerate()
            .map(|(index, input)| {
                let input = input.as_ref().filter(|_| node.wants(index))?;
                let is_same = |given: &&Tensor| given.shape() == input.shape.as_slice() && given.dtype() == input.dtype;
                let passed = incoming.as_ref().filter(is_same).cloned();
                Some(passed.unwrap_or_else(|| context.empty_contiguous(input.dtype, &input.shape)))
            })
            .collect();
        drop(scratch);
        results
    }
}

/// Runs an operator without a rule.
pub(super) fn unmodelled(context: &mut Context, call: &Call<'_>, scenario: Scenario) -> SmallVec<[Tensor; 1]> {
    let mut inputs: Vec<Option<&Tensor>> = Vec::new();
    let mut add = |id: TensorId| inputs.push(call.tensors.get(id.0 as usize).and_then(Option::as_ref));
    call.arguments.iter().for_each(|value| value.each_tensor(&mut add));
    let results: SmallVec<[Tensor; 1]> = (0..call.captured.len())
        .filter_map(|index| call.result(index).ok())
        .map(|layout| {
            let shares = call.captured.iter().flatten().any(|captured| captured.is_view);
            match inputs.iter().flatten().next() {
                Some(source) if shares => source.view(layout),
                _ => context.empty(layout),
            }
        })
        .collect();
    let scratch = scratch(inputs.iter().flatten().copied().chain(&results));
    if scenario == Scenario::Upper {
        drop(context.scratch(scratch));
    }
    let saved = |_: &dyn Fn(usize) -> bool| -> Saved {
        match scenario {
            Scenario::Lower => Saved::new(),
            Scenario::Expected => inputs.iter().map(|input| input.cloned()).collect(),
            Scenario::Upper => {
                let written = results.iter().map(|result| Some(result.detach()));
                inputs.iter().map(|input| input.cloned()).chain(written).collect()
            }
        }
    };
    let edge = context.record(&inputs, results.len(), saved, Unknown { scenario, scratch });
    results
        .into_iter()
        .enumerate()
        .map(|(output, result)| {
            let edge = edge.clone().filter(|_| result.dtype().is_differentiable());
            result.with_edge(edge.map(|edge| Edge { output, ..edge }))
        })
        .collect()
}
