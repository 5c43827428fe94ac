//! Recorded backwards of custom autograd functions.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;

use vramfit_cudnn::Scenario;
use vramfit_graph::bind::{Bound, BoundBackward};
use vramfit_graph::dtype::Dtype;
use vramfit_graph::layout::Layout;
use vramfit_graph::model::{Call as CapturedCall, Step, TensorId};

use super::run_call::{Outcome, on_host, returns_arguments, run_call};
use crate::autograd::{Backward, Context, Gradients, Node, Tensor};
use crate::operators::{Call, Facts, facts};

/// A recorded backward, ready to run.
#[derive(Debug)]
pub(super) struct Replay {
    backward: Arc<BoundBackward>,
    /// Of each step that is a call: its operator.
    operators: Vec<Option<(String, &'static Facts)>>,
    /// Weights, inputs and constants that it uses.
    given: Vec<TensorId>,
    /// How many tensors the variant has.
    tensors: usize,
    scenario: Scenario,
}

impl Replay {
    pub(super) fn new(bound: &Bound<'_>, backward: &Arc<BoundBackward>, scenario: Scenario) -> Replay {
        let operator = |step: &Step<CapturedCall<i64>>| match step {
            Step::Call(call) => {
                let operator = &bound.model.operators[call.operator as usize];
                Some((operator.name.clone(), facts(operator.id)))
            }
            _ => None,
        };
        let mut used = BTreeSet::new();
        for step in &backward.steps {
            if let Step::Call(call) = step {
                call.each_tensor(&mut |id| used.extend([id]));
            }
        }
        used.extend(backward.results.iter().flatten());
        let count = bound.model.given_count();
        used.retain(|id| (id.0 as usize) < count || bound.variant.constants.contains(id));
        Replay {
            backward: Arc::clone(backward),
            operators: backward.steps.iter().map(operator).collect(),
            given: used.into_iter().collect(),
            tensors: bound.tensors.len(),
            scenario,
        }
    }

    /// Whether it has a gradient for each result of the function and each of its arguments.
    pub(super) fn fits(&self, arguments: &[TensorId], results: &[TensorId]) -> bool {
        self.backward.gradients.len() == results.len() && self.backward.results.len() == self.arguments(arguments).len()
    }

    /// The arguments of the function that may get a gradient; `listed` are all that its step lists.
    pub(super) fn arguments<'b>(&'b self, listed: &'b [TensorId]) -> &'b [TensorId] {
        self.backward.arguments.as_deref().unwrap_or(listed)
    }

    /// Whether the function's context holds this tensor as an attribute.
    pub(super) fn keeps(&self, id: TensorId) -> bool {
        self.backward.kept.contains(&id)
    }

    /// Runs a call of step `at` on these tensors.
    fn call(&self, context: &mut Context, at: usize, call: &CapturedCall<i64>, tensors: &mut [Option<Tensor>]) {
        let Some((name, facts)) = &self.operators[at] else { return };
        let captured = |id: &TensorId| self.backward.tensors.get(id);
        let results = || call.results.iter().flatten();
        if !call.results.is_empty() && results().all(|id| captured(id).is_some_and(|it| it.is_on_host)) {
            for id in results() {
                tensors[id.0 as usize] = captured(id).map(on_host);
            }
            return;
        }
        if returns_arguments(call, facts) {
            return;
        }
        let view = Call {
            arguments: &call.arguments,
            tensors,
            captured: call.results.iter().map(|id| id.as_ref().and_then(captured)).collect(),
        };
        let Outcome { results, is_modelled } = run_call(context, (name, facts), &view, self.scenario);
        if !is_modelled {
            context.note_unmodelled(name);
        }
        drop(view);
        for (id, result) in call.results.iter().zip(results) {
            if let Some(id) = id {
                tensors[id.0 as usize] = None;
                tensors[id.0 as usize] = Some(result);
            }
        }
    }
}

/// A function in the graph whose backward was recorded.
#[derive(Debug)]
pub(super) struct Replayed {
    replay: Rc<Replay>,
    /// What the node's saved tensors are.
    saved: Vec<TensorId>,
    /// What the context holds as attributes. The engine does not free it.
    kept: Vec<(TensorId, Tensor)>,
    /// Weights, inputs and constants, until it has run.
    given: RefCell<Vec<(TensorId, Tensor)>>,
    /// The type and shape of each result on the GPU.
    results: Vec<Option<(Dtype, Rc<Layout>)>>,
}

impl Replayed {
    /// Of a function with these results that saves these tensors; `tensors` are those of the forward pass.
    pub(super) fn new(
        replay: &Rc<Replay>,
        saved: Vec<TensorId>,
        results: &[TensorId],
        tensors: &[Option<Tensor>],
    ) -> Replayed {
        let tensor = |id: &TensorId| tensors[id.0 as usize].as_ref();
        let result = |id: &TensorId| {
            let tensor = tensor(id).filter(|tensor| tensor.storage().is_some())?;
            Some((tensor.dtype(), tensor.shared_layout()))
        };
        // The graph itself is held by the edges to the arguments.
        let kept = replay.backward.kept.iter().filter_map(|id| Some((*id, tensor(id)?.detach()))).collect();
        let given = replay.given.iter().filter_map(|id| Some((*id, tensor(id)?.detach()))).collect();
        let results = results.iter().map(result).collect();
        Replayed { replay: Rc::clone(replay), saved, kept, given: RefCell::new(given), results }
    }
}

impl Backward for Replayed {
    fn saves_afterwards(&self) -> bool {
        true
    }

    fn apply(&self, context: &mut Context, node: &Node, gradients: &mut Gradients) -> Gradients {
        let replay = &self.replay;
        let mut tensors: Vec<Option<Tensor>> = vec![None; replay.tensors];
        for (id, tensor) in self.given.take().into_iter().chain(self.kept.iter().cloned()) {
            tensors[id.0 as usize] = Some(tensor);
        }
        for (id, tensor) in self.saved.iter().zip(node.saved.borrow().iter()) {
            tensors[id.0 as usize] = tensor.clone();
        }
        // By default PyTorch passes zeros for a gradient that is undefined.
        let mut zeros: Vec<Tensor> = Vec::new();
        for (at, (id, result)) in replay.backward.gradients.iter().zip(&self.results).enumerate() {
            let incoming = gradients.get(at).cloned().flatten();
            let incoming = incoming.or_else(|| {
                let (dtype, layout) = result.as_ref()?;
                let zero = context.empty_contiguous(*dtype, &layout.shape);
                zeros.push(zero.clone());
                Some(zero)
            });
            if let Some(id) = id {
                tensors[id.0 as usize] = incoming;
            }
        }
        let (was_grad_on, was_cast) = (context.is_grad_on(), context.autocast());
        context.set_grad(false);
        context.set_autocast(None);
        let mut autocasts = Vec::new();
        for (at, step) in replay.backward.steps.iter().enumerate() {
            match step {
                Step::Call(call) => replay.call(context, at, call, &mut tensors),
                Step::Free(freed) => freed.iter().for_each(|id| tensors[id.0 as usize] = None),
                Step::Autocast { is_gpu, dtype, is_enabled, .. } => {
                    autocasts.push(context.autocast());
                    if *is_gpu {
                        context.set_autocast(dtype.filter(|_| *is_enabled));
                    }
                }
                Step::EndAutocast => context.set_autocast(autocasts.pop().flatten()),
                _ => {}
            }
        }
        context.set_autocast(was_cast);
        context.set_grad(was_grad_on);
        replay.backward.results.iter().map(|id| id.and_then(|id| tensors[id.0 as usize].clone())).collect()
    }
}
