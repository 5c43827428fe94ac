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

#[cfg(test)]
mod tests {
    use ConvolutionPass::{Forward, InputGradient, WeightGradient};

    use super::*;
    use crate::convolution::problem::ConvolutionPass;
    use crate::convolution::problem::tests::{LAYERS, described};

    #[test]
    fn forms_give_the_bytes_that_the_scripts_that_grew_the_trees_give() {
        for (layer, pass, [copies, kind, rest, value], expected) in EXPECTED {
            let form = WorkspaceForm { copies: copies as u8, kind: kind as u8, rest: rest as u16, value };
            let problem = ConvolutionProblem { pass, ..described(LAYERS[layer]) };
            assert_eq!(form.bytes(&problem), expected, "{form:?} of {}", LAYERS[layer]);
        }
    }

    #[test]
    fn the_largest_numbers_that_a_form_can_hold_do_not_overflow() {
        let problem = described("fp32 first 1024 8192 8192 1 1024x1024 64x64 1x1 0x0 1x1");
        for kind in 0..=u8::MAX {
            let form = WorkspaceForm { copies: u8::MAX, kind, rest: u16::MAX, value: u32::MAX };
            assert!(form.bytes(&problem) > 0);
        }
    }

    /// Layer, pass, a form's copies, kind, rest and value, and its bytes; from `forms.py`.
    const EXPECTED: [(usize, ConvolutionPass, [u32; 4], u64); 23] = [
        (0, Forward, [0, 0, 0, 77], 77),
        (0, Forward, [1, 0, 0, 16], 224_656),
        (1, Forward, [23, 0, 0, 131], 22_360_451),
        (2, Forward, [32, 9, 0, 16384], 1_021_504),
        (0, WeightGradient, [16, 1, 144, 3], 1_196_784),
        (4, WeightGradient, [6, 2, 272, 7], 307_472),
        (5, WeightGradient, [0, 3, 16, 2], 3_136_016),
        (0, WeightGradient, [0, 4, 256, 1], 1_152_256),
        (5, WeightGradient, [0, 4, 0, 1], 588_000),
        (0, Forward, [1, 5, 128, 2], 325_568),
        (0, InputGradient, [1, 5, 128, 2], 674_048),
        (5, Forward, [2, 6, 400, 3], 988_768),
        (5, InputGradient, [2, 6, 400, 3], 114_976),
        (1, WeightGradient, [0, 7, 0, 1], 608_256),
        (5, WeightGradient, [0, 8, 0, 1], 1_731_888),
        (0, WeightGradient, [0, 8, 0, 1], 1_140_480),
        (4, Forward, [0, 12, 0, 131], 5_931_405_251),
        (0, Forward, [0, 13, 0, 70000], 539_868),
        (2, Forward, [0, 14, 0, 99], 1_936_995),
        (6, Forward, [0, 14, 0, 1300], 167_188),
        (6, Forward, [34, 10, 0, 55], 84_023),
        (2, Forward, [0, 11, 0, 4242], 4_242),
        (6, WeightGradient, [5, 3, 256, 5], 409_856),
    ];
}
