//! What a rank sends in a step, and what it copies for that, in bytes. Rings are assumed, as NCCL uses them for large messages.

use std::collections::{BTreeMap, BTreeSet};

use vramfit_eager::forward::frozen_weights;
use vramfit_eager::tensor_parallel::{LayerSplit, split_layers};
use vramfit_graph::bind::{Bound, BoundStep};
use vramfit_graph::dtype::Dtype;
use vramfit_graph::model::{Mode, TensorId, Weight};

use super::requires_grad::requires_grad;
use super::sharding::{in_module_order, sharded_modules};
use crate::script::{AddedLoss, DeepSpeed, Loop, Parallel, Replicated, Reshard, Sharded, ZeroStage};

/// Bytes that a rank sends to others in a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// By all-gathers of sharded weights.
    pub all_gather: u64,
    /// By reduce-scatters of gradients over shards.
    pub reduce_scatter: u64,
    /// By all-reduces: of gradients over replicas, of what split layers return and of their inputs' gradients.
    pub all_reduce: u64,
    /// By broadcasts: of the weights that `ZeroRedundancyOptimizer` has updated, and of the buffers of `DistributedDataParallel`.
    pub broadcast: u64,
    /// Bytes of its own memory that it reads and writes for that: into buckets and gathered buffers, and out of them. With DeepSpeed also what
    /// its engine does to gradients and master weights beside the optimizer's update.
    pub local: u64,
}

impl Traffic {
    /// All that is sent.
    pub fn total(&self) -> u64 {
        self.all_gather + self.reduce_scatter + self.all_reduce + self.broadcast
    }

    /// What a rank of a loop sends in a step.
    pub fn of(bound: &Bound<'_>, settings: &Loop) -> Traffic {
        let pass = Pass::of(bound, settings);
        match &settings.parallel {
            Parallel::None => Traffic::default(),
            Parallel::Replicated(replicated) => of_replicas(&pass, replicated),
            Parallel::DeepSpeed(zero) if zero.stage == ZeroStage::Three => of_partitioned_weights(&pass, zero),
            Parallel::DeepSpeed(zero) => {
                let bytes = pass.trained_bytes();
                // Each gradient is copied into the bucket, divided, and copied into a message; a rank copies its part out twice.
                let reduced = 6 * bytes + 4 * bytes / u64::from(zero.world.max(1));
                Traffic {
                    all_gather: sent(bytes, zero.world),
                    all_reduce: 2 * sent(bytes, zero.world) * pass.reductions,
                    local: reduced * pass.reductions + accessed_by_engine(&pass, zero),
                    ..Traffic::default()
                }
            }
            Parallel::Tensor(split) => of_split_layers(&pass, split.world),
            Parallel::Sharded(sharded) => of_shards(&pass, sharded),
        }
    }
}

/// What a step runs.
struct Pass<'b, 'm> {
    bound: &'b Bound<'m>,
    frozen: BTreeSet<TensorId>,
    /// Whether there is a backward pass.
    trains: bool,
    micro_batches: u64,
    /// How many backward passes reduce gradients.
    reductions: u64,
}

impl<'b, 'm> Pass<'b, 'm> {
    fn of(bound: &'b Bound<'m>, settings: &Loop) -> Pass<'b, 'm> {
        let has_loss = bound.variant.loss.is_some() || settings.loss != AddedLoss::None;
        let trains = bound.variant.mode == Mode::Train && has_loss;
        let micro_batches = if bound.variant.mode == Mode::Train { u64::from(settings.accumulate.max(1)) } else { 1 };
        let reductions = match (trains, settings.parallel.skips_sync()) {
            (false, _) => 0,
            (true, true) => 1,
            (true, false) => micro_batches,
        };
        let frozen = frozen_weights(bound, &settings.frozen).unwrap_or_default();
        Pass { bound, frozen, trains, micro_batches, reductions }
    }

    fn elements(&self, weight: &Weight) -> u64 {
        self.bound.tensor(weight.tensor).shape.iter().product::<i64>() as u64
    }

    fn bytes(&self, weight: &Weight) -> u64 {
        self.elements(weight) * self.bound.tensor(weight.tensor).dtype.bytes()
    }

