//! Elementwise operators, with broadcasting, promotion and their in-place forms.

mod binary;
mod formula;
mod unary;

use vramfit_graph::dtype::Dtype;

use super::{Call, Context, Outcome, Rule};

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

pub(super) fn rule(name: &str) -> Option<Rule> {
    let name = name.strip_prefix("aten.")?;
    let (base, overload) = name.split_once('.')?;
    match base.strip_suffix('_').filter(|base| !base.starts_with("__")) {
        Some(base) => unary_in_place(base).or_else(|| others_in_place(base, overload)),
        None => unary(base).or_else(|| others(base, overload)).or_else(|| without_gradient(base)),
    }
}

/// Functions of one tensor. The names do not meet others' overloads.
fn unary(base: &str) -> Option<Rule> {
    Some(match base {
        "tanh" | "sigmoid" | "exp" | "relu" => new!(unary::KERNEL_OF_RESULT),
        "log" | "logit" => new!(unary::KERNEL_OF_INPUT),
        "sqrt" | "expm1" => new!(unary::FUNCTION_OF_RESULT),
        "abs" | "sin" | "sinh" | "cosh" | "log2" | "log10" | "log1p" | "lgamma" | "digamma" => {
            new!(unary::FUNCTION_OF_INPUT)
        }
        "cos" | "atan" => new!(unary::TWO_OF_INPUT),
        "tan" => new!(unary::TWO_OF_RESULT),
        "asinh" | "acosh" => new!(unary::THREE_OF_INPUT),
        "asin" => new!(unary::FOUR_OF_INPUT),
        "acos" => new!(unary::FIVE_OF_INPUT),
        "atanh" => new!(unary::ATANH),
        "erf" | "erfc" | "erfinv" => new!(unary::ERF),
        "exp2" => new!(unary::EXP2),
        "rsqrt" | "reciprocal" => new!(unary::RSQRT),
        "neg" | "floor" | "ceil" | "round" | "trunc" | "sign" | "sgn" | "tril" | "triu" | "rad2deg" | "deg2rad" => {
            new!(unary::FRESH_GRADIENT)
        }
        "frac" => new!(unary::PASSED),
        "nan_to_num" => new!(unary::NAN_TO_NUM),
        "sinc" => new!(unary::SINC),
        "clamp_min" | "clamp_max" => new!(unary::CLAMP_ONE_SIDE),
        _ => return None,
    })
}

fn unary_in_place(base: &str) -> Option<Rule> {
    Some(match base {
        "tanh" | "sigmoid" | "exp" | "relu" => in_place!(unary::KERNEL_OF_RESULT),
        "log" => in_place!(unary::KERNEL_OF_INPUT),
        "sqrt" | "expm1" => in_place!(unary::FUNCTION_OF_RESULT),
        "abs" | "sin" | "log2" | "log10" | "log1p" => in_place!(unary::FUNCTION_OF_INPUT),
        "cos" => in_place!(unary::TWO_OF_INPUT),
        "rsqrt" | "reciprocal" => in_place!(unary::RSQRT),
        "neg" | "floor" | "ceil" | "round" | "trunc" | "sign" | "tril" | "triu" => in_place!(unary::FRESH_GRADIENT),
        "frac" => in_place!(unary::PASSED),
        "clamp_min" | "clamp_max" => in_place!(unary::CLAMP_ONE_SIDE),
        _ => return None,
    })
}

