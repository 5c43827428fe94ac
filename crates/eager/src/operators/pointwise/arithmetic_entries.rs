//! Entries of arithmetic, selection and clamping.

use super::super::facts::*;
use super::super::sparse;
use super::{FAMILY, IN_PLACE, binary, binary_formulas, clamp, formula, unary};

pub(in crate::operators) const OPERATORS: &[Operator] = &[
    Operator::new(
        &["aten.linalg_cross.default"],
        Facts {
            memory: Modelled(new!(binary_formulas::CROSS)),
            keeps: Keeps::Inputs,
            autocast: Autocast::Unchanged,
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.add.Scalar"],
        Facts {
            memory: Modelled(binary::add),
            time: Time::moves("add", Extent::Larger),
            greatest: Greatest::Sum,
            promotion: Promotion::Widest,
            samples: Samples::Linear,
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
            samples: Samples::Linear,
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.add_.Scalar", "aten.add_.Tensor"],
        Facts {
            memory: Modelled(binary::add_in_place),
            sparse: Modelled(sparse::add_in_place),
            time: Time::moves("add", Extent::Larger),
            promotion: Promotion::Widest,
            samples: Samples::Linear,
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
            samples: Samples::Linear,
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
            samples: Samples::Linear,
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.sub_.Scalar", "aten.sub_.Tensor"],
        Facts {
            memory: Modelled(binary::sub_in_place),
            time: Time::moves("add", Extent::Larger),
            promotion: Promotion::Widest,
            samples: Samples::Linear,
            ..IN_PLACE
        },
    ),
    Operator::new(
        &["aten.subtract.Scalar", "aten.subtract.Tensor"],
        Facts { memory: Modelled(binary::sub), samples: Samples::Linear, ..FAMILY },
    ),
    Operator::new(
        &["aten.subtract_.Scalar", "aten.subtract_.Tensor"],
        Facts { memory: Modelled(binary::sub_in_place), samples: Samples::Linear, ..IN_PLACE },
    ),
    Operator::new(
        &["aten.rsub.Scalar", "aten.rsub.Tensor"],
        Facts {
            memory: Modelled(binary::rsub),
            time: Time::moves("add", Extent::Larger),
            promotion: Promotion::Widest,
            samples: Samples::Linear,
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.mul.Scalar", "aten.mul.Tensor"],
        Facts {
            sparse: Modelled(sparse::multiplied),
            memory: Modelled(|context, call| {
                let is_complex = call.result(0)?.dtype.is_complex();
                formula::run(
                    context,
                    call,
                    if is_complex { &binary_formulas::MUL_COMPLEX } else { &binary_formulas::MUL },
                )
            }),
            time: Time::moves("mul", Extent::Larger),
            keeps: Keeps::Inputs,
            greatest: Greatest::Product,
            promotion: Promotion::Widest,
            samples: Samples::Product,
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.mul_.Scalar", "aten.mul_.Tensor"],
        Facts {
            memory: Modelled(in_place!(binary_formulas::MUL)),
            sparse: Modelled(sparse::multiply_in_place),
            time: Time::moves("mul", Extent::Larger),
            keeps: Keeps::Inputs,
            promotion: Promotion::Widest,
            samples: Samples::Product,
            ..IN_PLACE
        },
    ),
    Operator::new(
        &["aten.multiply.Scalar", "aten.multiply.Tensor"],
        Facts {
            memory: Modelled(|context, call| {
                let is_complex = call.result(0)?.dtype.is_complex();
                formula::run(
                    context,
                    call,
                    if is_complex { &binary_formulas::MUL_COMPLEX } else { &binary_formulas::MUL },
                )
            }),
            samples: Samples::Product,
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.multiply_.Scalar", "aten.multiply_.Tensor"],
        Facts { memory: Modelled(in_place!(binary_formulas::MUL)), samples: Samples::Product, ..IN_PLACE },
    ),
    Operator::new(
        &["aten.div.Scalar", "aten.div.Tensor"],
        Facts {
            memory: Modelled(new!(binary_formulas::DIV)),
            time: Time::moves("div", Extent::Larger),
            keeps: Keeps::Inputs,
            promotion: Promotion::Widest,
            samples: Samples::Quotient,
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.div.Scalar_mode", "aten.div.Tensor_mode"],
        Facts {
            memory: Modelled(|context, call| {
                formula::run(
                    context,
                    call,
                    if call.is_none(2) { &binary_formulas::DIV } else { &binary_formulas::DIV_ROUNDED },
                )
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
            sparse: Modelled(sparse::same),
            memory: Modelled(in_place!(binary_formulas::DIV)),
            time: Time::moves("div", Extent::Larger),
            keeps: Keeps::Inputs,
            promotion: Promotion::Widest,
            samples: Samples::Quotient,
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
        Facts { memory: Modelled(new!(binary_formulas::DIV)), samples: Samples::Quotient, ..FAMILY },
    ),
    Operator::new(
        &["aten.divide.Scalar_mode", "aten.divide.Tensor_mode"],
        Facts {
            memory: Modelled(|context, call| {
                formula::run(
                    context,
                    call,
                    if call.is_none(2) { &binary_formulas::DIV } else { &binary_formulas::DIV_ROUNDED },
                )
            }),
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.divide_.Scalar", "aten.divide_.Tensor"],
        Facts { memory: Modelled(in_place!(binary_formulas::DIV)), samples: Samples::Quotient, ..IN_PLACE },
    ),
    Operator::new(
        &["aten.true_divide.Scalar", "aten.true_divide.Tensor"],
        Facts {
            memory: Modelled(new!(binary_formulas::DIV)),
            promotion: Promotion::Widest,
            samples: Samples::Quotient,
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.true_divide_.Scalar", "aten.true_divide_.Tensor"],
        Facts {
            memory: Modelled(in_place!(binary_formulas::DIV)),
            promotion: Promotion::Widest,
            samples: Samples::Quotient,
            ..IN_PLACE
        },
    ),
    Operator::new(
        &["aten.xlogy.Tensor"],
        Facts { memory: Modelled(new!(binary_formulas::XLOGY)), promotion: Promotion::Widest, ..FAMILY },
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
        Facts { memory: Modelled(new!(binary_formulas::FMAX)), ..FAMILY },
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
            memory: Modelled(new!(binary_formulas::MAXIMUM)),
            time: Time::moves("add", Extent::Larger),
            promotion: Promotion::Widest,
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.max.other", "aten.min.other"],
        Facts {
            memory: Modelled(new!(binary_formulas::MAXIMUM)),
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
        Facts { memory: Modelled(new!(binary_formulas::FMOD)), promotion: Promotion::Widest, ..FAMILY },
    ),
    Operator::new(
        &["aten.fmod_.Scalar", "aten.remainder_.Scalar"],
        Facts { memory: Modelled(in_place!(unary::PASSED)), promotion: Promotion::Widest, ..IN_PLACE },
    ),
    Operator::new(
        &["aten.hypot.default"],
        Facts { memory: Modelled(new!(binary_formulas::HYPOT)), promotion: Promotion::Widest, ..FAMILY },
    ),
    Operator::new(
        &["aten.lerp.Scalar"],
        Facts {
            memory: Modelled(new!(binary_formulas::LERP)),
            time: Time::moves("add", Extent::Larger),
            promotion: Promotion::Widest,
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.lerp.Tensor"],
        Facts {
            memory: Modelled(new!(binary_formulas::LERP_TENSOR)),
            time: Time::moves("add", Extent::Larger),
            promotion: Promotion::Widest,
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.lerp_.Scalar"],
        Facts {
            memory: Modelled(in_place!(binary_formulas::LERP)),
            time: Time::moves("add", Extent::Larger),
            promotion: Promotion::Widest,
            ..IN_PLACE
        },
    ),
    Operator::new(
        &["aten.lerp_.Tensor"],
        Facts { time: Time::moves("add", Extent::Larger), promotion: Promotion::Widest, ..IN_PLACE },
    ),
    Operator::new(
        &["aten.copysign.Tensor"],
        Facts { memory: Modelled(new!(binary_formulas::COPYSIGN)), promotion: Promotion::Widest, ..FAMILY },
    ),
    Operator::new(
        &["aten.heaviside.default"],
        Facts { memory: Modelled(new!(formula::NO_GRADIENT)), promotion: Promotion::Widest, ..FAMILY },
    ),
    Operator::new(
        &["aten.logaddexp2.default"],
        Facts { memory: Modelled(new!(binary_formulas::LOGADDEXP2)), ..FAMILY },
    ),
    Operator::new(&["aten.logaddexp.default"], Facts { memory: Modelled(new!(binary_formulas::LOGADDEXP)), ..FAMILY }),
    Operator::new(
        &["aten.addcmul.default"],
        Facts {
            memory: Modelled(new!(binary_formulas::ADDCMUL)),
            autocast: Autocast::Widest,
            promotion: Promotion::Widest,
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.addcmul_.default"],
        Facts { memory: Modelled(in_place!(binary_formulas::ADDCMUL)), promotion: Promotion::Widest, ..IN_PLACE },
    ),
    Operator::new(
        &["aten.addcdiv.default"],
        Facts {
            memory: Modelled(new!(binary_formulas::ADDCDIV)),
            autocast: Autocast::Widest,
            promotion: Promotion::Widest,
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.addcdiv_.default"],
        Facts { memory: Modelled(in_place!(binary_formulas::ADDCDIV)), promotion: Promotion::Widest, ..IN_PLACE },
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
            memory: Modelled(in_place!(binary_formulas::MASKED_FILL)),
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
];