    fn is_trained(&self, weight: &Weight) -> bool {
        self.trains && weight.requires_grad && !self.frozen.contains(&weight.tensor)
    }

    fn trained(&self) -> impl Iterator<Item = &'b Weight> {
        self.bound.model.parameters.iter().filter(|weight| self.is_trained(weight))
    }

    /// Bytes of the weights that are trained, and of their gradients.
    fn trained_bytes(&self) -> u64 {
        self.trained().map(|weight| self.bytes(weight)).sum()
    }
}

/// Gradients are all-reduced. The first rank broadcasts the buffers before each forward pass that follows a reduction.
fn of_replicas(pass: &Pass<'_, '_>, settings: &Replicated) -> Traffic {
    let (bytes, world) = (pass.trained_bytes(), settings.world);
    // Gradients are divided on their way into a bucket and copied back, or divided in the bucket that has them.
    let accesses = if settings.gradients_are_views { 2 } else { 4 };
    let model = pass.bound.model;
    let updated: u64 = match settings.splits_optimizer && pass.trains {
        // It takes all of the model's weights, and each rank broadcasts those that it has.
        true => model.parameters.iter().map(|weight| pass.bytes(weight)).sum(),
        false => 0,
    };
    let buffers: u64 = model.buffers.iter().map(|buffer| pass.bytes(buffer)).sum();
    let buffers = if world > 1 { buffers * pass.reductions } else { 0 };
    Traffic {
        all_reduce: 2 * sent(bytes, world) * pass.reductions,
        broadcast: sent(updated, world) + buffers,
        local: accesses * bytes * pass.reductions,
        ..Traffic::default()
    }
}

/// The part of a message that each of so many ranks sends on.
fn sent(bytes: u64, ranks: u32) -> u64 {
    bytes - bytes / u64::from(ranks.max(1))
}

