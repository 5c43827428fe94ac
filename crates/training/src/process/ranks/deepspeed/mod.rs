//! DeepSpeed's engine with ZeRO stage 1 or 2, as `runtime/engine.py` and `runtime/zero/stage_1_and_2.py` of DeepSpeed 0.19 have it.
//!
//! The weights are views of one flat tensor, of which each rank updates a part: it has the part's master weights in single
//! precision and the optimizer's state for them. Gradients are copied into a bucket and reduced when it is full.

mod partition;
mod reduction;
mod scalars;
mod stage3;
mod update;

use std::cell::RefCell;
use std::rc::Rc;

use vramfit_eager::autograd::engine::GradientHook;
use vramfit_eager::autograd::{Context, Tensor};
use vramfit_eager::memory::Category;
use vramfit_graph::dtype::Dtype;
use vramfit_graph::layout::Layout;

use super::super::moves::Tensors;
use super::streams::create_streams;
use crate::optimizer::{Optimizer, Parameter};
use crate::script::{DeepSpeed, OptimizerSetup, StatePlace};
use partition::Partitions;
use reduction::Reduction;
pub(in crate::process) use stage3::{Moved, PartitionedEngine};

/// The engine of a model.
pub(crate) struct Engine {
    settings: DeepSpeed,
    /// The weights that are trained, by the number that hooks are called with.
    weights: Vec<(usize, Parameter)>,
    partitions: Partitions,
    /// The type of the weights.
    dtype: Dtype,
    /// The master weights of this rank's part; on the CPU with its optimizer.
    master: Parameter,
    /// With the optimizer on the CPU: where gradients come back from there to be added to.
    staging: Option<Tensor>,
    reduction: RefCell<Reduction>,
    /// The norm of the gradients of the last update.
    norm: RefCell<Option<Tensor>>,
}

impl Engine {
    /// `deepspeed.initialize`, once the model has been moved to the GPU: its weights become views of a flat tensor.
    pub fn new(
        context: &mut Context,
        settings: DeepSpeed,
        setup: Option<&OptimizerSetup>,
        parameters: &mut [Parameter],
        tensors: &mut Tensors,
        ids: &[usize],
    ) -> Option<(Engine, Option<Optimizer>)> {
        let trained: Vec<usize> =
            (0..parameters.len()).filter(|&number| parameters[number].tensor.requires_grad()).collect();
        let sizes: Vec<i64> = trained.iter().map(|&number| parameters[number].tensor.layout().elements()).collect();
        let largest = sizes.iter().copied().max()?;
        let partitions = Partitions::new(sizes, settings.world);
        let dtype = parameters[*trained.first()?].tensor.dtype();
        flatten(context, parameters, tensors, &trained, ids, &partitions);
        context.memory().borrow_mut().set_category(Category::Optimizer);
        let part = |context: &Context, dtype| context.empty_contiguous(dtype, &[partitions.size]);
        let copy = part(context, dtype);
        let mut zeros = None;
        let (master, staging) = if setup.is_some_and(|setup| setup.place == StatePlace::Cpu) {
            drop(copy);
            let master = Tensor::on_host(Layout::contiguous(Dtype::Float32, &[partitions.size]));
            create_streams(context);
            context.memory().borrow_mut().set_category(Category::Gradients);
            (master, Some(context.empty_contiguous(dtype, &[largest])))
        } else {
            let master = if dtype == Dtype::Float32 { copy.clone() } else { part(context, Dtype::Float32) };
            drop(copy);
            create_streams(context);
            zeros = Some(part(context, Dtype::Float32));
            (master, None)
        };
        let weights = trained.into_iter().map(|number| (number, parameters[number].clone())).collect();
        let master = Parameter { tensor: master, gradient: Rc::default() };
        let optimizer = setup.map(|setup| Optimizer::new(context, setup.recipe, std::slice::from_ref(&master)));
        // The constructor gives the master weights a gradient, makes the optimizer's first state, and takes the gradient away again.
        drop(zeros);
        let (reduction, norm) = (RefCell::default(), RefCell::default());
        Some((Engine { settings, weights, partitions, dtype, master, staging, reduction, norm }, optimizer))
    }

    /// Whether the next backward pass is the last of its step.
    pub fn set_last(&self, is_last: bool) {
        self.reduction.borrow_mut().more_follow = !is_last;
    }

    /// The hook that is called when a weight has its gradient.
    pub fn hook(self: &Rc<Self>) -> GradientHook {
        let engine = Rc::clone(self);
        GradientHook(Rc::new(move |context: &mut Context, leaf: u32| {
            if let Ok(weight) = engine.weights.binary_search_by_key(&(leaf as usize), |(number, _)| *number) {
                engine.gradient_is_ready(context, weight);
            }
        }))
    }

    /// Calls `look` with all memory that stays from step to step.
    pub fn each_tensor(&self, mut look: impl FnMut(&Tensor)) {
        look(&self.master.tensor);
        self.staging.iter().for_each(look);
    }

    /// What later steps make again.
    pub fn fresh(&self) -> Vec<Tensor> {
        let mut fresh = self.reduction.borrow().held();
        fresh.extend(self.norm.borrow().clone());
        fresh
    }

    /// `offload_optimizer`: master weights, their gradients and the optimizer's state are on the CPU.
    fn offloads(&self) -> bool {
        self.staging.is_some()
    }

    fn gradient(&self, weight: usize) -> &RefCell<Option<Tensor>> {
        &self.weights[weight].1.gradient
    }
}

/// `flatten_dense_tensors_aligned`: a flat copy, of which the weights become views.
fn flatten(
    context: &mut Context,
    parameters: &mut [Parameter],
    tensors: &mut Tensors,
    trained: &[usize],
    ids: &[usize],
    partitions: &Partitions,
) {
    let Some(dtype) = trained.first().map(|&number| parameters[number].tensor.dtype()) else { return };
    context.memory().borrow_mut().set_category(Category::Parameters);
    let padding = (partitions.padding > 0).then(|| context.empty_contiguous(dtype, &[partitions.padding]));
    let copies: Vec<Tensor> = trained
        .iter()
        .filter(|&&number| !parameters[number].tensor.layout().is_contiguous())
        .map(|&number| context.contiguous(&parameters[number].tensor.detach()))
        .collect();
    let flat = match trained {
        [only] if padding.is_none() => parameters[*only].tensor.detach(),
        _ => context.empty(Layout::contiguous(dtype, &[partitions.total()])),
    };
    drop(copies);
    drop(padding);
    for &number in trained {
        let weight = &parameters[number].tensor;
        let view = flat.unsafe_view(Layout::contiguous(dtype, weight.shape())).with_edge(weight.edge().cloned());
        tensors[ids[number]] = Some(view.clone());
        parameters[number].tensor = view;
    }
}
