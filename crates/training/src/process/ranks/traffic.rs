//! What a rank sends in a step, in bytes. Rings are assumed, as NCCL uses them for large messages.

use vramfit_eager::tensor_parallel::{LayerSplit, split_layers};
use vramfit_graph::bind::{Bound, BoundStep};
use vramfit_graph::model::Weight;

use super::deepspeed::{PERSISTENCE_THRESHOLD, REUSE_DISTANCE};
use super::sharding::{in_module_order, sharded_modules};
use crate::script::{Loop, Parallel, Reshard, Sharded, ZeroStage};

/// Bytes that a rank sends to others in a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// By all-gathers of sharded weights.
    pub all_gather: u64,
    /// By reduce-scatters of gradients over shards.
    pub reduce_scatter: u64,
    /// By all-reduces: of gradients over replicas, of what split layers return and of their inputs' gradients.
    pub all_reduce: u64,
}

impl Traffic {
    /// All of it.
    pub fn total(&self) -> u64 {
        self.all_gather + self.reduce_scatter + self.all_reduce
    }

    /// What a rank of a loop sends in a step.
    pub fn of(bound: &Bound<'_>, settings: &Loop) -> Traffic {
        let reductions = if settings.parallel.skips_sync() { 1 } else { u64::from(settings.accumulate.max(1)) };
        match &settings.parallel {
            Parallel::None => Traffic::default(),
            Parallel::Replicated(replicated) => {
                let bytes = trained_bytes(bound);
                Traffic { all_reduce: 2 * sent(bytes, replicated.world) * reductions, ..Traffic::default() }
            }
            Parallel::DeepSpeed(zero) if zero.stage == ZeroStage::Three => {
                of_partitioned_weights(bound, zero.world, u64::from(settings.accumulate.max(1)))
            }
            Parallel::DeepSpeed(zero) => {
                let bytes = trained_bytes(bound);
                let all_gather = sent(bytes, zero.world);
                Traffic { all_gather, all_reduce: 2 * sent(bytes, zero.world) * reductions, ..Traffic::default() }
            }
            Parallel::Tensor(split) => of_split_layers(bound, split.world, u64::from(settings.accumulate.max(1))),
            Parallel::Sharded(sharded) => of_shards(bound, sharded, u64::from(settings.accumulate.max(1)), reductions),
        }
    }
}

fn elements(bound: &Bound<'_>, weight: &Weight) -> u64 {
    bound.tensor(weight.tensor).shape.iter().product::<i64>() as u64
}

/// Bytes of the weights that are trained, and of their gradients.
fn trained_bytes(bound: &Bound<'_>) -> u64 {
    let trained = bound.model.parameters.iter().filter(|weight| weight.requires_grad);
    trained.map(|weight| elements(bound, weight) * bound.tensor(weight.tensor).dtype.bytes()).sum()
}

/// The part of a message that each of so many ranks sends on.
fn sent(bytes: u64, ranks: u32) -> u64 {
    bytes - bytes / u64::from(ranks.max(1))
}

/// A weight of ZeRO stage 3 is gathered in the forward pass, and again in the backward pass if more elements than it looks ahead are used in
/// between. Small weights are gathered once in a step.
fn of_partitioned_weights(bound: &Bound<'_>, world: u32, micro_batches: u64) -> Traffic {
    let mut traffic = Traffic::default();
    let mut later = 0;
    for weight in bound.model.parameters.iter().rev() {
        let elements = elements(bound, weight);
        let sent = sent(elements * bound.tensor(weight.tensor).dtype.bytes(), world);
        let gathers = match elements <= PERSISTENCE_THRESHOLD as u64 {
            true => 1,
            false if 2 * later >= REUSE_DISTANCE as u64 => 2 * micro_batches,
            false => micro_batches,
        };
        traffic.all_gather += sent * gathers;
        if weight.requires_grad {
            traffic.reduce_scatter += sent * micro_batches;
        }
        later += elements;
    }
    traffic
}

/// Each layer that is split by rows adds up what it returns, each that is split by columns the gradient of its input.
fn of_split_layers(bound: &Bound<'_>, world: u32, micro_batches: u64) -> Traffic {
    let layers = split_layers(bound);
    let mut bytes = 0;
    for step in &bound.steps {
        let tensors = match step {
            BoundStep::Enter(module, given) if layers.get(module) == Some(&LayerSplit::Columns) => given.first(),
            BoundStep::Exit(module, results) if layers.get(module) == Some(&LayerSplit::Rows) => results.first(),
            _ => None,
        };
        bytes += tensors.map_or(0, |tensor| bound.tensor(*tensor).bytes);
    }
    Traffic { all_reduce: 2 * sent(bytes, world) * micro_batches, ..Traffic::default() }
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
            let dtype = bound.tensor(weight.tensor).dtype;
            gathered += elements(bound, weight) * dtype.bytes();
            if weight.requires_grad {
                reduced += elements(bound, weight) * settings.reduce_dtype.unwrap_or(dtype).bytes();
            }
        }
        let again = match settings.reshard(module == 0) {
            Reshard::No => 0,
            Reshard::Yes => sent(gathered, settings.shards),
            Reshard::Over(ranks) => sent(gathered, ranks),
        };
        traffic.all_gather += (sent(gathered, settings.shards) + again) * micro_batches;
        traffic.reduce_scatter += sent(reduced, settings.shards) * reductions;
        traffic.all_reduce += 2 * sent(reduced / u64::from(settings.shards), settings.replicas) * reductions;
    }
    traffic
}