/// A weight of ZeRO stage 3 is gathered in the forward pass, and again in the backward pass if more elements than it looks ahead are used in
/// between. Small weights are gathered once in a step.
fn of_partitioned_weights(pass: &Pass<'_, '_>, settings: &DeepSpeed) -> Traffic {
    let DeepSpeed { world, gathering, .. } = *settings;
    let micro_batches = pass.micro_batches;
    let mut traffic = Traffic { local: accessed_by_engine(pass, settings), ..Traffic::default() };
    let mut later = 0;
    for weight in pass.bound.model.parameters.iter().rev() {
        let (elements, bytes) = (pass.elements(weight), pass.bytes(weight));
        let sent = sent(bytes, world);
        let gathers = match elements <= gathering.persistent as u64 {
            true => 1,
            false if 2 * later >= gathering.reuse_distance as u64 => 2 * micro_batches,
            false => micro_batches,
        };
        traffic.all_gather += sent * gathers;
        // Weights that are gathered together are copied out of their buffer.
        traffic.local += 2 * bytes * gathers;
        if pass.is_trained(weight) {
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
fn accessed_by_engine(pass: &Pass<'_, '_>, settings: &DeepSpeed) -> u64 {
    const SINGLE: u64 = 4;
    const DOUBLE: u64 = 8;
    let of = |weight: &Weight| {
        let dtype = pass.bound.tensor(weight.tensor).dtype;
        let own = dtype.bytes();
        let (overflow, cast) = if dtype == Dtype::Float32 { (0, 0) } else { (2 * own, own + SINGLE) };
        let norm = own + 2 * DOUBLE;
        let clipped = if settings.clips { 2 * SINGLE } else { 0 };
        pass.elements(weight) * (overflow + norm + 2 * own + cast + clipped + SINGLE + own)
    };
    pass.trained().map(of).sum::<u64>() / u64::from(settings.world.max(1))
}

/// Each layer that is split by rows adds up what it returns, each that is split by columns the gradient of its input.
fn of_split_layers(pass: &Pass<'_, '_>, world: u32) -> Traffic {
    let bound = pass.bound;
    let layers = split_layers(bound);
    let requires_grad = requires_grad(bound, &pass.frozen);
    let has_gradient = |tensor: &&TensorId| pass.trains && requires_grad[tensor.0 as usize];
    let mut bytes = 0;
    for step in &bound.steps {
        let tensors = match step {
            BoundStep::Enter(module, given) if layers.get(module) == Some(&LayerSplit::Columns) => {
                given.first().filter(has_gradient)
            }
            BoundStep::Exit(module, results) if layers.get(module) == Some(&LayerSplit::Rows) => results.first(),
            _ => None,
        };
        bytes += tensors.map_or(0, |tensor| bound.tensor(*tensor).bytes);
    }
    Traffic { all_reduce: 2 * sent(bytes, world) * pass.micro_batches, ..Traffic::default() }
}

/// How often a sharded module runs in a micro-batch.
#[derive(Clone, Copy, Default)]
struct Runs {
    /// Forward.
    forward: u64,
    /// Backward passes before which its weights are gathered.
    backward: u64,
}

/// How often each sharded module runs. Before its backward pass the weights of the module that ran before it are gathered, too, whether or
/// not they are needed.
fn runs(pass: &Pass<'_, '_>, modules: &[usize]) -> BTreeMap<usize, Runs> {
    let requires_grad = requires_grad(pass.bound, &pass.frozen);
    let mut ended: Vec<(usize, bool)> = Vec::new();
    for step in &pass.bound.steps {
        if let BoundStep::Exit(module, results) = step
            && modules.contains(&(*module as usize))
        {
            let has_backward = pass.trains && results.iter().any(|result| requires_grad[result.0 as usize]);
            ended.push((*module as usize, has_backward));
        }
    }
    let mut found: BTreeMap<usize, Runs> = BTreeMap::new();
    for (position, (module, has_backward)) in ended.iter().enumerate() {
        let is_next = ended.get(position + 1).is_some_and(|(_, has_backward)| *has_backward);
        let runs = found.entry(*module).or_default();
        runs.forward += 1;
        runs.backward += u64::from(*has_backward || is_next);
    }
    found
}

fn of_shards(pass: &Pass<'_, '_>, settings: &Sharded) -> Traffic {
    let model = pass.bound.model;
    let mut is_known = vec![false; model.parameters.len()];
    let mut traffic = Traffic::default();
    let modules = sharded_modules(pass.bound, settings).unwrap_or_default();
    let runs = runs(pass, &modules);
    for module in modules {
        let path = model.modules[module].path.as_deref().unwrap_or_default();
        let (mut gathered, mut reduced) = (0, 0);
        for index in in_module_order(path, &model.parameters) {
            if std::mem::replace(&mut is_known[index], true) {
                continue;
            }
            let weight = &model.parameters[index];
            let dtype = pass.bound.tensor(weight.tensor).dtype;
            gathered += pass.bytes(weight);
            if pass.is_trained(weight) {
                reduced += pass.elements(weight) * settings.reduce_dtype.unwrap_or(dtype).bytes();
            }
        }
        let Runs { forward, backward } = runs.get(&module).copied().unwrap_or_default();
        let whole = sent(gathered, settings.shards);
        // Weights that stay gathered are freed by the backward pass; without one they are never gathered again.
        let (gathers, bytes) = match settings.reshard(module == 0) {
            Reshard::No if pass.trains => (forward.min(1), whole * forward.min(1)),
            Reshard::No => (0, 0),
            Reshard::Yes => (forward + backward, whole * (forward + backward)),
            Reshard::Over(ranks) => {
                let first = if pass.trains { whole * forward } else { sent(gathered, ranks) * forward };
                (forward + backward, first + sent(gathered, ranks) * backward)
            }
        };
        // A rank's part is copied into a message; gathered weights are copied out of it, gradients into another.
        traffic.local += 2 * (gathered + gathered / u64::from(settings.shards.max(1))) * gathers * pass.micro_batches;
        traffic.local += 2 * reduced * pass.reductions;
        traffic.all_gather += bytes * pass.micro_batches;
        traffic.reduce_scatter += sent(reduced, settings.shards) * pass.reductions;
        traffic.all_reduce += 2 * sent(reduced / u64::from(settings.shards), settings.replicas) * pass.reductions;
    }
    traffic
}
