//! What a rank sends in a step, in bytes. Rings are assumed, as NCCL uses them for large messages.

use vramfit_graph::bind::Bound;
use vramfit_graph::model::Weight;

use super::sharding::{in_module_order, sharded_modules};
use crate::script::{AfterForward, Loop, Parallel, Sharded};

/// Bytes that a rank sends to others in a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// To gather sharded weights.
    pub gathered: u64,
    /// To reduce gradients over the ranks that share a model.
    pub scattered: u64,
    /// To reduce gradients over copies of the model.
    pub reduced: u64,
}

impl Traffic {
    /// All of it.
    pub fn total(&self) -> u64 {
        self.gathered + self.scattered + self.reduced
    }

    /// What a rank of a loop sends in a step.
    pub fn of(bound: &Bound<'_>, settings: &Loop) -> Traffic {
        let elements = |weight: &Weight| bound.tensor(weight.tensor).shape.iter().product::<i64>() as u64;
        let reductions = if settings.parallel.skips_sync() { 1 } else { u64::from(settings.accumulate.max(1)) };
        match &settings.parallel {
            Parallel::None => Traffic::default(),
            Parallel::Replicated(replicated) => {
                let trained = bound.model.parameters.iter().filter(|weight| weight.requires_grad);
                let bytes: u64 =
                    trained.map(|weight| elements(weight) * bound.tensor(weight.tensor).dtype.bytes()).sum();
                Traffic { reduced: 2 * sent(bytes, replicated.world) * reductions, ..Traffic::default() }
            }
            Parallel::Sharded(sharded) => of_shards(bound, sharded, u64::from(settings.accumulate.max(1)), reductions),
        }
    }
}

/// The part of a message that each of so many ranks sends on.
fn sent(bytes: u64, ranks: u32) -> u64 {
    bytes - bytes / u64::from(ranks.max(1))
}

fn of_shards(bound: &Bound<'_>, settings: &Sharded, micro_batches: u64, reductions: u64) -> Traffic {
    let mut is_known = vec![false; bound.model.parameters.len()];
    let mut traffic = Traffic::default();
    for module in sharded_modules(bound, settings).unwrap_or_default() {
        let path = bound.model.modules[module].path.as_deref().unwrap_or_default();
        let (mut gathered, mut reduced) = (0, 0);
        for index in in_module_order(path, &bound.model.parameters) {
            if std::mem::replace(&mut is_known[index], true) {
                continue;
            }
            let weight = &bound.model.parameters[index];
            let tensor = bound.tensor(weight.tensor);
            let elements = tensor.shape.iter().product::<i64>() as u64;
            gathered += elements * tensor.dtype.bytes();
            if weight.requires_grad {
                reduced += elements * settings.reduce_dtype.unwrap_or(tensor.dtype).bytes();
            }
        }
        let again = match settings.after_forward {
            AfterForward::Kept | AfterForward::Split(1) => 0,
            AfterForward::FreedButRoot if module == 0 => 0,
            AfterForward::FreedButRoot | AfterForward::Freed => sent(gathered, settings.shards),
            AfterForward::Split(ranks) => sent(gathered, ranks),
        };
        traffic.gathered += (sent(gathered, settings.shards) + again) * micro_batches;
        traffic.scattered += sent(reduced, settings.shards) * reductions;
        traffic.reduced += 2 * sent(reduced / u64::from(settings.shards), settings.copies) * reductions;
    }
    traffic
}
