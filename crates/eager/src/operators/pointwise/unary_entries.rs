//! Entries of operators with one tensor.

use super::super::facts::*;
use super::super::sparse;
use super::magnitude::magnitude;
use super::{FAMILY, IN_PLACE, formula, unary};

pub(in crate::operators) const OPERATORS: &[Operator] = &[
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
            memory: Modelled(new!(unary::RECTIFIED_RESULT)),
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
    Operator::new(
        &["aten.logit.default", "aten.special_logit.default"],
        Facts { memory: Modelled(new!(unary::KERNEL_OF_INPUT)), ..FAMILY },
    ),
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
            memory: Modelled(|context, call| match call.tensor(0)?.dtype().is_complex() {
                true => magnitude(context, call),
                false => formula::run(context, call, &unary::FUNCTION_OF_INPUT),
            }),
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
        &["aten.lgamma.default", "aten.digamma.default", "aten.i0.default"],
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
        &["aten.neg.default"],
        Facts {
            sparse: Modelled(sparse::copied),
            memory: Modelled(new!(unary::FRESH_GRADIENT)),
            time: Time::moves("neg", Extent::Larger),
            samples: Samples::Linear,
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.sign.default"],
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
        Facts {
            launch: Launch::Kernel,
            memory: Modelled(new!(unary::FRESH_GRADIENT)),
            time: Time::moves("zeros", Extent::Result),
            ..FAMILY
        },
    ),
    Operator::new(&["aten.frac.default"], Facts { memory: Modelled(new!(unary::PASSED)), ..FAMILY }),
    Operator::new(&["aten.nan_to_num.default"], Facts { memory: Modelled(new!(unary::NAN_TO_NUM)), ..FAMILY }),
    Operator::new(&["aten.special_i0e.default"], Facts { memory: Modelled(new!(unary::I0E)), ..FAMILY }),
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
            memory: Modelled(in_place!(unary::RECTIFIED_RESULT)),
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
            launch: Launch::Kernel,
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
];
