//! Functions of one tensor.

use super::formula::Formula::{Pass, Steps};
use super::formula::Operand::Gradient as G;
use super::formula::Operand::{Made, Saved};
use super::formula::Step::{Drop, Like, Number, Truth};
use super::formula::{Elementwise, Formula, Save};

const S: super::formula::Operand = Saved(0);

/// An operator that saves its input.
pub const fn of_input(formula: &'static [(usize, Formula)]) -> Elementwise {
    Elementwise { inputs: &[0], saves: &[Save::Input(0)], gradients: formula }
}

/// An operator that saves its result.
pub const fn of_result(formula: &'static [(usize, Formula)]) -> Elementwise {
    Elementwise { inputs: &[0], saves: &[Save::Result], gradients: formula }
}

/// An operator that saves nothing.
pub const fn of_gradient(formula: &'static [(usize, Formula)]) -> Elementwise {
    Elementwise { inputs: &[0], saves: &[], gradients: formula }
}

/// A kernel of its own finds the gradient from the incoming one and what was saved.
pub const KERNEL: &[(usize, Formula)] = &[(0, Steps(&[Like(&[G, S])]))];
/// The same, with a result that lies as the saved tensor does.
const KERNEL_LIKE_SAVED: &[(usize, Formula)] = &[(0, Steps(&[Like(&[S, G])]))];
/// The same from two saved tensors.
pub const KERNEL_OF_BOTH: &[(usize, Formula)] = &[(0, Steps(&[Like(&[G, S, Saved(1)])]))];
/// `grad * f(saved)`.
const TIMES_FUNCTION: &[(usize, Formula)] = &[(0, Steps(&[Like(&[S]), Like(&[G, Made(0)])]))];
/// `grad * f(g(saved))`.
const TIMES_TWO: &[(usize, Formula)] = &[(0, Steps(&[Like(&[S]), Like(&[Made(0)]), Like(&[G, Made(1)])]))];
const TIMES_FOUR: &[(usize, Formula)] =
    &[(0, Steps(&[Like(&[S]), Like(&[S, Made(0)]), Like(&[Made(1)]), Like(&[Made(2)]), Like(&[G, Made(3)])]))];
const TIMES_FIVE: &[(usize, Formula)] = &[(
    0,
    Steps(&[
        Like(&[S]),
        Like(&[S, Made(0)]),
        Like(&[Made(1)]),
        Like(&[Made(2)]),
        Like(&[Made(3)]),
        Like(&[G, Made(4)]),
    ]),
)];
const TIMES_THREE: &[(usize, Formula)] =
    &[(0, Steps(&[Like(&[S]), Like(&[Made(0)]), Like(&[Made(1)]), Like(&[G, Made(2)])]))];
const FRESH: &[(usize, Formula)] = &[(0, Steps(&[Like(&[G])]))];

/// The gradient is a new tensor that depends on the saved input alone through one kernel.
pub static KERNEL_OF_INPUT: Elementwise = of_input(KERNEL);
/// The same of the result.
pub static KERNEL_OF_RESULT: Elementwise = of_result(KERNEL);
/// `threshold_backward`, `leaky_relu_backward`: their kernels take the saved tensor before the gradient, and the result lies as the
/// first of their operands does.
pub static RECTIFIED_INPUT: Elementwise = of_input(KERNEL_LIKE_SAVED);
/// The same of the result.
pub static RECTIFIED_RESULT: Elementwise = of_result(KERNEL_LIKE_SAVED);
/// The gradient is one new tensor, from nothing saved: `neg`, and zeros.
pub static FRESH_GRADIENT: Elementwise = of_gradient(FRESH);
/// The gradient goes through.
pub static PASSED: Elementwise = of_gradient(&[(0, Pass)]);
/// `grad * f(self)`.
pub static FUNCTION_OF_INPUT: Elementwise = of_input(TIMES_FUNCTION);
/// `grad * f(result)`.
pub static FUNCTION_OF_RESULT: Elementwise = of_result(TIMES_FUNCTION);
/// Two temporaries from the input, such as `cos`.
pub static TWO_OF_INPUT: Elementwise = of_input(TIMES_TWO);
/// Two temporaries from the result, such as `tan`.
pub static TWO_OF_RESULT: Elementwise = of_result(TIMES_TWO);
/// Three temporaries from the input, such as `asinh`.
pub static THREE_OF_INPUT: Elementwise = of_input(TIMES_THREE);
/// `asin`.
pub static FOUR_OF_INPUT: Elementwise = of_input(TIMES_FOUR);
/// `acos`.
pub static FIVE_OF_INPUT: Elementwise = of_input(TIMES_FIVE);
/// `erf`: from the input, a chain of powers, times the gradient.
pub static ERF: Elementwise =
    of_input(&[(0, Steps(&[Like(&[S]), Like(&[Made(0)]), Like(&[Made(1)]), Like(&[Made(2)]), Like(&[Made(3), G])]))]);
