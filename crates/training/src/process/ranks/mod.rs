//! One rank of a training that is spread over several.
//!
//! The rules follow PyTorch's own code: `reducer.cpp` and `distributed.py` for replicas, `torch/distributed/fsdp/_fully_shard` for
//! shards, `torch/distributed/tensor` for linear layers that are split. Collectives themselves allocate nothing here: what NCCL takes is
//! beside PyTorch's allocator.

mod buckets;
mod copies;
mod deepspeed;
mod group;
mod replica;
mod requires_grad;
mod sharding;
mod shards;
mod sink;
mod streams;
mod tensor_parallel;
mod traffic;

use std::rc::Rc;

use vramfit_eager::autograd::engine::GradientHook;
use vramfit_eager::autograd::{Context, Tensor};
use vramfit_eager::forward::ModuleHooks;

pub(super) use deepspeed::{Engine, Moved, PartitionedEngine};
pub(super) use replica::Replica;

pub use sharding::sharded_modules;
pub(super) use sharding::{check_head, shard};
use shards::Shards;
use tensor_parallel::SplitLayers;
pub(super) use tensor_parallel::split_model;
pub use traffic::Traffic;

/// A model as this rank has it.
pub(crate) enum Rank {
    /// A copy of it.
    Replica(Replica),
    /// A part of each weight.
    Shards(Rc<Shards>),
    /// Columns or rows of linear layers.
    Tensor(Rc<SplitLayers>),
    /// All of it, in DeepSpeed's engine.
    DeepSpeed(Rc<Engine>),
    /// A part of each weight, in DeepSpeed's engine.
    Partitioned(Rc<PartitionedEngine>),
}

impl Rank {
    /// Whether gradients are reduced from now on.
    pub fn set_reduces(&mut self, reduces: bool) {
        match self {
            Rank::Replica(replica) => replica.set_reduces(reduces),
            Rank::Shards(shards) => shards.set_reduces(reduces),
            Rank::Tensor(_) => {}
            Rank::DeepSpeed(engine) => engine.set_last(reduces),
            Rank::Partitioned(engine) => engine.set_last(reduces),
        }
    }

    /// What the wrapper does before the model's forward pass.
    pub fn before_forward(&mut self, context: &mut Context) {
        if let Rank::Replica(replica) = self {
            replica.before_forward(context);
        }
    }

    /// What runs when a backward pass has ended.
    pub fn after_backward(&self, context: &mut Context) {
        match self {
            Rank::Replica(replica) => replica.after_backward(),
            Rank::Shards(shards) => shards.after_backward(context),
            Rank::Tensor(_) | Rank::DeepSpeed(_) | Rank::Partitioned(_) => {}
        }
    }

    /// The hooks on modules in a forward pass.
    pub fn module_hooks(&self) -> Option<Rc<dyn ModuleHooks>> {
        match self {
            Rank::Replica(replica) => replica.output_hooks(),
            Rank::Shards(shards) => Some(Rc::<Shards>::clone(shards)),
            Rank::Tensor(layers) => Some(Rc::<SplitLayers>::clone(layers)),
            Rank::DeepSpeed(_) => None,
            Rank::Partitioned(engine) => Some(engine.module_hooks()),
        }
    }

    /// The hooks on modules where a checkpointed region runs again: those within the region.
    pub fn hooks_again(&self) -> Option<Rc<dyn ModuleHooks>> {
        match self {
            Rank::Replica(_) | Rank::Shards(_) | Rank::DeepSpeed(_) => None,
            Rank::Tensor(_) | Rank::Partitioned(_) => self.module_hooks(),
        }
    }

    /// The hook of DeepSpeed's engine, called when a weight has its gradient; `None` without an engine.
    pub fn engine_hook(&self) -> Option<GradientHook> {
        match self {
            Rank::Replica(_) | Rank::Shards(_) | Rank::Tensor(_) => None,
            Rank::DeepSpeed(engine) => Some(engine.hook()),
            Rank::Partitioned(engine) => Some(engine.gradient_hook()),
        }
    }

    /// What DeepSpeed's engine does when the call of `backward` has returned.
    pub fn finish_backward(&self, context: &Context) {
        match self {
            Rank::Replica(_) | Rank::Shards(_) | Rank::Tensor(_) => {}
            Rank::DeepSpeed(engine) => engine.after_backward(context),
            Rank::Partitioned(engine) => engine.after_backward(context),
        }
    }

    /// Calls `look` with all memory that stays from step to step and that the model's own tensors do not have.
    pub fn each_tensor(&self, look: impl FnMut(&Tensor)) {
        match self {
            Rank::Replica(replica) => replica.each_tensor(look),
            Rank::Shards(shards) => shards.each_tensor(look),
            Rank::Tensor(_) => {}
            Rank::DeepSpeed(engine) => engine.each_tensor(look),
            Rank::Partitioned(engine) => engine.each_tensor(look),
        }
    }

    /// The tensors that each step makes again.
    pub fn fresh(&self) -> Vec<Tensor> {
        match self {
            Rank::Replica(_) | Rank::Shards(_) | Rank::Tensor(_) => Vec::new(),
            Rank::DeepSpeed(engine) => engine.fresh(),
            Rank::Partitioned(engine) => engine.fresh(),
        }
    }

    /// Whether weights get other memory in each step.
    pub fn has_fresh_weights(&self) -> bool {
        matches!(self, Rank::Partitioned(_))
    }

    /// Whether a step requests what the step before it did.
    pub fn is_settled(&self) -> bool {
        match self {
            Rank::Replica(replica) => replica.is_settled(),
            Rank::Shards(_) | Rank::Tensor(_) | Rank::DeepSpeed(_) => true,
            Rank::Partitioned(engine) => engine.is_settled(),
        }
    }
}
