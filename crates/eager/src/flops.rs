//! Floating-point operations of a step, counted as `torch.utils.flop_counter.FlopCounterMode` counts them: products of
//! matrices, convolutions and attention, two for each multiplication; nothing else. Recurrent networks count nothing, as
//! their cuDNN kernels do there.

use vramfit_graph::bind::{Bound, BoundStep};

use crate::autograd::Visits;
use crate::operators::{FlopFormula, facts};

pub use crate::operators::Flops;

/// The operations of each step of a simulated pass.
pub fn count(bound: &Bound<'_>, visits: &Visits) -> Vec<Flops> {
    bound
        .steps
        .iter()
        .enumerate()
        .map(|(index, step)| match step {
            BoundStep::Call(call) => {
                let FlopFormula::Counted(formula) = facts(bound.operator(call)).flops else { return Flops::default() };
                let Some(cost) = formula(bound, call, visits.is_attention_fused(index)) else {
                    return Flops::default();
                };
                let again = u64::from(visits.calls(index).saturating_sub(1));
                let backward = if visits.has_run_backward(index) { cost.backward } else { 0 };
                Flops { forward: cost.forward, backward: backward + again * cost.forward }
            }
            _ => Flops::default(),
        })
        .collect()
}

/// The operations of a whole pass.
pub fn total(bound: &Bound<'_>, visits: &Visits) -> Flops {
    let mut sum = Flops::default();
    count(bound, visits).into_iter().for_each(|flops| sum += flops);
    sum
}
