//! The engine's update of this rank's parts.

use vramfit_eager::autograd::{Context, Tensor};
use vramfit_eager::memory::Category;
use vramfit_graph::dtype::Dtype;

use super::super::scalars::{check_norm, clip, combine};
use super::PartitionedEngine;
use super::norms::{check_overflow, complete_norm, norm_of_parts};
use crate::optimizer::Optimizer;

impl PartitionedEngine {
    /// `step`.
    pub fn update(&self, context: &mut Context, optimizer: &mut Optimizer) {
        self.begin_update(context);
        match &self.gradients {
            Some(gradients) => self.update_on_gpu(context, optimizer, gradients),
            None => self.update_on_host(context),
        }
    }

    /// Whether gradients of the weights' type may be too large for it.
    pub fn may_overflow(&self) -> bool {
        self.dtype == Dtype::Float16
    }

    /// `step` after gradients that overflow: small weights are not gathered for the next pass.
    pub fn skip_update(&self, context: &Context) {
        self.begin_update(context);
        self.reduction.borrow_mut().take_norms();
    }

    /// All weights are freed; gradients in half precision may have overflowed.
    fn begin_update(&self, context: &Context) {
        self.updates.set(self.updates.get() + 1);
        self.reduction.borrow_mut().adds = false;
        self.coordinator.borrow_mut().release_all(context);
        context.memory().borrow_mut().set_category(Category::Temporary);
        if self.may_overflow() {
            let before = context.memory().borrow_mut().set_stream(self.reduction_stream());
            check_overflow(context, self.gradients.as_ref());
            context.memory().borrow_mut().set_stream(before);
        }
    }

    fn update_on_gpu(&self, context: &mut Context, optimizer: &mut Optimizer, gradients: &Tensor) {
        let mut norms = Vec::new();
        for group in &self.sub_groups {
            let parts: Vec<i64> = {
                let coordinator = self.coordinator.borrow();
                group.iter().map(|&weight| coordinator.partitioned.weights[weight].part).collect()
            };
            norms.push(norm_of_parts(context, gradients, &parts));
        }
        let norm = combine(context, &norms);
        check_norm(context, &norm);
        let before = self.norm.replace(Some(context.empty(norm.shared_layout())));
        for (group, master) in self.sub_groups.iter().zip(&self.masters) {
            context.memory().borrow_mut().set_category(Category::Gradients);
            let size = master.tensor.shape();
            // Several gradients are copied into one; one is a view of the flat gradients.
            let flat = (group.len() > 1).then(|| context.empty_contiguous(self.dtype, size));
            let gradient = match flat {
                Some(flat) if self.dtype == Dtype::Float32 => flat,
                None if self.dtype == Dtype::Float32 => gradients.unsafe_view(master.tensor.shared_layout()),
                flat => {
                    let gradient = context.empty_contiguous(Dtype::Float32, size);
                    drop(flat);
                    gradient
                }
            };
            master.gradient.replace(Some(gradient));
            context.memory().borrow_mut().set_category(Category::Temporary);
            if self.settings.clips {
                clip(context, &norm);
            }
            optimizer.step(context, &self.masters);
            master.gradient.take();
        }
        self.coordinator.borrow_mut().gather_persistent(context);
        drop(norm);
        norms.into_iter().rev().for_each(drop);
        drop(before);
    }

    /// `step` with the optimizer on the CPU.
    fn update_on_host(&self, context: &Context) {
        let norms = self.reduction.borrow_mut().take_norms();
        for group in &self.sub_groups {
            let of_group = group.iter().filter_map(|weight| norms.iter().find(|(found, _)| found == weight));
            complete_norm(context, &of_group.map(|(_, norm)| norm.clone()).collect::<Vec<_>>());
        }
        norms.into_iter().for_each(drop);
        self.coordinator.borrow_mut().gather_persistent(context);
    }
}
