//! Entries of logical operators and comparisons.

use super::super::facts::*;
use super::{FAMILY, IN_PLACE, formula, isfinite, isinf};

pub(in crate::operators) const OPERATORS: &[Operator] = &[
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
            "aten.greater.Scalar",
            "aten.greater.Tensor",
            "aten.greater_equal.Scalar",
            "aten.greater_equal.Tensor",
            "aten.less.Scalar",
            "aten.less.Tensor",
            "aten.less_equal.Scalar",
            "aten.less_equal.Tensor",
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
            "aten.floor_divide_.Scalar",
            "aten.floor_divide_.Tensor",
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
