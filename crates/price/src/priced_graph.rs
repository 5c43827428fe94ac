//! A bound graph with the cost of each call.

use vramfit_eager::autograd::{HostMemory, ResultKind, Visits};
use vramfit_eager::operators::{Keeps, Work, facts};
use vramfit_graph::bind::{Bound, BoundStep};
use vramfit_graph::model::{Mode, TensorId};

use crate::call::{CallCost, CallPricer};
use crate::host_copies::HostCopies;
use crate::operator::PricedOperator;
use crate::optimizer::{Weights, passing};
use crate::queues::Cost;
use crate::scale::Scale;
use crate::tables::{PerPass, TABLES};

/// A call with its cost.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PricedCall {
    /// Its index among the bound steps.
    pub step: usize,
    pub keeps: Keeps,
    /// The kind of result that a selective checkpoint may keep.
    pub kept_as: Option<ResultKind>,
    /// Whether Python waits for the GPU.
    pub synchronizes: bool,
    pub cost: CallCost,
    /// The cost of adding its weights' gradients to those of an earlier micro-batch.
    pub accumulation: Cost,
    /// The copies of what it saves to the host and back.
    pub host_copies: HostCopies,
}

/// A bound graph with the cost of each call.
#[derive(Clone, Debug)]
pub struct PricedGraph {
    pub(crate) calls: Vec<PricedCall>,
    pub(crate) is_training: bool,
    pub(crate) has_gradients: bool,
    pub(crate) scale: Scale,
    pub(crate) weights: Weights,
    /// CPU time to copy all inputs and targets to the GPU.
    pub(crate) copies: f64,
    assumed: Vec<String>,
    /// CPU time within a model over CPU time of the same operator in a loop of its own.
    pub(crate) cpu_factors: PerPass<f64>,
}

impl PricedGraph {
    pub(crate) fn new(scale: Scale, bound: &Bound<'_>) -> PricedGraph {
        let operators: Vec<PricedOperator> =
            bound.model.operators.iter().map(|operator| PricedOperator::new(facts(operator.id))).collect();
        let pricer = CallPricer::new(bound, scale);
        let module_call = TABLES.constant("module");
        let gradient_sink = TABLES.constant("gradient_sink");
        let gradient_sum = TABLES.constant("gradient_sum");
        let mut calls = Vec::with_capacity(bound.steps.len() / 2);
        let mut uses = vec![0_u16; bound.tensors.len()];
        let mut is_assumed = vec![false; operators.len()];
        let parameters = bound.model.parameters.len();
        let mut module_calls = 0.0;
        let cpu_factors = [TABLES.constant("forward"), TABLES.constant("backward")];
        for (step, bound_step) in bound.steps.iter().enumerate() {
            let call = match bound_step {
                BoundStep::Call(call) => call,
                BoundStep::Enter(..) => {
                    module_calls += module_call;
                    continue;
                }
                _ => continue,
            };
            let operator = &operators[call.operator as usize];
            is_assumed[call.operator as usize] |= operator.facts.time.work == Work::Assumed;
            let mut cost = pricer.cost(call, operator);
            cost.forward.cpu += std::mem::take(&mut module_calls);
            let mut accumulation = Cost::default();
            let is_differentiated = call.results.iter().flatten().any(|&id| bound.tensor(id).requires_grad);
            if is_differentiated {
                call.each_tensor(&mut |TensorId(id)| {
                    let (tensor, uses) = (&bound.tensors[id as usize], &mut uses[id as usize]);
                    if !tensor.requires_grad {
                        return;
                    }
                    if *uses > 0 {
                        // A tensor with several uses: autograd sums its gradients.
                        cost.backward += Cost { cpu: gradient_sum, gpu: pricer.gradient_sum(tensor) };
                    } else if (id as usize) < parameters {
                        cost.backward.cpu += gradient_sink;
                        accumulation += Cost { cpu: gradient_sum, gpu: pricer.gradient_sum(tensor) };
                    }
                    *uses = uses.saturating_add(1);
                });
            }
            cost.forward.cpu *= cpu_factors[0];
            cost.backward.cpu *= cpu_factors[1];
            accumulation.cpu *= cpu_factors[1];
            let keeps = if is_differentiated { operator.facts.keeps } else { Keeps::Nothing };
            let synchronizes = operator.facts.time.work == Work::Wait;
            let kept_as = operator.facts.time.work.kept_as();
            let host_copies = HostCopies::default();
            calls.push(PricedCall { step, keeps, kept_as, synchronizes, cost, accumulation, host_copies });
        }
        let inputs = bound.model.inputs.iter().chain(&bound.model.targets);
        let assumed = bound.model.operators.iter().zip(is_assumed).filter(|(_, is_assumed)| *is_assumed);
        PricedGraph {
            calls,
            is_training: bound.variant.mode == Mode::Train,
            has_gradients: bound.variant.has_grad,
            scale,
            weights: Weights::of(bound, scale),
            copies: inputs.map(|input| TABLES.copy.at(bound.tensor(input.tensor).bytes as f64)).sum(),
            assumed: assumed.map(|(operator, _)| operator.name.clone()).collect(),
            cpu_factors,
        }
    }

    /// The same graph where calls copy what they save to the host, as `visits` of a pass say. The times are those of the machine on which
    /// copies were measured: buses differ.
    #[must_use]
    pub fn with_saved_on_host(&self, visits: &Visits, memory: HostMemory) -> PricedGraph {
        let mut graph = self.clone();
        for call in &mut graph.calls {
            call.host_copies = HostCopies::of(visits.on_host(call.step), memory);
        }
        graph
    }

    /// The operators without measurements. Each is priced as an addition of as many elements.
    pub fn assumed(&self) -> &[String] {
        &self.assumed
    }

    /// GPU seconds to read or write so many bytes beside the operators of the graph.
    pub fn passing(&self, bytes: u64) -> f64 {
        1e-6 * passing(bytes as f64, self.scale)
    }

    /// CPU time of a forward and of a backward pass in microseconds, if each operator ran in a loop of its own.
    pub fn cpu(&self) -> [f64; 2] {
        let sum = |of: fn(&PricedCall) -> f64| self.calls.iter().map(of).sum::<f64>();
        let [forward, backward] = self.cpu_factors;
        [
            sum(|call| call.cost.forward.cpu) / forward,
            (sum(|call| call.cost.backward.cpu) + TABLES.constant("backward_call")) / backward,
        ]
    }
}
