//! The GPUs that a training may be spread over, and how fast they talk to each other.

use vramfit_eager::forward::Choice;
use vramfit_price::StepTime;
use vramfit_training::script::{AfterForward, DeepSpeed, Gathering, Parallel, Replicated, Sharded, ZeroStage};
use vramfit_training::{Loop, Traffic};

/// The buckets of gradients of DeepSpeed's engine that are tried, in elements. The time of a step is not priced by the bucket.
pub(crate) const BUCKETS: [i64; 2] = [50_000_000, 10_000_000];

/// `fully_shard` on each block and the root.
fn sharded(replicas: u32, shards: u32, after_forward: AfterForward) -> Sharded {
    Sharded {
        shards,
        replicas,
        modules: Choice::Blocks,
        after_forward,
        stored_dtype: None,
        param_dtype: None,
        reduce_dtype: None,
        offloads: false,
        skips_sync: false,
    }
}

/// GPUs in one machine or several.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cluster {
    /// How many machines there are.
    pub nodes: u32,
    /// How many GPUs each has.
    pub gpus: u32,
    /// What a GPU sends to another of its machine, in bytes a second.
    pub link: f64,
    /// What a GPU sends to another machine, in bytes a second.
    pub network: f64,
}

impl Cluster {
    /// How many GPUs there are.
    pub fn world(&self) -> u32 {
        self.nodes * self.gpus
    }

    /// `DistributedDataParallel` over all of them.
    pub fn replicated(&self) -> Parallel {
        Parallel::Replicated(Replicated {
            world: self.world(),
            gradients_are_views: false,
            has_static_graph: false,
            splits_optimizer: false,
            skips_sync: true,
        })
    }

    /// `fully_shard` over all of them, with the settings of `given` that are not about how many there are, if it is `fully_shard`.
    pub fn sharded_as(&self, given: &Parallel) -> Parallel {
        let over_all = sharded(1, self.world(), AfterForward::FreedButRoot);
        Parallel::Sharded(match given {
            Parallel::Sharded(given) => Sharded {
                shards: over_all.shards,
                replicas: 1,
                after_forward: match given.after_forward {
                    // It may not divide them.
                    AfterForward::Split(_) => over_all.after_forward,
                    other => other,
                },
                ..given.clone()
            },
            _ => over_all,
        })
    }

    /// A stage of DeepSpeed's ZeRO over all of them.
    fn zero(&self, stage: ZeroStage, bucket: i64, clips: bool) -> Parallel {
        let gathering = Gathering::default();
        let (world, overlaps, offloads_weights) = (self.world(), true, false);
        Parallel::DeepSpeed(DeepSpeed { world, stage, bucket, overlaps, clips, gathering, offloads_weights })
    }

    /// The ways of spreading a training that clips gradients or not, PyTorch's own first, of these the one that sends least.
    pub fn ways(&self, clips: bool) -> Vec<Parallel> {
        let mut ways = vec![self.replicated()];
        if self.nodes > 1 && self.gpus > 1 {
            ways.push(Parallel::Sharded(sharded(self.nodes, self.gpus, AfterForward::Kept)));
            ways.push(Parallel::Sharded(sharded(self.nodes, self.gpus, AfterForward::FreedButRoot)));
        }
        if self.world() > 1 {
            ways.push(Parallel::Sharded(sharded(1, self.world(), AfterForward::Kept)));
            ways.push(Parallel::Sharded(sharded(1, self.world(), AfterForward::FreedButRoot)));
            let on_cpu = sharded(1, self.world(), AfterForward::FreedButRoot);
            ways.push(Parallel::Sharded(Sharded { offloads: true, ..on_cpu }));
            let stages = [ZeroStage::Two, ZeroStage::Three];
            ways.extend(stages.into_iter().flat_map(|stage| BUCKETS.map(|bucket| self.zero(stage, bucket, clips))));
        }
        ways
    }

    /// Seconds in which a rank only sends and receives, in a step that takes so long to compute.
    pub(crate) fn waits(&self, traffic: Traffic, training: &Loop, computes: StepTime) -> f64 {
        let (shards, replicas) = match &training.parallel {
            Parallel::None => return 0.0,
            Parallel::Replicated(settings) => (1, settings.world),
            Parallel::Sharded(settings) => (settings.shards, settings.replicas),
            Parallel::Tensor(settings) => (settings.world, 1),
            Parallel::DeepSpeed(settings) => (settings.world, 1),
        };
        let within = if shards <= self.gpus { self.link } else { self.link.min(self.network) };
        let between = if shards * replicas <= self.gpus { self.link } else { self.link.min(self.network) };
        let gathers = traffic.all_gather as f64 / within + traffic.broadcast as f64 / between;
        let reduces = traffic.reduce_scatter as f64 / within + traffic.all_reduce as f64 / between;
        let passes = computes.forward + computes.backward;
        // Gradients are reduced while others are computed: in the last micro-batch only, or in each.
        let reducing_passes = if training.parallel.skips_sync() { f64::from(training.accumulate.max(1)) } else { 1.0 };
        let backward = computes.backward / reducing_passes;
        match &training.parallel {
            Parallel::None => 0.0,
            Parallel::Replicated(_) => gathers + (reduces - backward).max(0.0),
            Parallel::Sharded(_) => (gathers + reduces - passes).max(0.0),
            // What a split layer returns is needed at once.
            Parallel::Tensor(_) => gathers + reduces,
            Parallel::DeepSpeed(settings) => match (settings.stage, settings.overlaps) {
                (_, false) => gathers + reduces,
                (ZeroStage::Three, true) => (gathers + reduces - passes).max(0.0),
                // Weights are gathered when the update has ended.
                (ZeroStage::One | ZeroStage::Two, true) => gathers + (reduces - backward).max(0.0),
            },
        }
    }
}
