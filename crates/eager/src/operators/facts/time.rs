//! Which measurement an operator's time is taken from. `price` holds the measurements; rows have the same names there.

use crate::autograd::ResultKind;

/// How many elements a measurement of a kernel is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// Those of the first argument or of the result, whichever has more.
    Larger,
    /// Those of the first argument.
    Input,
    /// Those of the result.
    Result,
    /// Half of those of the result: two equal inputs were measured.
    HalfResult,
}

/// What decides how long a call takes on the GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// It moves memory, as this kernel does for so many elements. The call itself decides between variants of some kernels.
    Moves(&'static str, Extent),
    /// A product of matrices.
    Product {
        /// The indices of its factors among the arguments.
        factors: (usize, usize),
        /// The index of what is added to the product, if anything may be.
        bias: Option<usize>,
        /// Whether the second factor has its columns as rows, as the weight of a linear layer.
        is_transposed: bool,
    },
    /// A product of the first argument with a weight that is unpacked for it, forward and backward.
    UnpackedProduct,
    /// Attention.
    Attention,
    /// A convolution.
    Convolution {
        /// Whether it is a transposed one.
        is_transposed: bool,
    },
    /// A recurrent network, by the family that was measured.
    Recurrent(&'static str),
    /// Nothing, but Python waits for its result.
    Wait,
    /// Nothing like it was measured. It is timed as an addition, and the answer names the operator.
    Assumed,
}

impl Work {
    /// The kind that a selective checkpoint may keep, if it is one.
    pub fn kept_as(self) -> Option<ResultKind> {
        match self {
            Work::Product { .. } => Some(ResultKind::Matmul),
            Work::Attention => Some(ResultKind::Attention),
            Work::Convolution { .. } => Some(ResultKind::Convolution),
            Work::UnpackedProduct | Work::Moves(..) | Work::Recurrent(_) | Work::Wait | Work::Assumed => None,
        }
    }
}

/// What an operator's time is taken from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Time {
    /// The GPU's part.
    pub work: Work,
    /// The row of the CPU's part.
    pub dispatch: &'static str,
}

impl Time {
    /// Not measured: see [`Work::Assumed`].
    pub const ASSUMED: Time = Time { work: Work::Assumed, dispatch: "add" };
    /// Python waits for the GPU; what that costs the CPU does not depend on the operator.
    pub const WAIT: Time = Time { work: Work::Wait, dispatch: "view" };

    /// A kernel that moves memory, measured on CPU and GPU under one name.
    pub const fn moves(kernel: &'static str, extent: Extent) -> Time {
        Time { work: Work::Moves(kernel, extent), dispatch: kernel }
    }
}

/// What autograd keeps of a call, from `derivatives.yaml`. It decides how far a checkpointed region runs again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keeps {
    /// Nothing but shapes.
    Nothing,
    /// Only its arguments: a region that is run again stops before the last such call.
    Inputs,
    /// What it computes.
    Results,
}
