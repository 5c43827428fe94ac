//! What a rank sends in a step, and what it copies for that, in bytes. Rings are assumed, as NCCL uses them for large messages.

use vramfit_eager::tensor_parallel::{LayerSplit, split_layers};
use vramfit_graph::bind::{Bound, BoundStep};
use vramfit_graph::dtype::Dtype;
use vramfit_graph::model::Weight;

use super::sharding::{in_module_order, sharded_modules};
use crate::script::{DeepSpeed, Loop, Parallel, Reshard, Sharded, ZeroStage};

/// Bytes that a rank sends to others in a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// By all-gathers of sharded weights.
    pub all_gather: u64,
    /// By reduce-scatters of gradients over shards.
    pub reduce_scatter: u64,
    /// By all-reduces: of gradients over replicas, of what split layers return and of their inputs' gradients.
    pub all_reduce: u64,
    /// Bytes of its own memory that it reads and writes for that: into buckets and gathered buffers, and out of them. With DeepSpeed also what
    /// its engine does to gradients and master weights beside the optimizer's update.
    pub local: u64,
}

impl Traffic {
    /// All that is sent.
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
                // Gradients are divided on their way into a bucket and copied back, or divided in the bucket that has them.
                let accesses = if replicated.gradients_are_views { 2 } else { 4 };
                Traffic {
                    all_reduce: 2 * sent(bytes, replicated.world) * reductions,
                    local: accesses * bytes * reductions,
                    ..Traffic::default()
                }
            }
            Parallel::DeepSpeed(zero) if zero.stage == ZeroStage::Three => {
                of_partitioned_weights(bound, zero, u64::from(settings.accumulate.max(1)))
            }
            Parallel::DeepSpeed(zero) => {
                let bytes = trained_bytes(bound);
                // Each gradient is copied into the bucket, divided, and copied into a message; a rank copies its part out twice.
                let reduced = 6 * bytes + 4 * bytes / u64::from(zero.world.max(1));
                Traffic {
                    all_gather: sent(bytes, zero.world),
                    all_reduce: 2 * sent(bytes, zero.world) * reductions,
                    local: reduced * reductions + accessed_by_engine(bound, zero),
                    ..Traffic::default()
                }
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
fn of_partitioned_weights(bound: &Bound<'_>, settings: &DeepSpeed, micro_batches: u64) -> Traffic {
    let DeepSpeed { world, gathering, .. } = *settings;
    let mut traffic = Traffic { local: accessed_by_engine(bound, settings), ..Traffic::default() };
    let mut later = 0;
    for weight in bound.model.parameters.iter().rev() {
        let elements = elements(bound, weight);
        let bytes = elements * bound.tensor(weight.tensor).dtype.bytes();
        let sent = sent(bytes, world);
        let gathers = match elements <= gathering.persistent as u64 {
            true => 1,
            false if 2 * later >= gathering.reuse_distance as u64 => 2 * micro_batches,
            false => micro_batches,
        };
        traffic.all_gather += sent * gathers;
        // Weights that are gathered together are copied out of their buffer.
        traffic.local += 2 * bytes * gathers;
        if weight.requires_grad {
            traffic.reduce_scatter += sent * micro_batches;
            // Into the bucket, into a message, divided there; a rank's part out of it.
            traffic.local += (6 * bytes + 2 * bytes / u64::from(world.max(1))) * micro_batches;
        }
        later += elements;
    }
    traffic
}

/// Bytes that DeepSpeed's engine reads and writes of a rank's part in an update, beside the optimizer: gradients are looked through for
/// overflow, measured in double precision, made one, cast to single precision and clipped; weights are cast back.
fn accessed_by_engine(bound: &Bound<'_>, settings: &DeepSpeed) -> u64 {
    const SINGLE: u64 = 4;
    const DOUBLE: u64 = 8;
    let trained = bound.model.parameters.iter().filter(|weight| weight.requires_grad);
    let of = |weight: &Weight| {
        let dtype = bound.tensor(weight.tensor).dtype;
        let own = dtype.bytes();
        let (overflow, cast) = if dtype == Dtype::Float32 { (0, 0) } else { (2 * own, own + SINGLE) };
        let norm = own + 2 * DOUBLE;
        let clipped = if settings.clips { 2 * SINGLE } else { 0 };
        elements(bound, weight) * (overflow + norm + 2 * own + cast + clipped + SINGLE + own)
    };
    trained.map(of).sum::<u64>() / u64::from(settings.world.max(1))
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
        let times = if settings.reshard(module == 0) == Reshard::No { 1 } else { 2 };
        // A rank's part is copied into a message; gathered weights are copied out of it, gradients into another.
        traffic.local += 2 * (gathered + gathered / u64::from(settings.shards.max(1))) * times * micro_batches;
        traffic.local += 2 * reduced * reductions;
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
