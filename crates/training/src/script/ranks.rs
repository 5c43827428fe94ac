//! How a training is spread over ranks, of which one is simulated.

use vramfit_eager::forward::Choice;
use vramfit_graph::dtype::Dtype;

/// The way of spreading a training.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub enum Parallel {
    /// One process.
    #[default]
    None,
    /// Each rank has the whole model: `DistributedDataParallel`.
    Replicated(Replicated),
    /// Each rank has a part of every weight: `fully_shard`.
    Sharded(Sharded),
}

/// The settings of `DistributedDataParallel`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Replicated {
    /// How many ranks there are.
    pub world: u32,
    /// Whether gradients are views of the buckets they are reduced in.
    pub gradients_are_views: bool,
    /// Whether each rank has a part of the optimizer: `ZeroRedundancyOptimizer`.
    pub splits_optimizer: bool,
    /// Whether only the last micro-batch of a step reduces gradients.
    pub skips_sync: bool,
}

/// The settings of `fully_shard`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Sharded {
    /// Over how many ranks a weight is split.
    pub shards: u32,
    /// How many copies of the model there are.
    pub copies: u32,
    /// The modules that are sharded one by one, beside the root.
    pub modules: Choice,
    /// What becomes of gathered weights between a module's forward and backward pass.
    pub after_forward: AfterForward,
    /// The type that weights are stored in where modules compute in another; `None` for the type they were built in.
    pub stored_dtype: Option<Dtype>,
    /// The type that modules compute in.
    pub param_dtype: Option<Dtype>,
    /// The type that gradients are reduced in.
    pub reduce_dtype: Option<Dtype>,
    /// Whether weights, gradients and the optimizer's state are on the CPU.
    pub offloads: bool,
    /// Whether only the last micro-batch of a step reduces gradients.
    pub skips_sync: bool,
}

/// `reshard_after_forward`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum AfterForward {
    /// Freed, but for those of the root module.
    #[default]
    FreedButRoot,
    /// Freed.
    Freed,
    /// Kept.
    Kept,
    /// Split over so many ranks.
    Split(u32),
}

impl Parallel {
    /// How many ranks there are.
    pub fn world(&self) -> u32 {
        match self {
            Parallel::None => 1,
            Parallel::Replicated(settings) => settings.world,
            Parallel::Sharded(settings) => settings.shards * settings.copies,
        }
    }

    /// Whether only the last micro-batch of a step reduces gradients.
    pub fn skips_sync(&self) -> bool {
        match self {
            Parallel::None => false,
            Parallel::Replicated(settings) => settings.skips_sync,
            Parallel::Sharded(settings) => settings.skips_sync,
        }
    }
}
