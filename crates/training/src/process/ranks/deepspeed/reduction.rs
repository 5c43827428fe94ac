//! How gradients are reduced in buckets, and what is left of them for the update.

use vramfit_eager::autograd::{Context, Tensor};
use vramfit_eager::memory::{Category, Stream};
use vramfit_graph::dtype::Dtype;
use vramfit_graph::layout::Layout;

use super::Engine;
use super::scalars::{has_inf_or_nan, norm_of};
use crate::script::ZeroStage;

/// The bucket, and the gradients of this rank's part.
#[derive(Default)]
pub(super) struct Reduction {
    /// Whether this backward pass is not the last of its step.
    pub more_follow: bool,
    /// The bucket's memory: with overlap two buffers take turns.
    buffers: Vec<Tensor>,
    /// Which of them is being filled.
    turn: usize,
    /// Elements in the bucket.
    elements: i64,
    /// The weights whose gradients are in it.
    weights: Vec<usize>,
    /// Where gradients of this rank's part are collected in this backward pass.
    collected: Option<Tensor>,
    /// Those of the micro-batches so far.
    accumulated: Option<Vec<Tensor>>,
    /// Those that the update takes.
    pub averaged: Vec<Tensor>,
    /// With the optimizer on the CPU: the norms of the gradients that have gone there.
    pub norms: Vec<Tensor>,
}

impl Reduction {
    /// What is held between backward passes.
    pub fn held(&self) -> Vec<Tensor> {
        self.buffers
            .iter()
            .chain(self.accumulated.iter().flatten())
            .chain(&self.averaged)
            .chain(&self.norms)
            .cloned()
            .collect()
    }
}

impl Engine {
    /// `process_gradients`.
    pub(super) fn gradient_is_ready(&self, context: &mut Context, weight: usize) {
        let mut reduction = self.reduction.borrow_mut();
        if reduction.buffers.is_empty() {
            context.memory().borrow_mut().set_category(Category::Communication);
            let buffers = if self.settings.overlaps { 2 } else { 1 };
            let layout = || Layout::contiguous(self.dtype, &[self.settings.bucket]);
            reduction.buffers = (0..buffers).map(|_| context.empty(layout())).collect();
            reduction.turn = 0;
        }
        let reduces = match self.settings.stage {
            ZeroStage::One => self.settings.overlaps && !reduction.more_follow,
            ZeroStage::Two | ZeroStage::Three => true,
        };
        if reduces {
            self.add(context, &mut reduction, weight);
        }
    }

    /// `reduce_independent_p_g_buckets_and_remove_grads`: a gradient becomes a view of the bucket. One that is larger than the bucket is
    /// reduced where it is.
    fn add(&self, context: &Context, reduction: &mut Reduction, weight: usize) {
        let Some(gradient) = self.gradient(weight).borrow().clone() else { return };
        let elements = gradient.layout().elements();
        if elements == 0 {
            return;
        }
        if reduction.elements + elements > self.settings.bucket {
            self.reduce(context, reduction);
            if self.settings.overlaps {
                reduction.turn = 1 - reduction.turn;
            }
        }
        if elements <= self.settings.bucket {
            let view = reduction.buffers[reduction.turn].unsafe_view(gradient.shared_layout());
            self.gradient(weight).replace(Some(view));
        } else if self.offloads() {
            drop(gradient);
            context.memory().borrow_mut().set_category(Category::Gradients);
            let copy = self.gradient(weight).borrow().as_ref().map(|it| context.empty(it.shared_layout()));
            self.gradient(weight).replace(copy);
        }
        reduction.elements += elements;
        reduction.weights.push(weight);
    }

