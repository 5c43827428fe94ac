//! A workspace read as copies of tensors and something within, so that it can be said of another shape; `readings.py` has the same.

use super::problem::{Copied, Problem};

/// Kinds of readings. Partial sums of the weight in one of three paddings are below, those of what a pass makes above.
const BY_IMAGE: u8 = 4;
const DEPTHWISE: u8 = 7;
const WINOGRAD: u8 = 8;
const SINGLE: u8 = 12;
const RELATIVE: u8 = 13;
const GROUPED: u8 = 14;
const PARTS: i64 = 65_536;

/// What a workspace is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reading {
    /// Of image, weight and result.
    pub copies: u8,
    pub kind: u8,
    pub rest: u16,
    pub value: u32,
}

fn copied(number: u8) -> Copied {
    match number {
        0 => Copied::No,
        1 => Copied::Plain,
        2 => Copied::Padded,
        _ => Copied::InputsPadded,
    }
}

impl Reading {
    /// Bytes of such a workspace of a problem.
    pub fn of(self, problem: &Problem) -> u64 {
        let (rest, value) = (i64::from(self.rest), i64::from(self.value));
        let size = problem.dtype.bytes().cast_signed();
        let copies = problem.image_copy(copied(self.copies % 3))
            + problem.weight_elements(copied(self.copies / 3 % 4)) * size
            + problem.result_copy(copied(self.copies / 12));
        let bytes = match self.kind {
            BY_IMAGE => problem.image[0] * problem.weight_elements(Copied::Plain) * 4 + rest,
            DEPTHWISE => problem.depthwise_sums(),
            WINOGRAD => problem.winograd_tiles(),
            SINGLE => problem.plain_copies() / size * 4 + value,
            GROUPED => problem.grouped_copies() + value,
            RELATIVE => (i128::from(value) * i128::from(problem.plain_copies()) / i128::from(PARTS)) as i64,
            1..BY_IMAGE => copies + value * problem.weight_elements(copied(self.kind)) * 4 + rest,
            5..DEPTHWISE => copies + value * problem.produced_copy(copied(self.kind - BY_IMAGE)) / size * 4 + rest,
            _ => copies + value,
        };
        bytes.unsigned_abs()
    }
}