/// `exp2`: two products.
pub static EXP2: Elementwise = of_result(&[(0, Steps(&[Like(&[G, S]), Like(&[Made(0)])]))]);
/// `rsqrt`, `reciprocal`: a multiple of the gradient, a power of the result, their product.
pub static RSQRT: Elementwise = of_result(&[(0, Steps(&[Like(&[G]), Like(&[S]), Like(&[Made(0), Made(1)])]))]);
/// `atanh`.
pub static ATANH: Elementwise =
    of_input(&[(0, Steps(&[Like(&[G]), Like(&[S]), Like(&[Made(1)]), Like(&[Made(0), Made(2)])]))]);
/// `nan_to_num`: whether each element is finite is found by three comparisons.
pub static NAN_TO_NUM: Elementwise = of_input(&[(
    0,
    Steps(&[
        Like(&[S]),
        Truth(&[Made(0)]),
        Truth(&[S]),
        Truth(&[Made(1), Made(2)]),
        Drop(&[2, 1, 0]),
        Like(&[G, Made(3)]),
    ]),
)]);
/// `clamp_min`, `clamp_max`: a zero, a comparison, a choice.
pub static CLAMP_ONE_SIDE: Elementwise = of_input(&[(0, Steps(CLAMP_ONE))]);
const CLAMP_ONE: &[super::formula::Step] = &[Number, Truth(&[S]), Like(&[Made(1), G, Made(0)])];
/// `clamp` between numbers.
pub static CLAMP_BOTH_SIDES: Elementwise =
    of_input(&[(0, Steps(&[Number, Truth(&[S]), Truth(&[S]), Like(&[Made(2), G, Made(0)])]))]);
/// `sinc`: `grad * ((pi * x).cos() * pi * x - (pi * x).sin()) / (pi * x * x)`, and zero at zero.
pub static SINC: Elementwise = of_input(&[(
    0,
    Steps(&[
        Like(&[S]),
        Like(&[Made(0)]),
        Like(&[Made(1), S]),
        Drop(&[1]),
        Like(&[S]),
        Like(&[Made(3)]),
        Like(&[Made(4)]),
        Like(&[Made(5), S]),
        Like(&[Made(6), Made(2)]),
        Like(&[G, Made(7)]),
        Drop(&[7, 6, 5, 4, 3]),
        Number,
        Truth(&[S]),
        Like(&[Made(10), Made(9), Made(8)]),
    ]),
)]);
/// `special_i0e`: `(i1e(self) - self.sgn() * result) * grad`.
pub static I0E: Elementwise = Elementwise {
    inputs: &[0],
    saves: &[Save::Input(0), Save::Result],
    gradients: &[(
        0,
        Steps(&[Like(&[S]), Like(&[Made(0), Saved(1)]), Like(&[S]), Like(&[Made(2), Made(1)]), Like(&[Made(3), G])]),
    )],
};
