//! Gradients of functions of two and three tensors, as rows of a table.

use super::formula::Formula::{Pass, Steps, Zeros};
use super::formula::Operand::Gradient as G;
use super::formula::Operand::{Made, Saved};
use super::formula::Step::{Compact, Drop, Like, Number, Truth, WideNumber};
use super::formula::{Elementwise, Formula, Save, Step};

const OTHER: super::formula::Operand = Saved(0);
const SELF: super::formula::Operand = Saved(1);
const FOR_EACH_OTHER: &[Save] = &[Save::InputFor(1, 0), Save::InputFor(0, 1)];
const BOTH: &[Save] = &[Save::Input(1), Save::Input(0)];

/// `self * other`.
pub static MUL: Elementwise = Elementwise {
    inputs: &[0, 1],
    saves: FOR_EACH_OTHER,
    gradients: &[(1, Steps(&[Like(&[G, SELF])])), (0, Steps(&[Like(&[G, OTHER])]))],
};
/// `linalg_cross`: each gradient is a cross product too.
pub static CROSS: Elementwise = MUL;
/// `self / other`.
pub static DIV: Elementwise = Elementwise {
    inputs: &[0, 1],
    saves: &[Save::Input(1), Save::InputFor(0, 1)],
    gradients: &[
        (1, Steps(&[Like(&[G]), Like(&[SELF, OTHER]), Like(&[Made(1), OTHER]), Like(&[Made(0), Made(2)])])),
        (0, Steps(&[Like(&[G, OTHER])])),
    ],
};
/// `maximum`, `minimum`: half of the gradient where both are equal.
pub static MAXIMUM: Elementwise =
    Elementwise { inputs: &[0, 1], saves: BOTH, gradients: &[(1, Steps(LARGER)), (0, Steps(LARGER))] };
const LARGER: &[Step] = &[
    Like(&[G]),
    Truth(&[SELF, OTHER]),
    Like(&[Made(1), Made(0), G]),
    Truth(&[SELF, OTHER]),
    Drop(&[3, 1, 0]),
    // The chosen gradient is filled in place: it is the result.
];
/// `fmod`, `remainder` by a tensor.
pub static FMOD: Elementwise = Elementwise {
    inputs: &[0, 1],
    saves: &[Save::InputFor(1, 1), Save::InputFor(0, 1)],
    gradients: &[(1, Steps(&[Like(&[G]), Like(&[SELF, OTHER]), Like(&[Made(0), Made(1)])])), (0, Pass)],
};
/// `hypot`.
pub static HYPOT: Elementwise = Elementwise {
    inputs: &[0, 1],
    saves: &[Save::InputFor(1, 1), Save::InputFor(0, 0), Save::Result],
    gradients: &[
        (1, Steps(&[Like(&[G, OTHER]), Like(&[Made(0), Saved(2)])])),
        (0, Steps(&[Like(&[G, SELF]), Like(&[Made(0), Saved(2)])])),
    ],
};
/// `atan2`: one function finds both gradients.
pub static POW_TENSOR: Elementwise = Elementwise {
    inputs: &[0, 1],
    saves: &[Save::Input(1), Save::Input(0), Save::InputFor(3, 1)],
    gradients: &[(1, Steps(EXPONENT)), (0, Steps(BASE))],
};
const EXPONENT: &[Step] = &[
    Truth(&[OTHER]),
    Truth(&[SELF]),
    Truth(&[Made(0), Made(1)]),
    Drop(&[1, 0]),
    Like(&[SELF]),
    Like(&[Saved(2), Made(3)]),
    Number,
    Like(&[Made(2), Made(5), Made(4)]),
    Like(&[G, Made(6)]),
];
const BASE: &[Step] = &[
    Like(&[OTHER]),
    Like(&[SELF, Made(0)]),
    Like(&[OTHER, Made(1)]),
    Like(&[G, Made(2)]),
    Number,
    Truth(&[OTHER]),
    Like(&[Made(5), Made(4), Made(3)]),
];
/// `lerp` with a number.
pub static LERP: Elementwise =
    Elementwise { inputs: &[0, 1], saves: &[], gradients: &[(1, Steps(&[Like(&[G])])), (0, Steps(&[Like(&[G])]))] };
/// `lerp` with a tensor.
pub static LERP_TENSOR: Elementwise = Elementwise {
    inputs: &[0, 1, 2],
    saves: &[Save::InputFor(1, 2), Save::InputFor(0, 2), Save::Input(2)],
    gradients: &[
        (1, Steps(&[Like(&[G, Saved(2)])])),
        (0, Steps(&[Like(&[Saved(2)]), Like(&[G, Made(0)])])),
        (2, Steps(&[Like(&[Saved(0), Saved(1)]), Like(&[G, Made(0)])])),
    ],
};
/// `logaddexp`: the gradient divided by one and the exponential of the difference.
pub static LOGADDEXP: Elementwise =
    Elementwise { inputs: &[0, 1], saves: BOTH, gradients: &[(1, Steps(APART)), (0, Steps(APART))] };
