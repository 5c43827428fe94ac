//! How gradients are reduced in buckets and this rank's parts of them kept.

use vramfit_eager::autograd::{Context, Tensor};
use vramfit_eager::memory::{Category, Storage};
use vramfit_graph::dtype::Dtype;
use vramfit_graph::layout::Layout;

use super::PartitionedEngine;
use super::norms::buffered_norm;
use super::weights::{Weight, part_of};

/// The bucket.
#[derive(Default)]
pub(super) struct Reduction {
    /// Whether this backward pass is not the last of its step.
    pub more_follow: bool,
    /// Whether gradients are added to those of micro-batches before.
    pub adds: bool,
    /// Elements in the bucket.
    elements: i64,
    /// The weights whose gradients are in it.
    weights: Vec<usize>,
    /// With the optimizer on the CPU: by weight, the norm of the gradient that has gone there.
    norms: Vec<(usize, Tensor)>,
}

impl Reduction {
    /// The norms in the order of their weights; those of this step are not needed any more.
    pub fn take_norms(&mut self) -> Vec<(usize, Tensor)> {
        std::mem::take(&mut self.norms)
    }

    /// What is held between backward passes.
    pub fn norms(&self) -> Vec<Tensor> {
        self.norms.iter().map(|(_, norm)| norm.clone()).collect()
    }
}

impl PartitionedEngine {
    /// `reduce_independent_p_g_buckets_and_remove_grads`: a gradient that fits becomes a view of the bucket.
    pub(super) fn gradient_is_ready(&self, context: &mut Context, index: usize) {
        let mut reduction = self.reduction.borrow_mut();
        let (elements, limit) = (self.coordinator.borrow().partitioned.weights[index].elements(), self.settings.bucket);
        if reduction.elements + elements > limit && reduction.elements > 0 {
            self.reduce(context, &mut reduction);
        }
        let coordinator = self.coordinator.borrow();
        let weight = &coordinator.partitioned.weights[index];
        if reduction.elements + elements <= limit
            && let Some(gradient) = weight.gradient()
        {
            weight.whole.gradient.replace(Some(self.bucket.unsafe_view(gradient.shared_layout())));
        }
        reduction.elements += elements;
        reduction.weights.push(index);
    }

    /// `__reduce_and_partition_ipg_grads`.
    fn reduce(&self, context: &Context, reduction: &mut Reduction) {
        reduction.elements = 0;
        let mut weights = std::mem::take(&mut reduction.weights);
        if weights.is_empty() {
            return;
        }
        weights.sort_unstable();
        let before = context.memory().borrow_mut().set_stream(self.reduction_stream());
        context.memory().borrow_mut().set_category(Category::Communication);
        let coordinator = self.coordinator.borrow();
        let all = &coordinator.partitioned.weights;
        let sent = self.scatter(context, &weights.iter().map(|&weight| &all[weight]).collect::<Vec<_>>());
        let mut last = None;
        for &weight in &weights {
            if self.gradients.is_none() {
                last = self.offload(context, reduction, (weight, all[weight].part), last);
            }
            // A gradient that did not fit into the bucket is sent where it is, and freed afterwards.
            if sent.is_some() {
                all[weight].whole.gradient.take();
            }
        }
        drop(last);
        drop(sent);
        for &weight in &weights {
            all[weight].whole.gradient.take();
        }
        context.memory().borrow_mut().set_stream(before);
    }

    /// `reduce_scatter_coalesced`: the ranks' parts one after another in a new tensor. A single gradient that needs no padding is sent where
    /// it is.
    fn scatter(&self, context: &Context, weights: &[&Weight]) -> Option<Storage> {
        let world = self.settings.world;
        if let [only] = weights
            && only.elements() % i64::from(world) == 0
        {
            return None;
        }
        let paddings = paddings_of(&weights.iter().map(|weight| weight.elements()).collect::<Vec<_>>(), world);
        let pads: Vec<Storage> =
            paddings.into_iter().map(|elements| context.storage(elements as u64 * self.dtype.bytes())).collect();
        let total: i64 = weights.iter().map(|weight| weight.part * i64::from(world)).sum();
        let sent = context.storage(total as u64 * self.dtype.bytes());
        pads.into_iter().rev().for_each(drop);
        Some(sent)
    }

    /// `partition_grads` with the optimizer on the CPU: a part goes there and comes back; in the last micro-batch its norm is taken and it
    /// goes again in single precision. Returns what has come back, which the next weight's replaces.
    fn offload(
        &self,
        context: &Context,
        reduction: &mut Reduction,
        (weight, part): (usize, i64),
        last: Option<Tensor>,
    ) -> Option<Tensor> {
        // In later micro-batches a variable of its own holds what has come back.
        let last = last.filter(|_| reduction.adds);
        context.memory().borrow_mut().set_category(Category::Temporary);
        let back = context.empty_contiguous(self.dtype, &[part]);
        drop(last);
        if !reduction.more_follow {
            reduction.norms.push((weight, buffered_norm(context, &back)));
            if self.dtype != Dtype::Float32 {
                drop(context.empty(Layout::contiguous(Dtype::Float32, &[part])));
            }
        }
        Some(back)
    }

    /// `independent_gradient_partition_epilogue` and `backward_epilogue`, after each backward pass.
    pub fn after_backward(&self, context: &Context) {
        let mut reduction = self.reduction.borrow_mut();
        self.reduce(context, &mut reduction);
        reduction.adds = true;
        self.coordinator.borrow_mut().release_leftovers();
    }
}

/// The elements of padding after the ranks' parts of gradients, rank by rank.
fn paddings_of(sizes: &[i64], world: u32) -> Vec<i64> {
    let mut paddings = Vec::new();
    for rank in 0..i64::from(world) {
        for &size in sizes {
            let part = part_of(size, world);
            let elements = (size - rank * part).clamp(0, part);
            if elements < part {
                paddings.push(part - elements);
            }
        }
    }
    paddings
}

#[cfg(test)]
mod tests {
    use super::paddings_of;

    #[test]
    fn the_last_ranks_parts_are_padded() {
        assert_eq!(paddings_of(&[8, 10], 4), [2]);
        assert_eq!(paddings_of(&[1, 5], 4), [1, 1, 1, 1, 2]);
        assert!(paddings_of(&[8, 4], 4).is_empty());
    }
}
