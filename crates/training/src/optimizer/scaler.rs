//! `torch.amp.GradScaler`; no gradient is ever infinite here.

use vramfit_eager::autograd::{Context, Tensor};
use vramfit_graph::dtype::Dtype;

use super::{Category, Optimizer, Parameter};

/// The scaler's tensors.
#[derive(Default)]
pub struct GradScaler {
    /// The scale and the growth tracker, made when the first loss is scaled.
    scale: Option<[Tensor; 2]>,
    /// `found_inf` of `unscale_` by optimizer, kept until `update`.
    found: Vec<Option<Tensor>>,
}

impl GradScaler {
    /// The scale, made by the first call.
    pub fn scale(&mut self, context: &mut Context) -> Tensor {
        let [scale, _] = self.scale.get_or_insert_with(|| {
            context.memory().borrow_mut().set_category(Category::Optimizer);
            let scale = context.empty_contiguous(Dtype::Float32, &[]);
            let tracker = context.empty_contiguous(Dtype::Int32, &[]);
            [scale, tracker]
        });
        scale.clone()
    }

    /// `scaler.unscale_(optimizer)` for the optimizer of this number.
    pub fn unscale(&mut self, context: &mut Context, number: usize, optimizer: &Optimizer, parameters: &[Parameter]) {
        context.memory().borrow_mut().set_category(Category::Temporary);
        let double = context.empty_contiguous(Dtype::Float64, &[]);
        let reciprocal = context.empty_contiguous(Dtype::Float64, &[]);
        drop(double);
        let inverse = context.empty_contiguous(Dtype::Float32, &[]);
        drop(reciprocal);
        self.check(context, number, optimizer, parameters, inverse);
    }

    /// `_unscale_grads_`: copies both scalars for the device if there is any gradient.
    fn check(
        &mut self,
        context: &mut Context,
        number: usize,
        optimizer: &Optimizer,
        parameters: &[Parameter],
        inverse: Tensor,
    ) {
        let found = context.empty_contiguous(Dtype::Float32, &[]);
        if optimizer.weights(parameters).any(|parameter| parameter.gradient.borrow().is_some()) {
            let found_copy = context.empty_contiguous(Dtype::Float32, &[]);
            let inverse_copy = context.empty_contiguous(Dtype::Float32, &[]);
            drop(inverse_copy);
            if self.found.len() <= number {
                self.found.resize(number + 1, None);
            }
            self.found[number] = Some(found_copy);
        }
        drop(inverse);
        drop(found);
    }

    /// `scaler.step(optimizer)` for the optimizer of this number.
    pub fn step(&mut self, context: &mut Context, number: usize, optimizer: &mut Optimizer, parameters: &[Parameter]) {
        let is_unscaled = self.found.get(number).is_some_and(Option::is_some);
        if !optimizer.scales_itself() {
            if !is_unscaled {
                self.unscale(context, number, optimizer, parameters);
            }
            optimizer.step(context, parameters);
            return;
        }
        context.memory().borrow_mut().set_category(Category::Temporary);
        if !is_unscaled {
            let one = context.empty_contiguous(Dtype::Float32, &[]);
            self.check(context, number, optimizer, parameters, one);
        }
        let found = context.empty_contiguous(Dtype::Float32, &[]);
        let scale = (!is_unscaled).then(|| context.empty_contiguous(Dtype::Float32, &[]));
        optimizer.step(context, parameters);
        drop(scale);
        drop(found);
    }

    /// The tensors it keeps.
    pub(crate) fn kept(&self) -> impl Iterator<Item = Option<&Tensor>> {
        let [scale, tracker] =
            self.scale.as_ref().map_or([None, None], |[scale, tracker]| [Some(scale), Some(tracker)]);
        [scale, tracker].into_iter().chain(self.found.iter().map(Option::as_ref))
    }

    /// `scaler.update()`.
    pub fn update(&mut self) {
        self.found.fill(None);
    }
}
