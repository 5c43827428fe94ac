//! What a recorded script does beside calling operators.

use vramfit_graph::bind::{BoundCall, Value};
use vramfit_graph::model::TensorId;

use super::Forward;
use crate::autograd::engine::{BackwardPass, run_pass};
use crate::autograd::{Context, Edge, LeafGradient, Tensor, Thread};
use crate::memory::{Category, SideEventKind};
use crate::operators::ScriptCall;

/// Where a phase of a recorded script ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PhaseEnd {
    /// Its name.
    pub phase: String,
    /// How many requests came before it.
    pub at: usize,
}

impl Forward<'_> {
    /// Does what the script did.
    pub(super) fn script_call(&mut self, context: &mut Context, done: ScriptCall, call: &BoundCall<'_>) {
        match done {
            ScriptCall::Backward | ScriptCall::Gradients => self.backward(context, done, call),
            ScriptCall::SetGradient => {
                if let Some(gradient) = tensor_at(call, 0).and_then(|leaf| self.gradient_of(leaf)) {
                    let new = tensor_at(call, 1).and_then(|id| self.tensors[id.0 as usize].clone());
                    let before = gradient.replace(new);
                    drop(before);
                }
            }
            ScriptCall::Categorize => {
                let category = match call.arguments.get(1) {
                    Some(Value::Text(name)) => category_named(name),
                    _ => None,
                };
                for id in tensors_at(call, 0).into_iter().flatten() {
                    let tensor = self.tensors[id.0 as usize].as_ref();
                    if let (Some(storage), Some(category)) = (tensor.and_then(Tensor::storage), category) {
                        storage.become_category(category);
                    }
                }
            }
            ScriptCall::SwitchThread => {
                let given = call.arguments.first();
                let is_backward = matches!(given, Some(Value::Bool(true)));
                context.set_thread(if is_backward { Thread::Backward } else { Thread::Main });
                context.is_recalling = matches!(given, Some(Value::None));
            }
            ScriptCall::FindResult => self.find_result(call),
            ScriptCall::EndPhase => {
                if let Some(Value::Text(phase)) = call.arguments.first() {
                    // Backward passes and updates leave nothing that a model computes.
                    let category = if phase == "step" { Category::Activations } else { Category::Temporary };
                    context.memory().borrow_mut().set_category(category);
                    let at = context.memory().borrow().journal().len();
                    self.phase_ends.push(PhaseEnd { phase: phase.clone(), at });
                }
            }
            ScriptCall::EmptyCache => context.memory().borrow_mut().add_side_event(SideEventKind::CacheEmptied),
            ScriptCall::JoinGroup => context.communicators = 1,
        }
    }

    fn gradient_of(&self, leaf: TensorId) -> Option<LeafGradient> {
        self.tensors[leaf.0 as usize].as_ref()?.leaf_gradient()
    }

    fn backward(&mut self, context: &mut Context, done: ScriptCall, call: &BoundCall<'_>) {
        let edge_of = |id: Option<TensorId>| self.tensors[id?.0 as usize].as_ref()?.edge().cloned();
        let given = |id: Option<TensorId>| self.tensors[id?.0 as usize].clone();
        let wanted = tensors_at(call, 2);
        let roots = tensors_at(call, 0).into_iter().zip(tensors_at(call, 1));
        let roots = roots.filter_map(|(root, gradient)| Some((edge_of(root)?, given(gradient)?))).collect();
        let keeps_graph = matches!(call.arguments.get(3), Some(Value::Bool(true)));
        let edges: Vec<Option<Edge>> = wanted.iter().map(|id| edge_of(*id)).collect();
        // What nothing leads to has no edge.
        let known = || edges.iter().flatten().cloned().collect::<Vec<Edge>>();
        let inputs = (done == ScriptCall::Gradients).then(known);
        // `backward(inputs=…)`: these leaves get their gradients, and what leads to none of them does not run.
        let only =
            (done == ScriptCall::Backward && matches!(call.arguments.get(4), Some(Value::Bool(true)))).then(known);
        let is_leaf = |edge: &&Edge| edge.node.backward.gradient().is_some();
        let retains: Vec<Edge> = edges.iter().flatten().filter(|edge| !is_leaf(edge)).cloned().collect();
        let was_grad_on = context.is_grad_on();
        context.set_grad(true);
        context.memory().borrow_mut().set_category(Category::Temporary);
        context.set_thread(Thread::Backward);
        let pass =
            BackwardPass { roots, keeps_graph, inputs: inputs.as_deref(), only: only.as_deref(), retains: &retains };
        // A region holds all that it needs to run again.
        let passes = self.passes;
        let captured = run_pass(context, pass, &|context, frame| Forward::new(passes, &[]).run_again(context, frame));
        context.set_thread(Thread::Main);
        context.set_grad(was_grad_on);
        for (operator, mut steps) in context.take_unmodelled() {
            self.missing.entry(operator).or_default().append(&mut steps);
        }
        let mut captured = captured.into_iter();
        for (position, result) in call.results.iter().enumerate() {
            let gradient = match (done, &edges[position]) {
                (_, None) => None,
                (ScriptCall::Gradients, Some(_)) => captured.next().flatten(),
                (_, Some(edge)) => match edge.node.backward.gradient() {
                    Some(gradient) => gradient.borrow().clone(),
                    None => captured.next().flatten(),
                },
            };
            if let Some(result) = result {
                self.tensors[result.0 as usize] = gradient;
            }
        }
    }
}

fn tensor_of(value: &Value) -> Option<TensorId> {
    match value {
        Value::Tensor(id) => Some(*id),
        _ => None,
    }
}

fn tensor_at(call: &BoundCall<'_>, index: usize) -> Option<TensorId> {
    call.arguments.get(index).and_then(tensor_of)
}

/// The tensors of a list, `None` where it has something else.
fn tensors_at(call: &BoundCall<'_>, index: usize) -> Vec<Option<TensorId>> {
    match call.arguments.get(index) {
        Some(Value::List(values)) => values.iter().map(tensor_of).collect(),
        _ => Vec::new(),
    }
}

fn category_named(name: &str) -> Option<Category> {
    Some(match name {
        "parameters" => Category::Parameters,
        "gradients" => Category::Gradients,
        "optimizer" => Category::Optimizer,
        "inputs" => Category::Inputs,
        "outputs" => Category::Outputs,
        "communication" => Category::Communication,
        _ => return None,
    })
}
