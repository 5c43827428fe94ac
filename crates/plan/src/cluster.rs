//! The GPUs that a training may be spread over, and how fast they talk to each other.

use vramfit_eager::forward::Choice;
use vramfit_graph::bind::Bound;
use vramfit_training::script::{AfterForward, Parallel, Replicated, Sharded, ZeroStage};
use vramfit_training::{Loop, Traffic};

/// The share of a step in which gradients are computed: DDP reduces them meanwhile.
const BACKWARD: f64 = 2.0 / 3.0;

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

    /// `fully_shard` over all of them, as it is by default.
    pub fn sharded(&self) -> Parallel {
        Parallel::Sharded(sharded(1, self.world(), AfterForward::FreedButRoot))
    }

    /// The ways of spreading a training, the one that sends least first.
    pub fn ways(&self) -> Vec<Parallel> {
        let mut ways = vec![self.replicated()];
        if self.nodes > 1 && self.gpus > 1 {
            ways.push(Parallel::Sharded(sharded(self.nodes, self.gpus, AfterForward::Kept)));
            ways.push(Parallel::Sharded(sharded(self.nodes, self.gpus, AfterForward::FreedButRoot)));
        }
        if self.world() > 1 {
            ways.push(Parallel::Sharded(sharded(1, self.world(), AfterForward::Kept)));
            ways.push(self.sharded());
            let on_cpu = sharded(1, self.world(), AfterForward::FreedButRoot);
            ways.push(Parallel::Sharded(Sharded { offloads: true, ..on_cpu }));
        }
        ways
    }

    /// Seconds in which a rank only sends and receives, in a step that computes for so many seconds.
    pub(crate) fn waits(&self, bound: &Bound<'_>, training: &Loop, computes: f64) -> f64 {
        let Traffic { all_gather, reduce_scatter, all_reduce } = Traffic::of(bound, training);
        let (shards, replicas) = match &training.parallel {
            Parallel::None => return 0.0,
            Parallel::Replicated(settings) => (1, settings.world),
            Parallel::Sharded(settings) => (settings.shards, settings.replicas),
            Parallel::Tensor(settings) => (settings.world, 1),
            Parallel::DeepSpeed(settings) if settings.stage == ZeroStage::Three => (settings.world, 1),
            Parallel::DeepSpeed(settings) => (1, settings.world),
        };
        let within = if shards <= self.gpus { self.link } else { self.link.min(self.network) };
        let between = if shards * replicas <= self.gpus { self.link } else { self.link.min(self.network) };
        let seconds = (all_gather + reduce_scatter) as f64 / within + all_reduce as f64 / between;
        let meanwhile = match training.parallel {
            Parallel::Replicated(_) => computes * BACKWARD,
            // What a split layer returns is needed at once.
            Parallel::Tensor(_) => 0.0,
            _ => computes,
        };
        (seconds - meanwhile).max(0.0)
    }
}
