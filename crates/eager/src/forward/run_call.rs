//! One call of an operator, in the forward pass or in a recorded backward.

use smallvec::SmallVec;
use vramfit_cudnn::Scenario;
use vramfit_graph::bind::{BoundTensor, Value};
use vramfit_graph::layout::Layout;
use vramfit_graph::model::{Call as CapturedCall, TensorId};

use super::unknown::unmodelled;
use crate::autograd::{Context, Tensor, Thread};
use crate::launch::Launch;
use crate::operators::{Call, Facts, Library, MemoryRule, Unmodelled};

/// The results of a call, and whether its operator has a rule that covers it.
pub(super) struct Outcome {
    pub(super) results: SmallVec<[Tensor; 1]>,
    pub(super) is_modelled: bool,
}

/// Runs a call of the operator that has this name and these facts.
pub(super) fn run_call(
    context: &mut Context,
    (name, facts): (&str, &Facts),
    call: &Call<'_>,
    scenario: Scenario,
) -> Outcome {
    let is_in_place = facts.effect.is_in_place();
    let launches_nothing = (!is_in_place && call.makes_only_views()) || call.reads_only_host();
    let launch = if launches_nothing { Launch::Nothing } else { facts.launch };
    let is_sparse = context.has_met_sparse && call.has_sparse();
    let outcome = match if is_sparse { facts.sparse } else { facts.memory } {
        MemoryRule::Modelled(rule) => rule(context, call),
        MemoryRule::NotModelled => Err(Unmodelled),
    };
    let outcome = match outcome {
        Ok(results) => Outcome { results, is_modelled: true },
        Err(Unmodelled) => {
            Outcome { results: unmodelled(context, name, call, is_in_place, scenario), is_modelled: false }
        }
    };
    if facts.library == Library::Cudnn {
        context.use_dnn();
        if outcome.results.iter().any(Tensor::requires_grad) {
            context.use_dnn_on(Thread::Backward);
        }
    }
    context.launched(match launch {
        Launch::Copy if copies_as_it_is(call, &outcome) => Launch::Nothing,
        Launch::Copy => Launch::LocalMemory,
        other => other,
    });
    outcome
}

/// Whether a copy needs no kernel: from or to host memory, or of elements that keep their type and order. The copy is the
/// result, or the first argument where there are two tensors.
fn copies_as_it_is(call: &Call<'_>, outcome: &Outcome) -> bool {
    let Ok(first) = call.tensor(0) else { return false };
    let Some(other) = call.tensor(1).ok().or(outcome.results.first()) else { return false };
    first.is_on_host() || other.is_on_host() || first.layout() == other.layout()
}

/// Whether a call only returns arguments, because it had nothing to do.
pub(super) fn returns_arguments<Results: AsRef<[Option<TensorId>]>>(
    call: &CapturedCall<i64, Results>,
    facts: &Facts,
) -> bool {
    let results = call.results.as_ref();
    let is_same = |id: &TensorId| call.arguments.iter().any(|it| matches!(it, Value::Tensor(given) if given == id));
    let only_reads = results.is_empty() && matches!(facts.memory, MemoryRule::Modelled(_));
    !facts.effect.is_in_place() && !facts.copies_by_layout && !only_reads && results.iter().flatten().all(is_same)
}

/// A tensor in host memory, as it was captured.
pub(super) fn on_host(captured: &BoundTensor) -> Tensor {
    Tensor::on_host(Layout { dtype: captured.dtype, shape: captured.shape.clone(), strides: captured.strides.clone() })
}
