//! How a loss is reduced, which is an argument of every loss.

use crate::operators::call::{Call, Unmodelled};

/// How the losses of elements become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reduction {
    None,
    Mean,
    Sum,
}

impl Reduction {
    pub fn of(call: &Call<'_>, index: usize) -> Result<Reduction, Unmodelled> {
        match call.int(index) {
            Ok(0) => Ok(Reduction::None),
            Ok(1) => Ok(Reduction::Mean),
            Ok(2) => Ok(Reduction::Sum),
            _ if call.is_none(index) => Ok(Reduction::Mean),
            _ => Err(Unmodelled),
        }
    }
}
