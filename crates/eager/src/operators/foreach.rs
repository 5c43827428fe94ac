//! Operators on lists of tensors, which optimizers call, and the fused optimizers.
//!
//! On CUDA a list runs as few kernels where all its tensors have one type and are dense, and one by one otherwise; both allocate the
//! same.

use std::rc::Rc;

use smallvec::smallvec;
use vramfit_graph::dtype::Dtype;
use vramfit_graph::layout::Layout;

use super::call::{Call, Outcome, Unmodelled};
use super::facts::*;
use super::sparse;
use crate::autograd::{Context, Tensor};
use crate::kernels::reduce::Reduction;

/// Elements that one thread block of a `foreach` kernel processes (`kChunkSize`).
const CHUNK: i64 = 65_536;

/// What the family's operators have in common.
const FAMILY: Facts = Facts::of_family(
    Library::Own,
    Launch::LocalMemory,
    Time::ASSUMED,
    Keeps::Nothing,
    Autocast::Unchanged,
    Samples::Unknown,
);

pub(super) const OPERATORS: &[Operator] = &[
    Operator::new(
        &[
            "aten._foreach_abs.default",
            "aten._foreach_add.List",
            "aten._foreach_add.Scalar",
            "aten._foreach_add.ScalarList",
            "aten._foreach_add.Tensor",
            "aten._foreach_addcdiv.Scalar",
            "aten._foreach_addcdiv.ScalarList",
            "aten._foreach_addcdiv.Tensor",
            "aten._foreach_addcmul.Scalar",
            "aten._foreach_addcmul.ScalarList",
            "aten._foreach_addcmul.Tensor",
            "aten._foreach_clamp_max.List",
            "aten._foreach_clamp_max.Scalar",
            "aten._foreach_clamp_min.List",
            "aten._foreach_clamp_min.Scalar",
            "aten._foreach_clone.default",
            "aten._foreach_div.List",
            "aten._foreach_div.Scalar",
            "aten._foreach_div.ScalarList",
            "aten._foreach_div.Tensor",
            "aten._foreach_exp.default",
            "aten._foreach_lerp.List",
            "aten._foreach_lerp.Scalar",
            "aten._foreach_lerp.ScalarList",
            "aten._foreach_maximum.List",
            "aten._foreach_maximum.Scalar",
            "aten._foreach_minimum.List",
            "aten._foreach_minimum.Scalar",
            "aten._foreach_mul.List",
            "aten._foreach_mul.Scalar",
            "aten._foreach_mul.ScalarList",
            "aten._foreach_mul.Tensor",
            "aten._foreach_pow.List",
            "aten._foreach_pow.Scalar",
            "aten._foreach_pow.ScalarList",
            "aten._foreach_reciprocal.default",
            "aten._foreach_rsqrt.default",
            "aten._foreach_sign.default",
            "aten._foreach_sqrt.default",
            "aten._foreach_sub.List",
            "aten._foreach_sub.Scalar",
            "aten._foreach_sub.ScalarList",
        ],
        Facts { memory: Modelled(new_list), ..FAMILY },
    ),
    Operator::new(
        &[
            "aten._foreach_abs_.default",
            "aten._foreach_add_.Scalar",
            "aten._foreach_add_.ScalarList",
            "aten._foreach_add_.Tensor",
            "aten._foreach_addcdiv_.Scalar",
            "aten._foreach_addcdiv_.ScalarList",
            "aten._foreach_addcdiv_.Tensor",
            "aten._foreach_addcmul_.Scalar",
            "aten._foreach_addcmul_.ScalarList",
            "aten._foreach_addcmul_.Tensor",
            "aten._foreach_clamp_max_.List",
            "aten._foreach_clamp_max_.Scalar",
            "aten._foreach_clamp_min_.List",
            "aten._foreach_clamp_min_.Scalar",
            "aten._foreach_copy_.default",
            "aten._foreach_div_.List",
            "aten._foreach_div_.Scalar",
            "aten._foreach_div_.ScalarList",
            "aten._foreach_div_.Tensor",
            "aten._foreach_exp_.default",
            "aten._foreach_lerp_.List",
            "aten._foreach_lerp_.Scalar",
            "aten._foreach_lerp_.ScalarList",
            "aten._foreach_maximum_.List",
            "aten._foreach_maximum_.Scalar",
            "aten._foreach_minimum_.List",
            "aten._foreach_minimum_.Scalar",
            "aten._foreach_mul_.List",
            "aten._foreach_mul_.ScalarList",
            "aten._foreach_mul_.Tensor",
            "aten._foreach_neg_.default",
            "aten._foreach_pow_.List",
            "aten._foreach_pow_.Scalar",
            "aten._foreach_pow_.ScalarList",
            "aten._foreach_reciprocal_.default",
            "aten._foreach_rsqrt_.default",
            "aten._foreach_sign_.default",
            "aten._foreach_sqrt_.default",
            "aten._foreach_sub_.List",
            "aten._foreach_sub_.Scalar",
            "aten._foreach_sub_.ScalarList",
            "aten._foreach_zero_.default",
            "aten._fused_adagrad_.default",
            "aten._fused_adam_.default",
            "aten._fused_adam_.tensor_lr",
            "aten._fused_adamw_.default",
            "aten._fused_adamw_.tensor_lr",
            "aten._fused_sgd_.default",
            "aten._fused_sgd_.tensor_lr",
            "aten._amp_foreach_non_finite_check_and_unscale_.default",
        ],
        Facts { memory: Modelled(in_place), effect: Effect::WritesFirst, ..FAMILY },
    ),
    Operator::new(
        &["aten._foreach_neg.default"],
        Facts { memory: Modelled(new_list), sparse: Modelled(sparse::copied_list), ..FAMILY },
    ),
    Operator::new(
        &["aten._foreach_add_.List"],
        Facts {
            memory: Modelled(in_place),
            sparse: Modelled(sparse::add_lists_in_place),
            effect: Effect::WritesFirst,
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten._foreach_mul_.Scalar"],
        Facts {
            memory: Modelled(in_place),
            sparse: Modelled(sparse::multiply_list_in_place),
            effect: Effect::WritesFirst,
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten._amp_update_scale_.default"],
        Facts { memory: Modelled(first), effect: Effect::WritesFirst, ..FAMILY },
    ),
    Operator::new(&["aten._foreach_norm.Scalar"], Facts { memory: Modelled(norms), ..FAMILY }),
];

/// A new tensor like each of the first list.
fn new_list(context: &mut Context, call: &Call<'_>) -> Outcome {
    let list = call.tensor_list(0)?;
    (0..list.len()).map(|index| Ok(context.empty(call.result(index)?))).collect()
}

fn in_place(_context: &mut Context, _call: &Call<'_>) -> Outcome {
    Ok(smallvec![])
}

fn first(_context: &mut Context, call: &Call<'_>) -> Outcome {
    Ok(smallvec![call.tensor(0)?.clone()])
}

fn norms(context: &mut Context, call: &Call<'_>) -> Outcome {
    let layouts: Vec<Rc<Layout>> = call.tensor_list(0)?.into_iter().map(Tensor::shared_layout).collect();
    if layouts.is_empty() { Err(Unmodelled) } else { Ok(foreach_norms(context, &layouts).into()) }
}

/// `_foreach_norm` of tensors with these layouts: a partial sum for each chunk, then a scalar for each tensor; one by one where a
/// tensor is not dense.
pub fn foreach_norms(context: &mut Context, layouts: &[Rc<Layout>]) -> Vec<Tensor> {
    let dtype = layouts[0].dtype;
    if !layouts.iter().all(|layout| layout.is_dense() && layout.dtype == dtype) {
        let norm_of = |layout: &Rc<Layout>| {
            let tensor = Tensor::on_host(Rc::clone(layout));
            context.reduce(&tensor, &[], false, layout.dtype, Reduction::summing(layout.dtype))
        };
        return layouts.iter().map(norm_of).collect();
    }
    let chunks = layouts.iter().map(|layout| (layout.elements() + CHUNK - 1) / CHUNK).max().unwrap_or(0);
    let computed = if dtype.bytes() == 2 { Dtype::Float32 } else { dtype };
    let sums = context.empty_contiguous(computed, &[layouts.len() as i64 * chunks]);
    let norms = layouts.iter().map(|_| context.empty_contiguous(dtype, &[])).collect();
    drop(sums);
    norms
}
