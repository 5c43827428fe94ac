//! The forward pass: the captured calls, one after another.

use std::collections::BTreeMap;

use smallvec::SmallVec;
use vramfit_graph::bind::{Bound, BoundCall, BoundStep, Value};
use vramfit_graph::model::TensorId;

use crate::memory::Category;
use crate::ops::{Call, Context, Rule, Unmodelled, rule};
use crate::tape::{Backward, Gradients, Node};
use crate::tensor::{Layout, Tensor};

/// The rule of each operator of a model, found once.
pub struct Rules(Vec<Option<Rule>>);

impl Rules {
    /// Finds them.
    pub fn of(bound: &Bound<'_>) -> Rules {
        Rules(bound.model.operators.iter().map(|operator| rule(&operator.name)).collect())
    }
}

/// Operators that no rule covered, with how often they were called in one pass.
pub type Missing = BTreeMap<String, u32>;

/// A forward pass under way.
pub struct Forward<'a> {
    bound: &'a Bound<'a>,
    rules: &'a Rules,
    /// Every tensor that Python holds.
    pub tensors: Vec<Option<Tensor>>,
    /// What no rule covered.
    pub missing: Missing,
}

/// An instant the training loop cares about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Instant {
    /// The model has returned.
    ModelReturned,
    /// The loss is there; the loop's autocast region has not ended yet.
    LossMade,
}

/// The place of what happens outside the captured calls.
pub const NOWHERE: u32 = u32::MAX;

impl<'a> Forward<'a> {
    /// A pass that starts with the tensors that exist before it: weights, inputs, targets.
    pub fn new(bound: &'a Bound<'a>, rules: &'a Rules, before: &[Option<Tensor>]) -> Forward<'a> {
        let mut tensors = before.to_vec();
        tensors.resize(bound.tensors.len(), None);
        Forward { bound, rules, tensors, missing: Missing::new() }
    }

    /// Runs the pass; `tell` is told of the instants the loop cares about, with the tensors that Python holds then.
    pub fn run(
        &mut self,
        context: &mut Context,
        mut tell: impl FnMut(&mut Context, &mut [Option<Tensor>], Instant),
    ) {
        context.memory().borrow_mut().set_category(Category::Activations);
        let loss_made = self.loss_made_at();
        let steps = &self.bound.steps;
        for (index, step) in steps.iter().enumerate() {
            if index == loss_made {
                tell(context, &mut self.tensors, Instant::LossMade);
            }
            self.step(context, index, step);
            if matches!(step, BoundStep::Exit(0, _)) {
                tell(context, &mut self.tensors, Instant::ModelReturned);
            }
            if context.has_failed() {
                return;
            }
        }
        if loss_made == steps.len() {
            tell(context, &mut self.tensors, Instant::LossMade);
        }
    }

    /// The step before which the script has given the loss its name: after the model and the loss function, within the
    /// outermost autocast region if there is one.
    fn loss_made_at(&self) -> usize {
        let steps = &self.bound.steps;
        let last = steps.iter().rposition(|step| matches!(step, BoundStep::EndLoss | BoundStep::Exit(0, _)));
        last.map_or(steps.len(), |last| last + 1)
    }

    fn step(&mut self, context: &mut Context, index: usize, step: &BoundStep<'_>) {
        match step {
            BoundStep::Call(call) => {
                context.memory().borrow_mut().set_place(index as u32);
                self.call(context, call);
            }
            BoundStep::Free(tensors) => {
                for tensor in *tensors {
                    self.tensors[tensor.0 as usize] = None;
                }
            }
            BoundStep::Grad(is_on) => context.set_grad(*is_on),
            _ => {}
        }
    }

    fn call(&mut self, context: &mut Context, call: &BoundCall<'_>) {
        let is_on_host = |id: &TensorId| self.bound.tensor(*id).is_on_host;
        if !call.results.is_empty() && call.results.iter().flatten().all(is_on_host) {
            self.keep_host_results(call);
            return;
        }
        let view = Call {
            arguments: &call.arguments,
            tensors: &self.tensors,
            captured: call.results.iter().map(|id| id.map(|id| self.bound.tensor(id))).collect(),
        };
        let is_same = |id: &TensorId| call.arguments.iter().any(|value| *value == Value::Tensor(*id));
        if call.results.iter().flatten().all(is_same) && !is_in_place(self.bound.operator_name(call)) {
            return;
        }
        let outcome = match self.rules.0[call.operator as usize] {
            Some(rule) => rule(context, &view),
            None => Err(Unmodelled),
        };
        let results = match outcome {
            Ok(results) => results,
            Err(Unmodelled) => {
                *self.missing.entry(self.bound.operator_name(call).to_owned()).or_default() += 1;
                unmodelled(context, &view)
            }
        };
        drop(view);
        for (id, result) in call.results.iter().zip(results) {
            if let Some(id) = id {
                self.tensors[id.0 as usize] = Some(result);
            }
        }
    }

    fn keep_host_results(&mut self, call: &BoundCall<'_>) {
        for id in call.results.iter().flatten() {
            let captured = self.bound.tensor(*id);
            let layout =
                Layout { dtype: captured.dtype, shape: captured.shape.clone(), strides: captured.strides.clone() };
            self.tensors[id.0 as usize] = Some(Tensor::on_host(layout));
        }
    }
}

/// Whether an operator writes into its first argument.
fn is_in_place(name: &str) -> bool {
    name.split('.').nth(1).is_some_and(|base| base.ends_with('_') && !base.ends_with("__"))
}

/// An operator without a rule: its results as captured, everything saved, and a gradient for each input.
fn unmodelled(context: &mut Context, call: &Call<'_>) -> SmallVec<[Tensor; 1]> {
    #[derive(Debug)]
    struct Unknown;
    impl Backward for Unknown {
        fn apply(&self, context: &mut Context, node: &Node, _gradients: &mut Gradients) -> Gradients {
            node.inputs
                .iter()
                .enumerate()
                .map(|(index, input)| {
                    let input = input.as_ref().filter(|_| node.wants(index))?;
                    Some(context.empty_contiguous(input.dtype, &input.shape))
                })
                .collect()
        }
    }
    let inputs: Vec<Option<&Tensor>> = (0..call.arguments.len()).map(|index| call.optional_tensor(index)).collect();
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
    let saved = |_: &dyn Fn(usize) -> bool| inputs.iter().map(|input| input.cloned()).collect();
    let edge = context.record(&inputs, results.len(), saved, Unknown);
    results
        .into_iter()
        .enumerate()
        .map(|(output, result)| {
            let edge = edge.clone().filter(|_| result.dtype().is_differentiable());
            result.with_edge(edge.map(|edge| crate::tape::Edge { output, ..edge }))
        })
        .collect()
}
