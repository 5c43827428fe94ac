//! Elementwise operators, with broadcasting, promotion and their in-place forms.

mod binary;
mod binary_formulas;
mod formula;
mod magnitude;
mod unary;

use vramfit_graph::dtype::Dtype;

use super::call::{Call, Outcome};
use super::facts::*;
use crate::autograd::Context;

pub(super) use binary::{add_into, subtract};
pub(super) use binary_formulas::{DIV, MUL, WHERE, XLOGY};
pub(super) use formula::{Elementwise, Save, apply, elementwise, promote, rebased, record, run, run_in_place};
pub(super) use unary::{KERNEL_OF_BOTH, KERNEL_OF_INPUT, KERNEL_OF_RESULT, RECTIFIED_INPUT, RECTIFIED_RESULT};

/// A rule from a row of the tables.
macro_rules! new {
    ($operator:expr) => {
        |context: &mut $crate::autograd::Context, call: &$crate::operators::call::Call<'_>| {
            $crate::operators::pointwise::formula::run(context, call, &$operator)
        }
    };
}

/// A rule that writes into the first argument.
macro_rules! in_place {
    ($operator:expr) => {
        |context: &mut $crate::autograd::Context, call: &$crate::operators::call::Call<'_>| {
            $crate::operators::pointwise::formula::run_in_place(context, call, &$operator)
        }
    };
}

// After the macros that the entries use.
pub(super) mod arithmetic_entries;
pub(super) mod comparison_entries;
pub(super) mod in_place_entries;
pub(super) mod unary_entries;

/// What the family's operators have in common.
const FAMILY: Facts = Facts::of_family(
    Library::Own,
    Launch::LocalMemory,
    Time::ASSUMED,
    Keeps::Nothing,
    Autocast::Unchanged,
    Samples::Apart,
);

/// What those have in common that write into their first argument.
const IN_PLACE: Facts = Facts { effect: Effect::WritesFirst, ..FAMILY };

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