    /// `reduce_ipg_grads`: pieces for several ranks are copied into one message, which is sent once it is larger than the bucket.
    fn reduce(&self, context: &Context, reduction: &mut Reduction) {
        let stream = if self.settings.overlaps { Stream::AllReduce } else { Stream::Compute };
        let before = context.memory().borrow_mut().set_stream(stream);
        context.memory().borrow_mut().set_category(Category::Communication);
        let send = |pieces: &[i64]| {
            // A single piece is sent where it is.
            if pieces.len() > 1 {
                drop(context.empty(Layout::contiguous(self.dtype, &[pieces.iter().sum()])));
            }
        };
        let mut message = Vec::new();
        for piece in self.partitions.pieces(&reduction.weights) {
            message.push(piece);
            if message.iter().sum::<i64>() > self.settings.bucket {
                send(&std::mem::take(&mut message));
            }
        }
        send(&message);
        for weight in std::mem::take(&mut reduction.weights) {
            if self.partitions.is_first(weight) && self.offloads() {
                self.offload(context, reduction, weight);
            } else if self.partitions.is_first(weight) {
                self.collect(context, reduction, weight);
            } else if self.settings.stage == ZeroStage::Two {
                self.gradient(weight).take();
            }
        }
        reduction.elements = 0;
        context.memory().borrow_mut().set_stream(before);
    }

    /// `copy_grads_in_partition`.
    fn collect(&self, context: &Context, reduction: &mut Reduction, weight: usize) {
        let Some(layout) = self.gradient(weight).borrow().as_ref().map(Tensor::shared_layout) else { return };
        let collected = reduction.collected.get_or_insert_with(|| {
            context.memory().borrow_mut().set_category(Category::Gradients);
            context.empty(Layout::contiguous(self.dtype, &[self.partitions.first_elements()]))
        });
        self.gradient(weight).replace(Some(collected.unsafe_view(layout)));
    }

    /// `copy_grads_in_partition` with the optimizer on the CPU: the last micro-batch's gradients leave the GPU in single precision.
    fn offload(&self, context: &Context, reduction: &mut Reduction, weight: usize) {
        if reduction.more_follow {
            return;
        }
        let Some(gradient) = self.gradient(weight).borrow().clone() else { return };
        context.memory().borrow_mut().set_category(Category::Temporary);
        let part = Layout::contiguous(self.dtype, &[self.partitions.elements_in_first(weight)]);
        reduction.norms.push(norm_of(context, &gradient.unsafe_view(part.clone())));
        drop(has_inf_or_nan(context, &gradient));
        if self.dtype != Dtype::Float32 {
            drop(context.empty(part.with_dtype(Dtype::Float32)));
        }
        drop(gradient);
        self.gradient(weight).take();
    }

    /// `allreduce_gradients`, after each backward pass.
    pub fn after_backward(&self, context: &Context) {
        let mut reduction = self.reduction.borrow_mut();
        let reduction = &mut *reduction;
        if self.settings.stage == ZeroStage::One {
            if reduction.more_follow {
                return;
            }
            if !self.settings.overlaps {
                (0..self.weights.len()).for_each(|weight| self.add(context, reduction, weight));
            }
        }
        self.reduce(context, reduction);
        if self.offloads() {
            return self.release(reduction);
        }
        context.memory().borrow_mut().set_category(Category::Gradients);
        let zeros = |weight: usize| context.empty(self.weights[weight].1.tensor.shared_layout());
        let new: Vec<Tensor> = self
            .partitions
            .first()
            .map(|weight| self.gradient(weight).borrow().clone().unwrap_or_else(|| zeros(weight)))
            .collect();
        // In later micro-batches gradients are added to those of the first.
        let added = match reduction.accumulated {
            None => {
                reduction.accumulated = Some(new);
                None
            }
            Some(_) => Some(new),
        };
        if !reduction.more_follow {
            reduction.averaged = self.flat_part(context, reduction.accumulated.take().unwrap_or_default());
        }
        self.release(reduction);
        drop(added);
    }

    /// Frees the bucket and what is left of the gradients.
    fn release(&self, reduction: &mut Reduction) {
        reduction.buffers.clear();
        reduction.collected = None;
        for (_, weight) in &self.weights {
            weight.gradient.take();
        }
    }

    /// `get_flat_partition`: the last gradient only as far as it belongs to this rank, and zeros where all do not fill the part.
    fn flat_part(&self, context: &Context, mut gradients: Vec<Tensor>) -> Vec<Tensor> {
        let too_many = self.partitions.first_elements() - self.partitions.size;
        if too_many > 0
            && let Some(last) = gradients.last_mut()
        {
            let elements = last.layout().elements() - too_many;
            *last = last.unsafe_view(Layout::contiguous(self.dtype, &[elements]));
        } else if too_many < 0 {
            gradients.push(context.empty_contiguous(self.dtype, &[-too_many]));
        }
        gradients
    }
}
