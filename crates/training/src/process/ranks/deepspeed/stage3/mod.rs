//! DeepSpeed's engine with ZeRO stage 3, as `runtime/zero/stage3.py` and the files beside it have it in DeepSpeed 0.19.
//!
//! Each rank has a part of every weight. Hooks on modules gather weights before they are used and free them afterwards; the first pass
//! records their order, later ones gather ahead.

mod coordinator;
mod hooks;
mod norms;
mod partitioning;
mod reduction;
mod trace;
mod update;
mod weights;

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

use vramfit_eager::autograd::engine::GradientHook;
use vramfit_eager::autograd::{Context, Tensor};
use vramfit_eager::memory::Stream;
use vramfit_graph::dtype::Dtype;

use crate::optimizer::Parameter;
use crate::script::DeepSpeed;
use coordinator::Coordinator;
use hooks::Hooks;
pub(in crate::process) use partitioning::Moved;
use reduction::Reduction;

/// `sub_group_size`: so many elements of master weights are updated at a time.
const SUB_GROUP_ELEMENTS: i64 = 1_000_000_000;

/// The engine of a model whose weights are partitioned.
pub(crate) struct PartitionedEngine {
    settings: DeepSpeed,
    /// The type of the weights.
    dtype: Dtype,
    coordinator: Rc<RefCell<Coordinator>>,
    hooks: Rc<Hooks>,
    /// The weight of each leaf of the backward graph.
    leaves: HashMap<u32, usize>,
    /// The flat parts of the weights that are trained, those of the others, and a flag.
    lasting: Vec<Tensor>,
    /// The bucket's memory.
    bucket: Tensor,
    /// This rank's parts of the gradients, where they are not on the CPU.
    gradients: Option<Tensor>,
    /// The master weights, one tensor for each sub-group, and its weights.
    masters: Vec<Parameter>,
    sub_groups: Vec<Vec<usize>>,
    reduction: RefCell<Reduction>,
    /// The norm of the gradients of the last update.
    norm: RefCell<Option<Tensor>>,
    /// How many updates there have been.
    updates: Cell<u32>,
}

impl PartitionedEngine {
    /// Whether the next backward pass is the last of its step.
    pub fn set_last(&self, is_last: bool) {
        self.reduction.borrow_mut().more_follow = !is_last;
    }

    /// The hook that is called when a weight has its gradient.
    pub fn gradient_hook(self: &Rc<Self>) -> GradientHook {
        let engine = Rc::clone(self);
        GradientHook(Rc::new(move |context: &mut Context, leaf: u32| {
            if let Some(&weight) = engine.leaves.get(&leaf) {
                engine.gradient_is_ready(context, weight);
            }
        }))
    }

    /// `reduce_and_partition_stream`.
    fn reduction_stream(&self) -> Stream {
        if self.settings.overlaps { Stream::ReduceScatter } else { Stream::Compute }
    }

    /// The hooks on modules.
    pub(in crate::process) fn module_hooks(&self) -> Rc<Hooks> {
        Rc::clone(&self.hooks)
    }

    /// Calls `look` with all memory that stays from step to step.
    pub fn each_tensor(&self, mut look: impl FnMut(&Tensor)) {
        let masters = self.masters.iter().map(|master| &master.tensor);
        self.lasting.iter().chain(masters).chain(&self.gradients).for_each(&mut look);
        look(&self.bucket);
    }

    /// What later steps make again.
    pub fn fresh(&self) -> Vec<Tensor> {
        let mut fresh = self.reduction.borrow().norms();
        fresh.extend(self.norm.borrow().clone());
        fresh
    }

    /// Whether a step or micro-batch requests what the one before it did: the first pass is recorded, and only later updates begin with
    /// weights that have stayed gathered.
    pub fn is_settled(&self) -> bool {
        self.updates.get() != 1 && self.coordinator.borrow().is_settled()
    }
}
