//! The norms of this rank's parts of gradients.

use vramfit_eager::autograd::{Context, Tensor};
use vramfit_eager::kernels::reduce::Reduction;
use vramfit_graph::dtype::Dtype;
use vramfit_graph::layout::Layout;

use super::super::scalars::{invalid, mask_invalid, norm_of, root, scalar, square, sum_of_squares};

/// `get_grad_norm_direct`: of parts with so many elements, which lie in the flat gradients.
pub(super) fn norm_of_parts(context: &Context, gradients: &Tensor, parts: &[i64]) -> Tensor {
    let part = |elements: i64| gradients.unsafe_view(flat(gradients.dtype(), elements));
    let norms: Vec<Tensor> = parts.iter().map(|&elements| norm_of(context, &part(elements))).collect();
    let sum = sum_of_squares(context, &norms);
    let total = root(context, &sum);
    let tests = invalid(context, Dtype::Float64);
    // The number that marks an invalid norm is cast to the norm's type.
    let cast = scalar(context, Dtype::Float64);
    let chosen = scalar(context, Dtype::Float64);
    drop(cast);
    drop(total);
    drop(sum);
    norms.into_iter().rev().for_each(drop);
    tests.into_iter().for_each(drop);
    chosen
}

/// `complete_grad_norm_calculation_for_cpu_offload`, of norms that were taken when gradients went to the CPU.
pub(super) fn complete_norm(context: &Context, norms: &[Tensor]) {
    let mut sum = None;
    for norm in norms {
        let squared = square(context, norm);
        sum.get_or_insert_with(|| scalar(context, Dtype::Float64));
        drop(squared);
    }
    let reduced = context.empty_contiguous(Dtype::Float32, &[1]);
    let norm = scalar(context, Dtype::Float32);
    drop(sum);
    mask_invalid(context);
    drop(norm);
    drop(reduced);
}

/// `_constant_buffered_norm2`, of a part that has been copied to this tensor: at most so many elements at a time.
pub(super) fn buffered_norm(context: &Context, part: &Tensor) -> Tensor {
    const ELEMENTS: i64 = 250_000_000;
    let mut left = part.layout().elements();
    let mut sum: Option<Tensor> = None;
    while left > 0 {
        let norm = norm_of(context, &part.unsafe_view(flat(part.dtype(), left.min(ELEMENTS))));
        let squared = square(context, &norm);
        drop(norm);
        sum.get_or_insert(squared);
        left -= ELEMENTS;
    }
    let sum = sum.unwrap_or_else(|| scalar(context, Dtype::Float64));
    root(context, &sum)
}

/// `has_overflow`: looks for infinities, then for what is no number, in all gradients that are on the GPU; then one number goes over the
/// ranks.
pub(super) fn check_overflow(context: &Context, gradients: Option<&Tensor>) {
    if let Some(gradients) = gradients {
        let truths = || context.empty(gradients.like(Dtype::Bool));
        let any = |truths: Tensor| {
            drop(context.reduce(&truths, &[], false, Dtype::Bool, Reduction::comparing(Dtype::Bool)));
        };
        let absolute = context.empty(gradients.shared_layout());
        let is_infinite = truths();
        drop(absolute);
        any(is_infinite);
        any(truths());
    }
    let flag = context.empty_contiguous(Dtype::Bool, &[1]);
    let sent = context.empty_contiguous(Dtype::Uint8, &[1]);
    drop(flag);
    drop(sent);
}

fn flat(dtype: Dtype, elements: i64) -> Layout {
    Layout::contiguous(dtype, &[elements])
}
