//! How a training is spread over ranks, of which one is simulated.

use vramfit_eager::forward::Choice;
use vramfit_eager::tensor_parallel::{SplitError, split};
use vramfit_graph::bind::Bound;
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
    /// Each rank has columns or rows of the linear layers: `parallelize_module`.
    Tensor(TensorParallel),
    /// Each rank has the whole model and updates a part of it: DeepSpeed's ZeRO.
    DeepSpeed(DeepSpeed),
}

/// The settings of DeepSpeed's ZeRO.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DeepSpeed {
    /// How many ranks there are.
    pub world: u32,
    /// What is split over them.
    pub stage: ZeroStage,
    /// `reduce_bucket_size`, in elements.
    pub bucket: i64,
    /// `overlap_comm`: gradients are reduced while others are computed.
    pub overlaps: bool,
    /// Whether `gradient_clipping` is above 0.
    pub clips: bool,
    /// When stage 3 gathers and frees weights.
    pub gathering: Gathering,
    /// `offload_param` of stage 3: this rank's parts of the weights are on the CPU.
    pub offloads_weights: bool,
}

impl DeepSpeed {
    /// `reduce_bucket_size` where the configuration does not have it.
    pub const BUCKET: i64 = 500_000_000;
    /// Whether gradients are clipped where the configuration does not say: DeepSpeed 0.19 clips them to a norm of 1.
    pub const CLIPS: bool = true;
}

/// When ZeRO stage 3 gathers and frees weights. All are numbers of elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Gathering {
    /// `stage3_prefetch_bucket_size`: so many are gathered ahead at a time.
    pub ahead: i64,
    /// `stage3_max_live_parameters`: none are gathered ahead beyond so many that are there.
    pub live: i64,
    /// `stage3_max_reuse_distance`: a weight that is used again within so many is not freed.
    pub reuse_distance: i64,
    /// `stage3_param_persistence_threshold`: weights of at most so many stay gathered from update to update.
    pub persistent: i64,
}

impl Default for Gathering {
    fn default() -> Gathering {
        Gathering { ahead: 50_000_000, live: 1_000_000_000, reuse_distance: 1_000_000_000, persistent: 100_000 }
    }
}

/// A stage of ZeRO: what is split over the ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ZeroStage {
    /// The optimizer's state.
    One,
    /// Gradients, too.
    Two,
    /// Weights, too.
    Three,
}

impl ZeroStage {
    /// `overlap_comm` where the configuration does not have it.
    pub fn overlaps_by_default(self) -> bool {
        self == ZeroStage::Three
    }

    /// Its number.
    pub fn number(self) -> u32 {
        match self {
            ZeroStage::One => 1,
            ZeroStage::Two => 2,
            ZeroStage::Three => 3,
        }
    }
}

/// The settings of tensor parallelism.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TensorParallel {
    /// Over how many ranks layers are split.
    pub world: u32,
}

/// The settings of `DistributedDataParallel`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Replicated {
    /// How many ranks there are.
    pub world: u32,
    /// Whether gradients are views of the buckets they are reduced in.
    pub gradients_are_views: bool,
    /// Whether the graph is said to stay the same: the first step then learns it and reduces all gradients at its end.
    pub has_static_graph: bool,
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
    /// How many replicas of the model there are.
    pub replicas: u32,
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

/// What becomes of a module's gathered weights after its forward pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reshard {
    /// They stay gathered.
    No,
    /// They are freed.
    Yes,
    /// They are resharded over so many ranks.
    Over(u32),
}

impl Sharded {
    /// The type that a weight is stored in, of the type it was built in and the one that its module computes in.
    pub fn stored(&self, built: Dtype, computed: Dtype) -> Dtype {
        match self.param_dtype {
            Some(_) => self.stored_dtype.unwrap_or(built),
            None => computed,
        }
    }

    /// What becomes of the gathered weights of the root module, or of another.
    pub fn reshard(&self, is_root: bool) -> Reshard {
        match self.after_forward {
            AfterForward::FreedButRoot if is_root => Reshard::No,
            AfterForward::FreedButRoot | AfterForward::Freed => Reshard::Yes,
            AfterForward::Kept | AfterForward::Split(1) => Reshard::No,
            AfterForward::Split(ranks) if ranks == self.shards => Reshard::Yes,
            AfterForward::Split(ranks) => Reshard::Over(ranks),
        }
    }
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
            Parallel::Sharded(settings) => settings.shards * settings.replicas,
            Parallel::Tensor(settings) => settings.world,
            Parallel::DeepSpeed(settings) => settings.world,
        }
    }

    /// The type that weights are stored in, of the type they were built in and the one that they are computed with.
    pub fn stored(&self, built: Dtype, computed: Dtype) -> Dtype {
        match self {
            Parallel::Sharded(settings) => settings.stored(built, computed),
            _ => computed,
        }
    }

    /// The type that the whole model is cast to, where it computes as if cast to `computed`: `fully_shard` casts for each module what it
    /// computes with.
    pub fn cast_to(&self, computed: Option<Dtype>) -> Option<Dtype> {
        match self {
            Parallel::Sharded(Sharded { param_dtype: Some(_), stored_dtype, .. }) => *stored_dtype,
            _ => computed,
        }
    }

    /// How many batches there are at a time: ranks that split layers work on the same one.
    pub fn batches(&self) -> u32 {
        match self {
            Parallel::Tensor(_) => 1,
            _ => self.world(),
        }
    }

    /// Over how many ranks the update of a weight is split.
    pub fn update_ranks(&self) -> u32 {
        match self {
            // A rank has weights of its own.
            Parallel::None | Parallel::Tensor(_) => 1,
            Parallel::Replicated(settings) => {
                if settings.splits_optimizer {
                    settings.world
                } else {
                    1
                }
            }
            Parallel::Sharded(settings) => settings.shards,
            Parallel::DeepSpeed(settings) => settings.world,
        }
    }

    /// Whether each rank has a part of the optimizer, by `ZeroRedundancyOptimizer`.
    pub fn splits_optimizer(&self) -> bool {
        matches!(self, Parallel::Replicated(settings) if settings.splits_optimizer)
    }

    /// Whether weights, gradients and the optimizer's state are on the CPU.
    pub fn offloads(&self) -> bool {
        matches!(self, Parallel::Sharded(settings) if settings.offloads)
    }

    /// Whether DeepSpeed's engine divides the loss, frees and clips gradients and updates weights, not the loop.
    pub fn has_engine(&self) -> bool {
        matches!(self, Parallel::DeepSpeed(_))
    }

    /// Whether only the last micro-batch of a step reduces gradients.
    pub fn skips_sync(&self) -> bool {
        match self {
            Parallel::None => false,
            Parallel::Replicated(settings) => settings.skips_sync,
            Parallel::Sharded(settings) => settings.skips_sync,
            Parallel::Tensor(_) => false,
            Parallel::DeepSpeed(settings) => settings.stage == ZeroStage::One,
        }
    }

    /// Gives the tensors of a model the sizes that they have on one rank.
    ///
    /// # Errors
    /// The model cannot be split.
    pub(super) fn resize(&self, bound: &mut Bound<'_>) -> Result<(), SplitError> {
        match self {
            Parallel::Tensor(settings) => split(bound, settings.world),
            Parallel::None | Parallel::Replicated(_) | Parallel::Sharded(_) | Parallel::DeepSpeed(_) => Ok(()),
        }
    }
}