const APART: &[Step] = &[Like(&[SELF, OTHER]), Like(&[Made(0)]), Like(&[Made(1)]), Like(&[G, Made(2)])];
/// `logaddexp2`: the same with a power of two, whose base goes to the GPU.
pub static LOGADDEXP2: Elementwise =
    Elementwise { inputs: &[0, 1], saves: BOTH, gradients: &[(1, Steps(APART_BY_TWO)), (0, Steps(APART_BY_TWO))] };
const APART_BY_TWO: &[Step] =
    &[Like(&[SELF, OTHER]), Like(&[Made(0)]), WideNumber, Drop(&[2]), Like(&[Made(1)]), Like(&[G, Made(3)])];
/// `copysign`: the gradient times the quotient of result and input, where that is not zero.
pub static COPYSIGN: Elementwise = Elementwise {
    inputs: &[0, 1],
    saves: &[Save::InputFor(0, 0), Save::Result],
    gradients: &[
        (1, Zeros),
        (0, Steps(&[Like(&[Saved(1), Saved(0)]), Truth(&[Saved(0)]), Drop(&[1]), Like(&[G, Made(0)])])),
    ],
};
/// `xlogy`: `self * log(other)`.
pub static XLOGY: Elementwise = Elementwise {
    inputs: &[0, 1],
    saves: BOTH,
    gradients: &[
        (1, Steps(&[Like(&[G, SELF]), Like(&[Made(0), OTHER])])),
        (
            0,
            Steps(&[
                Like(&[G, OTHER]),
                Truth(&[SELF]),
                Truth(&[OTHER]),
                Truth(&[Made(1), Made(2)]),
                Like(&[Made(0), Made(3)]),
            ]),
        ),
    ],
};
/// `fmax`, `fmin`: where both are numbers the larger, else the one that is.
pub static FMAX: Elementwise =
    Elementwise { inputs: &[0, 1], saves: BOTH, gradients: &[(1, Steps(NUMBER)), (0, Steps(NUMBER))] };
const NUMBER: &[Step] = &[Truth(&[SELF, OTHER]), Truth(&[OTHER]), Like(&[G, Made(0)])];
/// A quotient that is rounded: its gradients are zeros.
pub static DIV_ROUNDED: Elementwise =
    Elementwise { inputs: &[0, 1], saves: BOTH, gradients: &[(1, Steps(&[Like(&[G])])), (0, Steps(&[Like(&[G])]))] };
/// A product of complex numbers: the other factor's conjugate is a copy.
pub static MUL_COMPLEX: Elementwise = Elementwise {
    inputs: &[0, 1],
    saves: FOR_EACH_OTHER,
    gradients: &[(1, Steps(&[Like(&[SELF]), Like(&[G, Made(0)])])), (0, Steps(&[Like(&[OTHER]), Like(&[G, Made(0)])]))],
};
/// `addcmul`.
pub static ADDCMUL: Elementwise = Elementwise {
    inputs: &[0, 1, 2],
    saves: &[Save::InputFor(1, 2), Save::InputFor(2, 1)],
    gradients: &[
        (0, Pass),
        (1, Steps(&[Like(&[Saved(1)]), Like(&[G, Made(0)])])),
        (2, Steps(&[Like(&[Saved(0)]), Like(&[G, Made(0)])])),
    ],
};
/// `addcdiv`.
pub static ADDCDIV: Elementwise = Elementwise {
    inputs: &[0, 1, 2],
    saves: &[Save::InputFor(1, 2), Save::Input(2)],
    gradients: &[
        (0, Pass),
        (1, Steps(&[Like(&[Saved(1)]), Like(&[G, Made(0)])])),
        (
            2,
            Steps(&[
                Like(&[G]),
                Like(&[Saved(0)]),
                Like(&[Saved(1)]),
                Like(&[Made(1), Made(2)]),
                Like(&[Made(0), Made(3)]),
            ]),
        ),
    ],
};
/// `where` with gradients for both choices.
pub static WHERE: Elementwise =
    Elementwise { inputs: &[1, 2, 0], saves: &[Save::Input(2)], gradients: &[(1, Steps(CHOSEN)), (0, Steps(CHOSEN))] };
const CHOSEN: &[Step] = &[Number, Like(&[Saved(0), G, Made(0)])];
/// `masked_fill` with a number.
pub static MASKED_FILL: Elementwise =
    Elementwise { inputs: &[0, 1], saves: &[Save::Input(1)], gradients: &[(0, MASKED)] };
const MASKED: Formula = Steps(&[Compact(&[G, Saved(0)])]);
