//! The engine's update of this rank's part.

use vramfit_eager::autograd::Context;
use vramfit_eager::memory::Category;
use vramfit_graph::dtype::Dtype;

use super::Engine;
use super::scalars::{check_norm, check_overflow, clip, global_norm};
use crate::optimizer::Optimizer;

impl Engine {
    /// `step`: gradients are measured, clipped by default, and copied to the type of the master weights.
    pub fn update(&self, context: &mut Context, optimizer: &mut Optimizer) {
        context.memory().borrow_mut().set_category(Category::Temporary);
        if self.offloads() {
            return self.update_on_host(context);
        }
        let mut gradients = std::mem::take(&mut self.reduction.borrow_mut().averaged);
        if self.dtype != Dtype::Float32 {
            check_overflow(context, &gradients);
        }
        let norm = global_norm(context, &gradients[..self.partitions.first().count()]);
        check_norm(context, &norm);
        let before = self.norm.replace(Some(context.empty(norm.shared_layout())));
        context.memory().borrow_mut().set_category(Category::Gradients);
        let part = |context: &Context, dtype| context.empty_contiguous(dtype, &[self.partitions.size]);
        let flat = match &*gradients {
            [only] => only.clone(),
            _ => part(context, self.dtype),
        };
        let gradient = if self.dtype == Dtype::Float32 { flat.clone() } else { part(context, Dtype::Float32) };
        drop(flat);
        self.master.gradient.replace(Some(gradient));
        gradients.clear();
        context.memory().borrow_mut().set_category(Category::Temporary);
        if self.settings.clips {
            check_norm(context, &norm);
            clip(context, &norm);
        }
        optimizer.step(context, std::slice::from_ref(&self.master));
        self.master.gradient.take();
        drop(norm);
        drop(before);
    }

    /// Whether gradients of the weights' type may be too large for it.
    pub fn may_overflow(&self) -> bool {
        self.dtype == Dtype::Float16
    }

    /// `step` after gradients that overflow: they are freed.
    pub fn skip_update(&self, context: &Context) {
        context.memory().borrow_mut().set_category(Category::Temporary);
        let mut reduction = self.reduction.borrow_mut();
        check_overflow(context, &reduction.averaged);
        reduction.averaged.clear();
        reduction.norms.clear();
    }

    /// `step` with the optimizer on the CPU: two numbers go over the ranks.
    fn update_on_host(&self, context: &Context) {
        if self.dtype != Dtype::Float32 {
            drop(context.empty_contiguous(Dtype::Uint8, &[1]));
        }
        drop(context.empty_contiguous(Dtype::Float32, &[1]));
        self.reduction.borrow_mut().norms.clear();
    }
}
