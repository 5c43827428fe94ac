//! Products of matrices, vectors and tensors of any rank, all through cuBLAS.

mod any_rank;
mod flops;
mod function_layer;
mod grouped;
mod matrix;
mod vector;

use super::call::{Call, Outcome, Unmodelled, only};
use super::facts::*;
use crate::autograd::Context;
use matrix::added_product;
use vector::{dot, mv, sum_of_products};

pub(crate) use any_rank::is_view_of_product;
pub(super) use any_rank::{linear, matmul};
pub(super) use matrix::{add_product, multiply};

/// What the family's operators have in common.
const FAMILY: Facts =
    Facts::of_family(Library::Own, Launch::Kernel, Time::ASSUMED, Keeps::Inputs, Autocast::Lower, Samples::Product);

/// What those have in common that write into their first argument.
const IN_PLACE: Facts = Facts { effect: Effect::WritesFirst, ..FAMILY };

const LINEAR: Work = Work::Product { factors: (0, 1), bias: Some(2), is_transposed: true };
const PRODUCT: Work = Work::Product { factors: (0, 1), bias: None, is_transposed: false };
const ADDED_PRODUCT: Work = Work::Product { factors: (1, 2), bias: Some(0), is_transposed: false };

pub(super) const OPERATORS: &[Operator] = &[
    Operator::new(
        &["aten.linear.default"],
        Facts {
            memory: Modelled(linear_layer),
            flops: FlopFormula::Counted(flops::linear),
            time: Time { work: LINEAR, dispatch: "linear" },
            overwrite: Overwrite::Allowed,
            hides_base: HidesBase::OfFlatInput,
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.addmm.default"],
        Facts {
            memory: Modelled(added_product),
            flops: FlopFormula::Counted(flops::added_product),
            time: Time { work: ADDED_PRODUCT, dispatch: "addmm" },
            overwrite: Overwrite::Allowed,
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.addmm.dtype"],
        Facts {
            flops: FlopFormula::Counted(flops::added_product),
            time: Time { work: ADDED_PRODUCT, dispatch: "addmm" },
            autocast: Autocast::Unchanged,
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.addmm_.default"],
        Facts {
            launch: Launch::LocalMemory,
            time: Time { work: ADDED_PRODUCT, dispatch: "addmm" },
            autocast: Autocast::Unchanged,
            ..IN_PLACE
        },
    ),
    Operator::new(
        &["aten.mm.default"],
        Facts {
            memory: Modelled(two_factors),
            flops: FlopFormula::Counted(flops::product),
            time: Time { work: PRODUCT, dispatch: "matmul" },
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.mm.dtype", "aten.bmm.dtype"],
        Facts {
            flops: FlopFormula::Counted(flops::product),
            time: Time { work: PRODUCT, dispatch: "matmul" },
            autocast: Autocast::Unchanged,
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.matmul.default"],
        Facts {
            memory: Modelled(any_factors),
            flops: FlopFormula::Counted(flops::product),
            time: Time { work: PRODUCT, dispatch: "matmul" },
            overwrite: Overwrite::Allowed,
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.__matmul__.default"],
        Facts {
            memory: Modelled(any_factors),
            launch: Launch::LocalMemory,
            keeps: Keeps::Nothing,
            autocast: Autocast::Unchanged,
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.bmm.default"],
        Facts {
            memory: Modelled(two_factors),
            flops: FlopFormula::Counted(flops::product),
            time: Time { work: PRODUCT, dispatch: "matmul" },
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.baddbmm.default"],
        Facts {
            memory: Modelled(added_product),
            flops: FlopFormula::Counted(flops::added_product),
            time: Time { work: ADDED_PRODUCT, dispatch: "matmul" },
            promotion: Promotion::Widest,
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.baddbmm.dtype"],
        Facts {
            flops: FlopFormula::Counted(flops::added_product),
            time: Time { work: ADDED_PRODUCT, dispatch: "matmul" },
            autocast: Autocast::Unchanged,
            promotion: Promotion::Widest,
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.baddbmm_.default"],
        Facts {
            launch: Launch::LocalMemory,
            time: Time { work: ADDED_PRODUCT, dispatch: "matmul" },
            autocast: Autocast::Unchanged,
            promotion: Promotion::Widest,
            ..IN_PLACE
        },
    ),
    Operator::new(
        &["aten.addmv.default", "aten.addr.default", "aten.addbmm.default"],
        Facts { memory: Modelled(sum_of_products), launch: Launch::LocalMemory, keeps: Keeps::Nothing, ..FAMILY },
    ),
    Operator::new(
        &["aten.linalg_matrix_power.default", "aten.matrix_power.default"],
        Facts { memory: Modelled(power), launch: Launch::LocalMemory, autocast: Autocast::Unchanged, ..FAMILY },
    ),
    Operator::new(
        &["aten._grouped_mm.default"],
        Facts {
            memory: Modelled(grouped::grouped),
            flops: FlopFormula::Zero,
            launch: Launch::LocalMemory,
            autocast: Autocast::Unchanged,
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.mv.default"],
        Facts {
            memory: Modelled(|context, call| mv(context, call.tensor(0)?, call.tensor(1)?)),
            launch: Launch::LocalMemory,
            keeps: Keeps::Nothing,
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.dot.default"],
        Facts {
            memory: Modelled(|context, call| dot(context, call.tensor(0)?, call.tensor(1)?)),
            launch: Launch::LocalMemory,
            keeps: Keeps::Nothing,
            autocast: Autocast::Widest,
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.vdot.default"],
        Facts {
            memory: Modelled(vdot),
            launch: Launch::LocalMemory,
            keeps: Keeps::Nothing,
            autocast: Autocast::Widest,
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.bilinear.default", "aten.tensordot.default"],
        Facts { launch: Launch::LocalMemory, keeps: Keeps::Nothing, autocast: Autocast::Widest, ..FAMILY },
    ),
    Operator::new(
        &[
            "aten.chain_matmul.default",
            "aten.einsum.default",
            "aten.linalg_multi_dot.default",
            "aten.linalg_vecdot.default",
        ],
        Facts { launch: Launch::LocalMemory, keeps: Keeps::Nothing, ..FAMILY },
    ),
];

/// Of real numbers; complex ones are turned round first.
fn vdot(context: &mut Context, call: &Call<'_>) -> Outcome {
    let (first, second) = (call.tensor(0)?, call.tensor(1)?);
    if first.dtype().is_complex() {
        return Err(Unmodelled);
    }
    dot(context, first, second)
}

/// `linalg_matrix_power`: the products of small exponents. Others are squared again and again, which is not modelled.
fn power(context: &mut Context, call: &Call<'_>) -> Outcome {
    let matrix = call.tensor(0)?;
    match call.int(1)? {
        2 => matmul(context, matrix, matrix),
        3 => {
            let square = only(matmul(context, matrix, matrix))?;
            matmul(context, &square, matrix)
        }
        _ => Err(Unmodelled),
    }
}

fn linear_layer(context: &mut Context, call: &Call<'_>) -> Outcome {
    let (input, weight, bias) = (call.tensor(0)?, call.tensor(1)?, call.optional_tensor(2));
    if context.linear_is_function {
        return function_layer::linear(context, input, weight, bias);
    }
    linear(context, input, weight, bias)
}

/// `mm`, `bmm`.
fn two_factors(context: &mut Context, call: &Call<'_>) -> Outcome {
    multiply(context, call.tensor(0)?, call.tensor(1)?)
}

fn any_factors(context: &mut Context, call: &Call<'_>) -> Outcome {
    matmul(context, call.tensor(0)?, call.tensor(1)?)
}
