//! Elementwise operators, with broadcasting, promotion and their in-place forms.

mod binary;
mod formula;
mod unary;

use vramfit_graph::dtype::Dtype;

use super::call::{Call, Outcome};
use super::facts::*;
use crate::autograd::Context;

pub(super) use binary::add_into;
pub(super) use formula::{Elementwise, Save, elementwise, promote, rebased, record, run, run_in_place};
pub(super) use unary::{KERNEL_OF_BOTH, KERNEL_OF_INPUT, KERNEL_OF_RESULT};

/// A rule from a row of the tables.
macro_rules! new {
    ($operator:expr) => {
        |context: &mut Context, call: &Call<'_>| formula::run(context, call, &$operator)
    };
}

/// A rule that writes into the first argument.
macro_rules! in_place {
    ($operator:expr) => {
        |context: &mut Context, call: &Call<'_>| formula::run_in_place(context, call, &$operator)
    };
}

/// What the family's operators have in common.
const FAMILY: Facts = Facts {
    memory: NotModelled,
    launch: Launch::LocalMemory,
    library: Library::Own,
    flops: FlopFormula::Zero,
    time: Time::ASSUMED,
    view_dispatch: "view",
    keeps: Keeps::Nothing,
    autocast: Autocast::Unchanged,
    effect: Effect::ReadsOnly,
    activation: None,
    overwrite: Overwrite::NotShown,
    greatest: Greatest::Unknown,
    reads: Reads::Nothing,
    promotion: Promotion::First,
    evaluation: Evaluation::Unchanged,
};

/// What those have in common that write into their first argument.
const IN_PLACE: Facts = Facts { effect: Effect::WritesFirst, ..FAMILY };

