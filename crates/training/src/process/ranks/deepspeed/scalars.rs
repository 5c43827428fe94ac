//! The small tensors of an update: norms of gradients, and whether they are finite.

use vramfit_eager::autograd::{Context, Tensor};
use vramfit_eager::kernels::reduce::Reduction;
use vramfit_graph::dtype::Dtype;
use vramfit_graph::layout::Layout;

/// A single number.
pub(super) fn scalar(context: &Context, dtype: Dtype) -> Tensor {
    context.empty_contiguous(dtype, &[])
}

/// `torch.isfinite`: neither unlike itself nor infinite.
fn is_finite(context: &Context, number: &Tensor) -> Tensor {
    let absolute = context.empty(number.shared_layout());
    let is_no_infinity = truth_of(context, number);
    let is_itself = truth_of(context, number);
    let both = truth_of(context, number);
    drop(is_itself);
    drop(is_no_infinity);
    drop(absolute);
    both
}

/// A truth for each number.
fn truth_of(context: &Context, numbers: &Tensor) -> Tensor {
    context.empty(numbers.like(Dtype::Bool))
}

/// `has_inf_or_nan`: looks at the largest and the smallest element.
pub(super) fn has_inf_or_nan(context: &Context, gradient: &Tensor) -> Tensor {
    let dtype = gradient.dtype();
    let is_extreme_finite = || {
        let found = context.reduce(gradient, &[], false, dtype, Reduction::comparing(dtype));
        is_finite(context, &found)
    };
    let (largest, smallest) = (is_extreme_finite(), is_extreme_finite());
    let both = scalar(context, Dtype::Bool);
    drop(largest);
    drop(smallest);
    let is_invalid = scalar(context, Dtype::Bool);
    drop(both);
    is_invalid
}

/// `has_overflow`.
pub(super) fn check_overflow(context: &Context, gradients: &[Tensor]) {
    let count = context.empty_contiguous(Dtype::Float32, &[1]);
    for gradient in gradients {
        drop(has_inf_or_nan(context, gradient));
    }
    let overflow = scalar(context, Dtype::Bool);
    drop(count);
    let reduced = scalar(context, Dtype::Uint8);
    drop(overflow);
    drop(reduced);
}

/// `scaled_global_norm`: each gradient is copied to double precision.
pub(super) fn global_norm(context: &Context, gradients: &[Tensor]) -> Tensor {
    let norms: Vec<Tensor> = gradients.iter().map(|gradient| norm_of(context, gradient)).collect();
    let sum = sum_of_squares(context, &norms);
    let total = scalar(context, Dtype::Float32);
    drop(sum);
    let norm = root(context, &total);
    drop(total);
    mask_invalid(context);
    norms.into_iter().rev().for_each(drop);
    let combined = combine(context, std::slice::from_ref(&norm));
    drop(norm);
    combined
}

/// `torch.sum(torch.pow(torch.stack(norms), 2))`.
pub(super) fn sum_of_squares(context: &Context, norms: &[Tensor]) -> Tensor {
    let stacked = context.empty_contiguous(Dtype::Float64, &[norms.len() as i64]);
    let powers = square(context, &stacked);
    drop(stacked);
    context.sum(&powers, &[], false, Dtype::Float64)
}

/// `number ** 2`.
pub(super) fn square(context: &Context, number: &Tensor) -> Tensor {
    context.empty(number.shared_layout())
}

/// `number ** 0.5`.
pub(super) fn root(context: &Context, number: &Tensor) -> Tensor {
    context.empty(number.shared_layout())
}

/// A gradient's norm, in double precision.
pub(super) fn norm_of(context: &Context, gradient: &Tensor) -> Tensor {
    let copy = context.empty(gradient.like(Dtype::Float64));
    norm(context, &copy)
}

fn norm(context: &Context, tensor: &Tensor) -> Tensor {
    let dtype = tensor.dtype();
    context.reduce(tensor, &[], false, dtype, Reduction::summing(dtype))
}

/// Whether a number is infinite, is none, either of them, and the number -1 to write in its place.
pub(super) fn invalid(context: &Context, dtype: Dtype) -> [Tensor; 4] {
    let absolute = scalar(context, dtype);
    let is_infinite = scalar(context, Dtype::Bool);
    drop(absolute);
    let is_no_number = scalar(context, Dtype::Bool);
    let either = scalar(context, Dtype::Bool);
    [is_infinite, is_no_number, either, scalar(context, Dtype::Float32)]
}

/// `mask_nan_or_inf_with_val_inplace`.
pub(super) fn mask_invalid(context: &Context) {
    invalid(context, Dtype::Float32).into_iter().for_each(drop);
}

/// `(~isfinite(norm) | (norm < 0)).any()`.
fn is_any_invalid(context: &Context, norm: &Tensor) -> Tensor {
    let is_finite = is_finite(context, norm);
    let is_not_finite = truth_of(context, norm);
    drop(is_finite);
    let is_negative = truth_of(context, norm);
    let either = truth_of(context, norm);
    drop(is_not_finite);
    drop(is_negative);
    let any = scalar(context, Dtype::Bool);
    drop(either);
    any
}

/// `combine_grad_norm_groups`.
pub(super) fn combine(context: &Context, norms_of_groups: &[Tensor]) -> Tensor {
    let dtype = norms_of_groups.first().map_or(Dtype::Float32, Tensor::dtype);
    let stacked = context.empty(Layout::contiguous(dtype, &[norms_of_groups.len() as i64]));
    let is_invalid = is_any_invalid(context, &stacked);
    let combined = norm(context, &stacked);
    let infinity = scalar(context, dtype);
    let chosen = scalar(context, dtype);
    drop(infinity);
    drop(stacked);
    drop(is_invalid);
    drop(combined);
    chosen
}

/// `is_invalid_grad_norm`.
pub(super) fn check_norm(context: &Context, norm: &Tensor) {
    drop(is_any_invalid(context, norm));
}

/// `unscale_and_clip_grads`, once the norm has been checked.
pub(super) fn clip(context: &Context, norm: &Tensor) {
    let number = || scalar(context, norm.dtype());
    let unscaled = number();
    let sum = number();
    drop(unscaled);
    let quotient = number();
    drop(sum);
    let clipped = number();
    drop(quotient);
    let combined = number();
    let reciprocal = number();
    let factor = number();
    drop(reciprocal);
    drop(factor);
    drop(combined);
    drop(clipped);
}