/// Functions of several tensors.
fn others(base: &str, overload: &str) -> Option<Rule> {
    Some(match (base, overload) {
        ("add", _) => binary::add,
        ("sub" | "subtract", _) => binary::sub,
        ("rsub", _) => binary::rsub,
        ("mul" | "multiply", _) => |context, call| {
            let is_complex = matches!(call.result(0)?.dtype, Dtype::Complex64 | Dtype::Complex128);
            formula::run(context, call, if is_complex { &binary::MUL_COMPLEX } else { &binary::MUL })
        },
        ("div" | "divide" | "true_divide", "Tensor" | "Scalar") => new!(binary::DIV),
        ("div" | "divide", "Tensor_mode" | "Scalar_mode") => |context, call| {
            formula::run(context, call, if call.is_none(2) { &binary::DIV } else { &binary::DIV_ROUNDED })
        },
        ("xlogy", "Tensor") => new!(binary::XLOGY),
        ("fmax" | "fmin", _) => new!(binary::FMAX),
        ("pow", "Tensor_Scalar") => binary::pow_number,
        ("pow", "Tensor_Tensor") => binary::pow_tensor,
        ("pow", "Scalar") => binary::number_pow,
        ("atan2" | "arctan2", _) => binary::atan2,
        ("square", _) => binary::pow_number,
        ("maximum" | "minimum", _) | ("max" | "min", "other") => new!(binary::MAXIMUM),
        ("fmod" | "remainder", "Tensor") => new!(binary::FMOD),
        ("fmod" | "remainder", "Scalar") => new!(unary::PASSED),
        ("hypot", _) => new!(binary::HYPOT),
        ("lerp", "Scalar") => new!(binary::LERP),
        ("lerp", "Tensor") => new!(binary::LERP_TENSOR),
        ("logaddexp", _) => new!(binary::LOGADDEXP),
        ("addcmul", _) => new!(binary::ADDCMUL),
        ("addcdiv", _) => new!(binary::ADDCDIV),
        ("where", "self" | "ScalarOther" | "ScalarSelf" | "Scalar") => binary::choose,
        ("masked_fill", _) => binary::masked_fill,
        ("clamp" | "clip", "default") => |context, call| clamp(context, call, formula::run),
        ("clamp" | "clip", "Tensor") => binary::clamp_tensors,
        _ => return None,
    })
}

fn others_in_place(base: &str, overload: &str) -> Option<Rule> {
    Some(match (base, overload) {
        ("add", _) => binary::add_in_place,
        ("sub" | "subtract", _) => binary::sub_in_place,
        ("mul" | "multiply", _) => in_place!(binary::MUL),
        ("div" | "divide" | "true_divide", "Tensor" | "Scalar") => in_place!(binary::DIV),
        ("pow", "Scalar") | ("square", _) => binary::pow_number_in_place,
        ("fmod" | "remainder", "Scalar") => in_place!(unary::PASSED),
        ("lerp", "Scalar") => in_place!(binary::LERP),
        ("addcmul", _) => in_place!(binary::ADDCMUL),
        ("addcdiv", _) => in_place!(binary::ADDCDIV),
        (
            "logical_not" | "logical_and" | "logical_or" | "logical_xor" | "bitwise_not" | "bitwise_and" | "bitwise_or",
            _,
        ) => {
            in_place!(formula::NO_GRADIENT)
        }
        ("masked_fill", "Scalar") => in_place!(binary::MASKED_FILL),
        ("clamp" | "clip", "default") => |context, call| clamp(context, call, formula::run_in_place),
        _ => return None,
    })
}

/// Comparisons and the like, which no gradient goes through.
fn without_gradient(base: &str) -> Option<Rule> {
    Some(match base {
        "eq"
        | "ne"
        | "lt"
        | "le"
        | "gt"
        | "ge"
        | "isnan"
        | "signbit"
        | "logical_and"
        | "logical_or"
        | "logical_xor"
        | "logical_not"
        | "bitwise_and"
        | "bitwise_or"
        | "bitwise_xor"
        | "bitwise_not"
        | "__and__"
        | "__or__"
        | "__xor__"
        | "__lshift__"
        | "__rshift__"
        | "bitwise_left_shift"
        | "bitwise_right_shift"
        | "floor_divide" => new!(formula::NO_GRADIENT),
        "isinf" => isinf,
        "isfinite" => isfinite,
        _ => return None,
    })
}

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