pub(super) const OPERATORS: &[Operator] = &[
    Operator::new(
        &["aten.tanh.default"],
        Facts {
            memory: Modelled(new!(unary::KERNEL_OF_RESULT)),
            time: Time::moves("tanh", Extent::Larger),
            keeps: Keeps::Results,
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.sigmoid.default"],
        Facts {
            memory: Modelled(new!(unary::KERNEL_OF_RESULT)),
            time: Time::moves("sigmoid", Extent::Larger),
            keeps: Keeps::Results,
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.exp.default"],
        Facts {
            memory: Modelled(new!(unary::KERNEL_OF_RESULT)),
            time: Time::moves("exp", Extent::Larger),
            keeps: Keeps::Results,
            autocast: Autocast::Single,
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.relu.default"],
        Facts {
            memory: Modelled(new!(unary::KERNEL_OF_RESULT)),
            time: Time::moves("relu", Extent::Larger),
            keeps: Keeps::Results,
            activation: Some(Activation { module: "ReLU", in_place: "aten.relu_.default" }),
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.log.default"],
        Facts {
            memory: Modelled(new!(unary::KERNEL_OF_INPUT)),
            time: Time::moves("rsqrt", Extent::Larger),
            keeps: Keeps::Inputs,
            autocast: Autocast::Single,
            ..FAMILY
        },
    ),
    Operator::new(&["aten.logit.default"], Facts { memory: Modelled(new!(unary::KERNEL_OF_INPUT)), ..FAMILY }),
    Operator::new(
        &["aten.sqrt.default"],
        Facts {
            memory: Modelled(new!(unary::FUNCTION_OF_RESULT)),
            time: Time::moves("rsqrt", Extent::Larger),
            keeps: Keeps::Results,
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.expm1.default"],
        Facts { memory: Modelled(new!(unary::FUNCTION_OF_RESULT)), autocast: Autocast::Single, ..FAMILY },
    ),
    Operator::new(
        &["aten.abs.default"],
        Facts {
            memory: Modelled(new!(unary::FUNCTION_OF_INPUT)),
            time: Time::moves("neg", Extent::Larger),
            keeps: Keeps::Inputs,
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.sin.default"],
        Facts {
            memory: Modelled(new!(unary::FUNCTION_OF_INPUT)),
            time: Time::moves("cos", Extent::Larger),
            keeps: Keeps::Inputs,
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.sinh.default", "aten.cosh.default", "aten.log2.default", "aten.log10.default", "aten.log1p.default"],
        Facts { memory: Modelled(new!(unary::FUNCTION_OF_INPUT)), autocast: Autocast::Single, ..FAMILY },
    ),
    Operator::new(
        &["aten.lgamma.default", "aten.digamma.default"],
        Facts { memory: Modelled(new!(unary::FUNCTION_OF_INPUT)), ..FAMILY },
    ),
    Operator::new(
        &["aten.cos.default"],
        Facts {
            memory: Modelled(new!(unary::TWO_OF_INPUT)),
            time: Time::moves("cos", Extent::Larger),
            keeps: Keeps::Inputs,
            ..FAMILY
        },
    ),
    Operator::new(&["aten.atan.default"], Facts { memory: Modelled(new!(unary::TWO_OF_INPUT)), ..FAMILY }),
    Operator::new(
        &["aten.tan.default"],
        Facts { memory: Modelled(new!(unary::TWO_OF_RESULT)), autocast: Autocast::Single, ..FAMILY },
    ),
    Operator::new(
        &["aten.asinh.default", "aten.acosh.default"],
        Facts { memory: Modelled(new!(unary::THREE_OF_INPUT)), ..FAMILY },
    ),
    Operator::new(
        &["aten.asin.default"],
        Facts { memory: Modelled(new!(unary::FOUR_OF_INPUT)), autocast: Autocast::Single, ..FAMILY },
    ),
    Operator::new(
        &["aten.acos.default"],
        Facts { memory: Modelled(new!(unary::FIVE_OF_INPUT)), autocast: Autocast::Single, ..FAMILY },
    ),
    Operator::new(&["aten.atanh.default"], Facts { memory: Modelled(new!(unary::ATANH)), ..FAMILY }),
    Operator::new(&["aten.erf.default", "aten.erfc.default"], Facts { memory: Modelled(new!(unary::ERF)), ..FAMILY }),
    Operator::new(
        &["aten.erfinv.default"],
        Facts { memory: Modelled(new!(unary::ERF)), autocast: Autocast::Single, ..FAMILY },
    ),
    Operator::new(&["aten.exp2.default"], Facts { memory: Modelled(new!(unary::EXP2)), ..FAMILY }),
    Operator::new(
        &["aten.rsqrt.default"],
        Facts {
            memory: Modelled(new!(unary::RSQRT)),
            time: Time::moves("rsqrt", Extent::Larger),
            keeps: Keeps::Results,
            autocast: Autocast::Single,
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.reciprocal.default"],
        Facts {
            memory: Modelled(new!(unary::RSQRT)),
            time: Time::moves("rsqrt", Extent::Larger),
            autocast: Autocast::Single,
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.neg.default", "aten.sign.default"],
        Facts { memory: Modelled(new!(unary::FRESH_GRADIENT)), time: Time::moves("neg", Extent::Larger), ..FAMILY },
    ),
    Operator::new(
        &[
            "aten.floor.default",
            "aten.ceil.default",
            "aten.round.decimals",
            "aten.round.default",
            "aten.trunc.default",
            "aten.sgn.default",
            "aten.rad2deg.default",
            "aten.deg2rad.default",
        ],
        Facts { memory: Modelled(new!(unary::FRESH_GRADIENT)), ..FAMILY },
    ),
    Operator::new(
        &["aten.tril.default", "aten.triu.default"],
        Facts { memory: Modelled(new!(unary::FRESH_GRADIENT)), time: Time::moves("zeros", Extent::Result), ..FAMILY },
    ),
    Operator::new(&["aten.frac.default"], Facts { memory: Modelled(new!(unary::PASSED)), ..FAMILY }),
    Operator::new(&["aten.nan_to_num.default"], Facts { memory: Modelled(new!(unary::NAN_TO_NUM)), ..FAMILY }),
    Operator::new(&["aten.sinc.default"], Facts { memory: Modelled(new!(unary::SINC)), ..FAMILY }),
    Operator::new(
        &["aten.clamp_min.Tensor", "aten.clamp_min.default", "aten.clamp_max.Tensor", "aten.clamp_max.default"],
        Facts { memory: Modelled(new!(unary::CLAMP_ONE_SIDE)), ..FAMILY },
    ),
    Operator::new(
        &["aten.tanh_.default"],
        Facts {
            memory: Modelled(in_place!(unary::KERNEL_OF_RESULT)),
            time: Time::moves("tanh", Extent::Larger),
            keeps: Keeps::Results,
            ..IN_PLACE
        },
    ),
    Operator::new(
        &["aten.sigmoid_.default"],
        Facts {
            memory: Modelled(in_place!(unary::KERNEL_OF_RESULT)),
            time: Time::moves("sigmoid", Extent::Larger),
            keeps: Keeps::Results,
            ..IN_PLACE
        },
    ),
    Operator::new(
        &["aten.exp_.default"],
        Facts {
            memory: Modelled(in_place!(unary::KERNEL_OF_RESULT)),
            time: Time::moves("exp", Extent::Larger),
            keeps: Keeps::Results,
            ..IN_PLACE
        },
    ),
    Operator::new(
        &["aten.relu_.default"],
        Facts {
            memory: Modelled(in_place!(unary::KERNEL_OF_RESULT)),
            time: Time::moves("relu", Extent::Larger),
            keeps: Keeps::Results,
            ..IN_PLACE
        },
    ),
    Operator::new(
        &["aten.log_.default"],
        Facts {
            memory: Modelled(in_place!(unary::KERNEL_OF_INPUT)),
            time: Time::moves("rsqrt", Extent::Larger),
            keeps: Keeps::Inputs,
            ..IN_PLACE
        },
    ),
    Operator::new(
        &["aten.sqrt_.default"],
        Facts {
            memory: Modelled(in_place!(unary::FUNCTION_OF_RESULT)),
            time: Time::moves("rsqrt", Extent::Larger),
            keeps: Keeps::Results,
            ..IN_PLACE
        },
    ),
    Operator::new(
        &["aten.expm1_.default"],
        Facts { memory: Modelled(in_place!(unary::FUNCTION_OF_RESULT)), ..IN_PLACE },
    ),
    Operator::new(
        &["aten.abs_.default"],
        Facts {
            memory: Modelled(in_place!(unary::FUNCTION_OF_INPUT)),
            time: Time::moves("neg", Extent::Larger),
            keeps: Keeps::Inputs,
            ..IN_PLACE
        },
    ),
    Operator::new(
        &["aten.sin_.default"],
        Facts {
            memory: Modelled(in_place!(unary::FUNCTION_OF_INPUT)),
            time: Time::moves("cos", Extent::Larger),
            keeps: Keeps::Inputs,
            ..IN_PLACE
        },
    ),
    Operator::new(
        &["aten.log2_.default", "aten.log10_.default", "aten.log1p_.default"],
        Facts { memory: Modelled(in_place!(unary::FUNCTION_OF_INPUT)), ..IN_PLACE },
    ),
    Operator::new(
        &["aten.cos_.default"],
        Facts {
            memory: Modelled(in_place!(unary::TWO_OF_INPUT)),
            time: Time::moves("cos", Extent::Larger),
            keeps: Keeps::Inputs,
            ..IN_PLACE
        },
    ),
    Operator::new(
        &["aten.rsqrt_.default"],
        Facts {
            memory: Modelled(in_place!(unary::RSQRT)),
            time: Time::moves("rsqrt", Extent::Larger),
            keeps: Keeps::Results,
            ..IN_PLACE
        },
    ),
    Operator::new(
        &["aten.reciprocal_.default"],
        Facts { memory: Modelled(in_place!(unary::RSQRT)), time: Time::moves("rsqrt", Extent::Larger), ..IN_PLACE },
    ),
    Operator::new(
        &["aten.neg_.default", "aten.sign_.default"],
        Facts {
            memory: Modelled(in_place!(unary::FRESH_GRADIENT)),
            time: Time::moves("neg", Extent::Larger),
            ..IN_PLACE
        },
    ),
    Operator::new(
        &[
            "aten.floor_.default",
            "aten.ceil_.default",
            "aten.round_.decimals",
            "aten.round_.default",
            "aten.trunc_.default",
        ],
        Facts { memory: Modelled(in_place!(unary::FRESH_GRADIENT)), ..IN_PLACE },
    ),
    Operator::new(
        &["aten.tril_.default", "aten.triu_.default"],
        Facts {
            memory: Modelled(in_place!(unary::FRESH_GRADIENT)),
            time: Time::moves("zeros", Extent::Result),
            ..IN_PLACE
        },
    ),
    Operator::new(&["aten.frac_.default"], Facts { memory: Modelled(in_place!(unary::PASSED)), ..IN_PLACE }),
    Operator::new(
        &["aten.clamp_min_.Tensor", "aten.clamp_min_.default", "aten.clamp_max_.Tensor", "aten.clamp_max_.default"],
        Facts { memory: Modelled(in_place!(unary::CLAMP_ONE_SIDE)), ..IN_PLACE },
    ),
    Operator::new(
        &["aten.add.Scalar"],
        Facts {
            memory: Modelled(binary::add),
            time: Time::moves("add", Extent::Larger),
            greatest: Greatest::Sum,
            promotion: Promotion::Widest,
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.add.Tensor"],
        Facts {
            memory: Modelled(binary::add),
            time: Time::moves("add", Extent::Larger),
            overwrite: Overwrite::Allowed,
            greatest: Greatest::Sum,
            promotion: Promotion::Widest,
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.add_.Scalar", "aten.add_.Tensor"],
        Facts {
            memory: Modelled(binary::add_in_place),
            time: Time::moves("add", Extent::Larger),
            promotion: Promotion::Widest,
            ..IN_PLACE
        },
    ),
    Operator::new(
        &["aten.sub.Scalar"],
        Facts {
            memory: Modelled(binary::sub),
            time: Time::moves("add", Extent::Larger),
            greatest: Greatest::Difference,
            promotion: Promotion::Widest,
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.sub.Tensor"],
        Facts {
            memory: Modelled(binary::sub),
            time: Time::moves("add", Extent::Larger),
            overwrite: Overwrite::Allowed,
            greatest: Greatest::Difference,
            promotion: Promotion::Widest,
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.sub_.Scalar", "aten.sub_.Tensor"],
        Facts {
            memory: Modelled(binary::sub_in_place),
            time: Time::moves("add", Extent::Larger),
            promotion: Promotion::Widest,
            ..IN_PLACE
        },
    ),
    Operator::new(&["aten.subtract.Scalar", "aten.subtract.Tensor"], Facts { memory: Modelled(binary::sub), ..FAMILY }),
    Operator::new(
        &["aten.subtract_.Scalar", "aten.subtract_.Tensor"],
        Facts { memory: Modelled(binary::sub_in_place), ..IN_PLACE },
    ),
    Operator::new(
        &["aten.rsub.Scalar", "aten.rsub.Tensor"],
        Facts {
            memory: Modelled(binary::rsub),
            time: Time::moves("add", Extent::Larger),
            promotion: Promotion::Widest,
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.mul.Scalar", "aten.mul.Tensor"],
        Facts {
            memory: Modelled(|context, call| {
                let is_complex = matches!(call.result(0)?.dtype, Dtype::Complex64 | Dtype::Complex128);
                formula::run(context, call, if is_complex { &binary::MUL_COMPLEX } else { &binary::MUL })
            }),
            time: Time::moves("mul", Extent::Larger),
            keeps: Keeps::Inputs,
            greatest: Greatest::Product,
            promotion: Promotion::Widest,
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.mul_.Scalar", "aten.mul_.Tensor"],
        Facts {
            memory: Modelled(in_place!(binary::MUL)),
            time: Time::moves("mul", Extent::Larger),
            keeps: Keeps::Inputs,
            promotion: Promotion::Widest,
            ..IN_PLACE
        },
    ),
    Operator::new(
        &["aten.multiply.Scalar", "aten.multiply.Tensor"],
        Facts {
            memory: Modelled(|context, call| {
                let is_complex = matches!(call.result(0)?.dtype, Dtype::Complex64 | Dtype::Complex128);
                formula::run(context, call, if is_complex { &binary::MUL_COMPLEX } else { &binary::MUL })
            }),
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.multiply_.Scalar", "aten.multiply_.Tensor"],
        Facts { memory: Modelled(in_place!(binary::MUL)), ..IN_PLACE },
    ),
    Operator::new(
        &["aten.div.Scalar", "aten.div.Tensor"],
        Facts {
            memory: Modelled(new!(binary::DIV)),
            time: Time::moves("div", Extent::Larger),
            keeps: Keeps::Inputs,
            promotion: Promotion::Widest,
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.div.Scalar_mode", "aten.div.Tensor_mode"],
        Facts {
            memory: Modelled(|context, call| {
                formula::run(context, call, if call.is_none(2) { &binary::DIV } else { &binary::DIV_ROUNDED })
            }),
            time: Time::moves("div", Extent::Larger),
            keeps: Keeps::Inputs,
            promotion: Promotion::Widest,
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.div_.Scalar", "aten.div_.Tensor"],
        Facts {
            memory: Modelled(in_place!(binary::DIV)),
            time: Time::moves("div", Extent::Larger),
            keeps: Keeps::Inputs,
            promotion: Promotion::Widest,
            ..IN_PLACE
        },
    ),
    Operator::new(
        &["aten.div_.Scalar_mode", "aten.div_.Tensor_mode"],
        Facts {
            time: Time::moves("div", Extent::Larger),
            keeps: Keeps::Inputs,
            promotion: Promotion::Widest,
            ..IN_PLACE
        },
    ),
    Operator::new(
        &["aten.divide.Scalar", "aten.divide.Tensor"],
        Facts { memory: Modelled(new!(binary::DIV)), ..FAMILY },
    ),
    Operator::new(
        &["aten.divide.Scalar_mode", "aten.divide.Tensor_mode"],
        Facts {
            memory: Modelled(|context, call| {
                formula::run(context, call, if call.is_none(2) { &binary::DIV } else { &binary::DIV_ROUNDED })
            }),
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.divide_.Scalar", "aten.divide_.Tensor"],
        Facts { memory: Modelled(in_place!(binary::DIV)), ..IN_PLACE },
    ),
    Operator::new(
        &["aten.true_divide.Scalar", "aten.true_divide.Tensor"],
        Facts { memory: Modelled(new!(binary::DIV)), promotion: Promotion::Widest, ..FAMILY },
    ),
    Operator::new(
        &["aten.true_divide_.Scalar", "aten.true_divide_.Tensor"],
        Facts { memory: Modelled(in_place!(binary::DIV)), promotion: Promotion::Widest, ..IN_PLACE },
    ),
    Operator::new(
        &["aten.xlogy.Tensor"],
        Facts { memory: Modelled(new!(binary::XLOGY)), promotion: Promotion::Widest, ..FAMILY },
    ),
    Operator::new(
        &["aten.xlogy.Scalar_Other", "aten.xlogy.Scalar_Self", "aten.remainder.Scalar_Tensor"],
        Facts { promotion: Promotion::Widest, ..FAMILY },
    ),
    Operator::new(
        &[
            "aten.xlogy_.Scalar_Other",
            "aten.xlogy_.Tensor",
            "aten.atan2_.default",
            "aten.fmod_.Tensor",
            "aten.remainder_.Tensor",
            "aten.hypot_.default",
        ],
        Facts { promotion: Promotion::Widest, ..IN_PLACE },
    ),
    Operator::new(
        &["aten.fmax.default", "aten.fmin.default"],
        Facts { memory: Modelled(new!(binary::FMAX)), ..FAMILY },
    ),
    Operator::new(
        &["aten.pow.Scalar"],
        Facts {
            memory: Modelled(binary::number_pow),
            time: Time::moves("pow", Extent::Larger),
            keeps: Keeps::Inputs,
            autocast: Autocast::Single,
            promotion: Promotion::Widest,
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.pow.Tensor_Scalar"],
        Facts {
            memory: Modelled(binary::pow_number),
            time: Time::moves("pow", Extent::Larger),
            keeps: Keeps::Inputs,
            autocast: Autocast::Single,
            promotion: Promotion::Widest,
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.pow.Tensor_Tensor"],
        Facts {
            memory: Modelled(binary::pow_tensor),
            time: Time::moves("pow", Extent::Larger),
            keeps: Keeps::Inputs,
            autocast: Autocast::Single,
            promotion: Promotion::Widest,
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.pow_.Scalar"],
        Facts {
            memory: Modelled(binary::pow_number_in_place),
            time: Time::moves("pow", Extent::Larger),
            keeps: Keeps::Inputs,
            promotion: Promotion::Widest,
            ..IN_PLACE
        },
    ),
    Operator::new(
        &["aten.pow_.Tensor"],
        Facts {
            time: Time::moves("pow", Extent::Larger),
            keeps: Keeps::Inputs,
            promotion: Promotion::Widest,
            ..IN_PLACE
        },
    ),
    Operator::new(
        &["aten.atan2.default"],
        Facts { memory: Modelled(binary::atan2), autocast: Autocast::Widest, promotion: Promotion::Widest, ..FAMILY },
    ),
    Operator::new(&["aten.arctan2.default"], Facts { memory: Modelled(binary::atan2), ..FAMILY }),
    Operator::new(
        &["aten.square.default"],
        Facts { memory: Modelled(binary::pow_number), time: Time::moves("pow", Extent::Larger), ..FAMILY },
    ),
    Operator::new(
        &["aten.square_.default"],
        Facts { memory: Modelled(binary::pow_number_in_place), time: Time::moves("pow", Extent::Larger), ..IN_PLACE },
    ),
    Operator::new(
        &["aten.maximum.default", "aten.minimum.default"],
        Facts {
            memory: Modelled(new!(binary::MAXIMUM)),
            time: Time::moves("add", Extent::Larger),
            promotion: Promotion::Widest,
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.max.other", "aten.min.other"],
        Facts {
            memory: Modelled(new!(binary::MAXIMUM)),
            launch: Launch::LocalMemoryAndStack,
            time: Time::moves("add", Extent::Larger),
            promotion: Promotion::Widest,
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.fmod.Scalar", "aten.remainder.Scalar"],
        Facts { memory: Modelled(new!(unary::PASSED)), promotion: Promotion::Widest, ..FAMILY },
    ),
    Operator::new(
        &["aten.fmod.Tensor", "aten.remainder.Tensor"],
        Facts { memory: Modelled(new!(binary::FMOD)), promotion: Promotion::Widest, ..FAMILY },
    ),
    Operator::new(
        &["aten.fmod_.Scalar", "aten.remainder_.Scalar"],
        Facts { memory: Modelled(in_place!(unary::PASSED)), promotion: Promotion::Widest, ..IN_PLACE },
    ),
    Operator::new(
        &["aten.hypot.default"],
        Facts { memory: Modelled(new!(binary::HYPOT)), promotion: Promotion::Widest, ..FAMILY },
    ),
    Operator::new(
        &["aten.lerp.Scalar"],
        Facts {
            memory: Modelled(new!(binary::LERP)),
            time: Time::moves("add", Extent::Larger),
            promotion: Promotion::Widest,
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.lerp.Tensor"],
        Facts {
            memory: Modelled(new!(binary::LERP_TENSOR)),
            time: Time::moves("add", Extent::Larger),
            promotion: Promotion::Widest,
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.lerp_.Scalar"],
        Facts {
            memory: Modelled(in_place!(binary::LERP)),
            time: Time::moves("add", Extent::Larger),
            promotion: Promotion::Widest,
            ..IN_PLACE
        },
    ),
    Operator::new(
        &["aten.lerp_.Tensor"],
        Facts { time: Time::moves("add", Extent::Larger), promotion: Promotion::Widest, ..IN_PLACE },
    ),
    Operator::new(&["aten.logaddexp.default"], Facts { memory: Modelled(new!(binary::LOGADDEXP)), ..FAMILY }),
    Operator::new(
        &["aten.addcmul.default"],
        Facts {
            memory: Modelled(new!(binary::ADDCMUL)),
            autocast: Autocast::Widest,
            promotion: Promotion::Widest,
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.addcmul_.default"],
        Facts { memory: Modelled(in_place!(binary::ADDCMUL)), promotion: Promotion::Widest, ..IN_PLACE },
    ),
    Operator::new(
        &["aten.addcdiv.default"],
        Facts {
            memory: Modelled(new!(binary::ADDCDIV)),
            autocast: Autocast::Widest,
            promotion: Promotion::Widest,
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.addcdiv_.default"],
        Facts { memory: Modelled(in_place!(binary::ADDCDIV)), promotion: Promotion::Widest, ..IN_PLACE },
    ),
    Operator::new(
        &["aten.where.Scalar", "aten.where.ScalarOther", "aten.where.ScalarSelf", "aten.where.self"],
        Facts {
            memory: Modelled(binary::choose),
            time: Time::moves("masked_fill", Extent::Larger),
            keeps: Keeps::Inputs,
            promotion: Promotion::Widest,
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.where.default"],
        Facts {
            time: Time::moves("masked_fill", Extent::Larger),
            keeps: Keeps::Inputs,
            promotion: Promotion::Widest,
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.masked_fill.Scalar", "aten.masked_fill.Tensor"],
        Facts {
            memory: Modelled(binary::masked_fill),
            time: Time::moves("masked_fill", Extent::Larger),
            keeps: Keeps::Inputs,
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.masked_fill_.Scalar"],
        Facts {
            memory: Modelled(in_place!(binary::MASKED_FILL)),
            time: Time::moves("masked_fill", Extent::Larger),
            keeps: Keeps::Inputs,
            ..IN_PLACE
        },
    ),
    Operator::new(
        &["aten.masked_fill_.Tensor"],
        Facts { time: Time::moves("masked_fill", Extent::Larger), keeps: Keeps::Inputs, ..IN_PLACE },
    ),
    Operator::new(
        &["aten.clamp.Tensor"],
        Facts {
            memory: Modelled(binary::clamp_tensors),
            time: Time::moves("neg", Extent::Larger),
            keeps: Keeps::Inputs,
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.clamp.default"],
        Facts {
            memory: Modelled(|context, call| clamp(context, call, formula::run)),
            time: Time::moves("neg", Extent::Larger),
            keeps: Keeps::Inputs,
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.clamp_.default"],
        Facts {
            memory: Modelled(|context, call| clamp(context, call, formula::run_in_place)),
            time: Time::moves("neg", Extent::Larger),
            keeps: Keeps::Inputs,
            ..IN_PLACE
        },
    ),
    Operator::new(
        &["aten.clamp_.Tensor"],
        Facts { time: Time::moves("neg", Extent::Larger), keeps: Keeps::Inputs, ..IN_PLACE },
    ),
    Operator::new(&["aten.clip.Tensor"], Facts { memory: Modelled(binary::clamp_tensors), ..FAMILY }),
    Operator::new(
        &["aten.clip.default"],
        Facts { memory: Modelled(|context, call| clamp(context, call, formula::run)), ..FAMILY },
    ),
    Operator::new(
        &["aten.clip_.default"],
        Facts { memory: Modelled(|context, call| clamp(context, call, formula::run_in_place)), ..IN_PLACE },
    ),
    Operator::new(
        &["aten.logical_not.default", "aten.bitwise_not.default"],
        Facts { memory: Modelled(new!(formula::NO_GRADIENT)), time: Time::moves("neg", Extent::Larger), ..FAMILY },
    ),
    Operator::new(
        &["aten.logical_not_.default", "aten.bitwise_not_.default"],
        Facts {
            memory: Modelled(in_place!(formula::NO_GRADIENT)),
            time: Time::moves("neg", Extent::Larger),
            ..IN_PLACE
        },
    ),
    Operator::new(
        &[
            "aten.logical_and.default",
            "aten.bitwise_and.Scalar",
            "aten.bitwise_and.Scalar_Tensor",
            "aten.bitwise_and.Tensor",
            "aten.eq.Scalar",
            "aten.eq.Tensor",
            "aten.eq.Tensor_list",
            "aten.lt.Scalar",
            "aten.lt.Tensor",
            "aten.le.Scalar",
            "aten.le.Tensor",
            "aten.gt.Scalar",
            "aten.gt.Tensor",
            "aten.ge.Scalar",
            "aten.ge.Tensor",
        ],
        Facts { memory: Modelled(new!(formula::NO_GRADIENT)), time: Time::moves("add", Extent::Larger), ..FAMILY },
    ),
    Operator::new(
        &["aten.logical_and_.default", "aten.bitwise_and_.Scalar", "aten.bitwise_and_.Tensor"],
        Facts {
            memory: Modelled(in_place!(formula::NO_GRADIENT)),
            time: Time::moves("add", Extent::Larger),
            ..IN_PLACE
        },
    ),
    Operator::new(
        &[
            "aten.logical_or.default",
            "aten.logical_xor.default",
            "aten.bitwise_or.Scalar",
            "aten.bitwise_or.Scalar_Tensor",
            "aten.bitwise_or.Tensor",
            "aten.isnan.default",
            "aten.signbit.default",
            "aten.bitwise_xor.Scalar",
            "aten.bitwise_xor.Scalar_Tensor",
            "aten.bitwise_xor.Tensor",
            "aten.__and__.Scalar",
            "aten.__and__.Tensor",
            "aten.__or__.Scalar",
            "aten.__or__.Tensor",
            "aten.__xor__.Scalar",
            "aten.__xor__.Tensor",
            "aten.__lshift__.Scalar",
            "aten.__lshift__.Tensor",
            "aten.__rshift__.Scalar",
            "aten.__rshift__.Tensor",
            "aten.bitwise_left_shift.Scalar_Tensor",
            "aten.bitwise_left_shift.Tensor",
            "aten.bitwise_left_shift.Tensor_Scalar",
            "aten.bitwise_right_shift.Scalar_Tensor",
            "aten.bitwise_right_shift.Tensor",
            "aten.bitwise_right_shift.Tensor_Scalar",
            "aten.floor_divide.Scalar",
            "aten.floor_divide.default",
        ],
        Facts { memory: Modelled(new!(formula::NO_GRADIENT)), ..FAMILY },
    ),
    Operator::new(
        &[
            "aten.logical_or_.default",
            "aten.logical_xor_.default",
            "aten.bitwise_or_.Scalar",
            "aten.bitwise_or_.Tensor",
        ],
        Facts { memory: Modelled(in_place!(formula::NO_GRADIENT)), ..IN_PLACE },
    ),
    Operator::new(
        &[
            "aten.eq_.Scalar",
            "aten.eq_.Tensor",
            "aten.ne_.Scalar",
            "aten.ne_.Tensor",
            "aten.lt_.Scalar",
            "aten.lt_.Tensor",
            "aten.le_.Scalar",
            "aten.le_.Tensor",
            "aten.gt_.Scalar",
            "aten.gt_.Tensor",
            "aten.ge_.Scalar",
            "aten.ge_.Tensor",
        ],
        Facts { time: Time::moves("add", Extent::Larger), ..IN_PLACE },
    ),
    Operator::new(
        &["aten.ne.Scalar", "aten.ne.Tensor", "aten.ne.Tensor_list"],
        Facts {
            memory: Modelled(new!(formula::NO_GRADIENT)),
            time: Time::moves("add", Extent::Larger),
            greatest: Greatest::Compared,
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.isinf.default"],
        Facts { memory: Modelled(isinf), time: Time::moves("add", Extent::Larger), ..FAMILY },
    ),
    Operator::new(&["aten.isfinite.default"], Facts { memory: Modelled(isfinite), ..FAMILY }),
    Operator::new(&["aten.cross.default"], Facts { autocast: Autocast::Widest, ..FAMILY }),
];

type Run = fn(&mut Context, &Call<'_>, &'static formula::Elementwise) -> Outcome;

fn clamp(context: &mut Context, call: &Call<'_>, run: Run) -> Outcome {
    let operator = if call.is_none(1) || call.is_none(2) { &unary::CLAMP_ONE_SIDE } else { &unary::CLAMP_BOTH_SIDES };
    run(context, call, operator)
}

/// `self.abs() == inf`.
fn isinf(context: &mut Context, call: &Call<'_>) -> Outcome {
    let source = call.tensor(0)?;
    let absolute = source.dtype().is_differentiable().then(|| elementwise(context, &[source], source.dtype()));
    let result = elementwise(context, &[source], Dtype::Bool);
    drop(absolute);
    Ok(smallvec::smallvec![result])
}

/// `(self == self) * (self.abs() != inf)`.
fn isfinite(context: &mut Context, call: &Call<'_>) -> Outcome {
    let source = call.tensor(0)?;
    let truth = Dtype::Bool;
    if !source.dtype().is_differentiable() {
        return Ok(smallvec::smallvec![elementwise(context, &[source], truth)]);
    }
    let absolute = elementwise(context, &[source], source.dtype());
    let is_small = elementwise(context, &[&absolute], truth);
    let is_number = elementwise(context, &[source], truth);
    let result = elementwise(context, &[&is_number, &is_small], truth);
    drop((is_number, is_small, absolute));
    Ok(smallvec::smallvec![result])
}
