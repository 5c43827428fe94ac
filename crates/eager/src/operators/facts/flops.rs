//! Floating-point operations of a call.

use vramfit_graph::bind::{Bound, BoundCall, BoundTensor, Value};

/// Operations of a pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flops {
    /// Of the forward pass.
    pub forward: u64,
    /// Of the backward pass, including what is computed again for checkpoints.
    pub backward: u64,
}

impl std::ops::AddAssign for Flops {
    fn add_assign(&mut self, other: Flops) {
        self.forward += other.forward;
        self.backward += other.backward;
    }
}

impl Flops {
    /// The sum of both.
    pub fn total(self) -> u64 {
        self.forward + self.backward
    }
}

/// How the operations of a call are counted.
#[derive(Clone, Copy, Debug)]
pub enum FlopFormula {
    /// PyTorch's counter has no formula for it.
    Zero,
    /// By this formula, with all gradients that are wanted. The last argument says whether attention ran as one fused kernel.
    Counted(fn(&Bound<'_>, &BoundCall<'_>, bool) -> Option<Flops>),
}

/// The tensor that is argument `index` of a call.
pub(in crate::operators) fn argument<'a>(
    bound: &'a Bound<'_>,
    call: &BoundCall<'_>,
    index: usize,
) -> Option<&'a BoundTensor> {
    match call.arguments.get(index)? {
        Value::Tensor(id) => Some(bound.tensor(*id)),
        _ => None,
    }
}

/// How many elements a shape has.
pub(in crate::operators) fn elements(dims: &[i64]) -> u64 {
    dims.iter().map(|dim| dim.unsigned_abs()).product()
}
