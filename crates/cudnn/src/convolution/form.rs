//! Workspace forms: a workspace's size described as copies of tensors and something added, so that the description holds for other shapes.
//!
//! `validation/workspace_grid/forms.py` derives the form of a recorded workspace and explains the kinds.

use super::problem::{ConvolutionProblem, Copied};

/// Kinds below `BY_IMAGE` are partial sums of the weight with one of three paddings; the next three those of what the pass produces.
const BY_IMAGE: u8 = 4;
const DEPTHWISE: u8 = 7;
const WINOGRAD: u8 = 8;
const SINGLE: u8 = 12;
const RELATIVE: u8 = 13;
const GROUPED: u8 = 14;
const PARTS: i128 = 65_536;

/// How the size of a workspace follows from a convolution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WorkspaceForm {
    /// How image, weight and result are copied, in one number.
    pub copies: u8,
    /// What is added to the copies.
    pub kind: u8,
    /// Bytes beside partial sums.
    pub rest: u16,
    /// Bytes, or how many partial sums, depending on the kind.
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

impl WorkspaceForm {
    /// Bytes of such a workspace for a convolution. In 128 bits, so that no number of a damaged table overflows.
    pub fn bytes(self, problem: &ConvolutionProblem) -> u64 {
        let (rest, value) = (i128::from(self.rest), i128::from(self.value));
        let size = problem.dtype.bytes().cast_signed();
        let copies = problem.image_copy(copied(self.copies % 3))
            + problem.weight_elements(copied(self.copies / 3 % 4)) * size
            + problem.result_copy(copied(self.copies / 12));
        let copies = i128::from(copies);
        let bytes = match self.kind {
            BY_IMAGE => i128::from(problem.image[0] * problem.weight_elements(Copied::Plain) * 4) + rest,
            DEPTHWISE => problem.depthwise_sums().into(),
            WINOGRAD => problem.winograd_tiles().into(),
            SINGLE => i128::from(problem.plain_copies() / size * 4) + value,
            GROUPED => i128::from(problem.grouped_copies()) + value,
            RELATIVE => value * i128::from(problem.plain_copies()) / PARTS,
            1..BY_IMAGE => copies + value * i128::from(problem.weight_elements(copied(self.kind)) * 4) + rest,
            5..DEPTHWISE => {
                let sums = value * i128::from(problem.produced_copy(copied(self.kind - BY_IMAGE)));
                copies + sums / i128::from(size) * 4 + rest
            }
            _ => copies + value,
        };
        u64::try_from(bytes.unsigned_abs()).unwrap_or(u64::MAX)
    }
}
