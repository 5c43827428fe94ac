//! Floating-point operations of a step, counted as `torch.utils.flop_counter.FlopCounterMode` counts them: products of
//! matrices, convolutions and attention, two for each multiplication; nothing else. Recurrent networks count nothing, as
//! their cuDNN kernels do there.

mod formula;

use vramfit_graph::bind::{Bound, BoundStep};

use crate::autograd::Visits;

/// Operations of a pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flops {
    /// Of the forward pass.
    pub forward: u64,
    /// Of the backward pass, what is computed again for checkpoints counted in.
    pub backward: u64,
}

impl std::ops::AddAssign for Flops {
    fn add_assign(&mut self, other: Flops) {
        self.forward += other.forward;
        self.backward += other.backward;
    }
}

impl Flops {
    /// The sum of both.
    pub fn total(self) -> u64 {
        self.forward + self.backward
    }
}

/// The operations of each step of a simulated pass.
pub fn count(bound: &Bound<'_>, visits: &Visits) -> Vec<Flops> {
    bound
        .steps
        .iter()
        .enumerate()
        .map(|(place, step)| match step {
            BoundStep::Call(call) => {
                let Some(cost) = formula::cost(bound, call, visits.is_attention_fused(place)) else {
                    return Flops::default();
                };
                let again = u64::from(visits.calls(place).saturating_sub(1));
                let backward = if visits.has_run_backward(place) { cost.backward } else { 0 };
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
