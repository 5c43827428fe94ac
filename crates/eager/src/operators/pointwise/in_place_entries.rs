//! Entries of operators with one tensor that write into it, and that models seldom call. Each has the formula of its other form; what its
//! formula reads of the input is a copy of it, as for all operators in place. `acosh_`, `asinh_` and `atanh_` have no derivative.

use super::super::facts::*;
use super::{IN_PLACE, unary};

pub(in crate::operators) const OPERATORS: &[Operator] = &[
    Operator::new(
        &[
            "aten.sinh_.default",
            "aten.cosh_.default",
            "aten.lgamma_.default",
            "aten.digamma_.default",
            "aten.i0_.default",
        ],
        Facts { memory: Modelled(in_place!(unary::FUNCTION_OF_INPUT)), ..IN_PLACE },
    ),
    Operator::new(&["aten.atan_.default"], Facts { memory: Modelled(in_place!(unary::TWO_OF_INPUT)), ..IN_PLACE }),
    Operator::new(&["aten.tan_.default"], Facts { memory: Modelled(in_place!(unary::TWO_OF_RESULT)), ..IN_PLACE }),
    Operator::new(&["aten.asin_.default"], Facts { memory: Modelled(in_place!(unary::FOUR_OF_INPUT)), ..IN_PLACE }),
    Operator::new(&["aten.acos_.default"], Facts { memory: Modelled(in_place!(unary::FIVE_OF_INPUT)), ..IN_PLACE }),
    Operator::new(
        &["aten.erf_.default", "aten.erfc_.default", "aten.erfinv_.default"],
        Facts { memory: Modelled(in_place!(unary::ERF)), ..IN_PLACE },
    ),
    Operator::new(&["aten.exp2_.default"], Facts { memory: Modelled(in_place!(unary::EXP2)), ..IN_PLACE }),
    Operator::new(&["aten.logit_.default"], Facts { memory: Modelled(in_place!(unary::KERNEL_OF_INPUT)), ..IN_PLACE }),
    Operator::new(&["aten.nan_to_num_.default"], Facts { memory: Modelled(in_place!(unary::NAN_TO_NUM)), ..IN_PLACE }),
    Operator::new(&["aten.sinc_.default"], Facts { memory: Modelled(in_place!(unary::SINC)), ..IN_PLACE }),
    Operator::new(
        &["aten.sgn_.default", "aten.deg2rad_.default", "aten.rad2deg_.default"],
        Facts { memory: Modelled(in_place!(unary::FRESH_GRADIENT)), ..IN_PLACE },
    ),
];
