//! What is known about the size of a workspace.

use super::problem::ConvolutionProblem;
use crate::{GpuIdentity, Scenario};

/// The compute capability whose kernels split tiles between multiprocessors and keep the parts (stream-K).
const SPLITS_TILES: (u8, u8) = (9, 0);
/// Bytes of the largest tile, 256 × 256 in single precision.
const LARGEST_TILE: u64 = 256 << 10;
/// Tiles per multiprocessor whose parts a kernel may keep. On the H200 at most 1.82 were seen, in 6,635 layers (`docs/cudnn-workspaces.md`).
const TILES_PER_MULTIPROCESSOR: u64 = 2;

/// What workspaces of such kernels leave when divided by 4: they end with 131 bytes of their own.
const SPLIT_TILES_REMAINDER: u64 = 3;

/// The bytes that a workspace may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkspaceRange {
    /// The likeliest size.
    pub expected: u64,
    /// The smallest possible size.
    pub lower: u64,
    /// The largest possible size.
    pub upper: u64,
    /// What it rests on.
    pub evidence: Evidence,
}

/// What is known about a workspace rests on this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evidence {
    /// cuDNN's answer on this very GPU.
    Recorded,
    /// The answer of an installed cuDNN, for a GPU that was only described to it. Another version may answer otherwise.
    Asked,
    /// A shipped answer of cuDNN, for a GPU of this compute capability that was only described to it.
    Tabulated,
    /// Recorded answers for similar convolutions, or for another GPU. Even a range of one value may be wrong.
    Guessed,
}

impl WorkspaceRange {
    /// What cuDNN answered.
    pub(super) fn recorded(bytes: u64) -> WorkspaceRange {
        WorkspaceRange { expected: bytes, lower: bytes, upper: bytes, evidence: Evidence::Recorded }
    }

    /// What cuDNN answered for a GPU that was only described to it. How many parts of tiles a kernel keeps is decided only on the GPU
    /// itself.
    pub(super) fn described(bytes: u64, evidence: Evidence, gpu: GpuIdentity) -> WorkspaceRange {
        let parts = if gpu.compute_capability == SPLITS_TILES {
            TILES_PER_MULTIPROCESSOR * gpu.multiprocessors.unsigned_abs() * LARGEST_TILE
        } else {
            0
        };
        WorkspaceRange { expected: bytes, lower: bytes.saturating_sub(parts), upper: bytes + parts, evidence }
    }

    /// The same on a GPU whose recorded answers predict another size. They know two things that a library without a GPU does not: which
    /// pointwise layers cuBLASLt computes, and how many parts of tiles a kernel keeps that splits them. Of 30 layers in traces of scripts for
    /// which both name such a kernel, their size was nearer for 21 (`docs/cudnn-workspaces.md`).
    pub(super) fn beside_recorded(self, recorded: WorkspaceRange, problem: &ConvolutionProblem) -> WorkspaceRange {
        let splits_tiles = |bytes: u64| bytes % 4 == SPLIT_TILES_REMAINDER;
        let both_split = splits_tiles(self.expected) && splits_tiles(recorded.expected);
        let is_possible = both_split && (self.lower..=self.upper).contains(&recorded.expected);
        if !is_possible && !problem.is_pointwise() {
            return self;
        }
        let (lower, upper) = (self.lower.min(recorded.expected), self.upper.max(recorded.expected));
        WorkspaceRange { expected: recorded.expected, lower, upper, ..self }
    }

    /// The same where cuBLASLt may compute the layer instead. It does so for most pointwise layers for which its workspace is not larger
    /// than the tensors (`docs/cudnn-workspaces.md`).
    pub(super) fn or_product_of_matrices(self, problem: &ConvolutionProblem) -> WorkspaceRange {
        let product = problem.product_of_matrices();
        let tensors = 4 * (problem.image.iter().product::<i64>() + problem.result.iter().product::<i64>());
        let is_likely = product <= tensors;
        let product = product.unsigned_abs();
        let expected = if is_likely { product } else { self.expected };
        WorkspaceRange { expected, lower: self.lower.min(product), upper: self.upper.max(product), ..self }
    }

    /// The same, recorded with one version of cuDNN, where another version gave this answer, or none.
    pub(super) fn or_of_another_version(self, other: Option<WorkspaceRange>) -> WorkspaceRange {
        let Some(other) = other else { return WorkspaceRange { evidence: Evidence::Guessed, ..self } };
        WorkspaceRange { lower: self.lower.min(other.lower), upper: self.upper.max(other.upper), ..other }
    }

    /// Anything from no workspace to `upper`.
    pub(super) fn up_to(expected: u64, upper: u64) -> WorkspaceRange {
        WorkspaceRange { expected, lower: 0, upper, evidence: Evidence::Guessed }
    }

    /// A convolution about which nothing is known: no workspace, or the largest of any form.
    pub(super) fn not_recorded(problem: &ConvolutionProblem) -> WorkspaceRange {
        WorkspaceRange::up_to(0, problem.largest_form().unsigned_abs())
    }

    /// The same convolution on another GPU than the one that answered. There cuDNN may choose any plan.
    pub(super) fn on_another_gpu(self, problem: &ConvolutionProblem) -> WorkspaceRange {
        WorkspaceRange::up_to(self.expected, self.upper.max(problem.largest_form().unsigned_abs()))
    }

    /// Whether only one size is possible.
    pub fn is_certain(&self) -> bool {
        self.lower == self.upper
    }

    /// The size that a scenario assumes.
    pub fn assuming(&self, scenario: Scenario) -> u64 {
        match scenario {
            Scenario::Expected => self.expected,
            Scenario::Lower => self.lower,
            Scenario::Upper => self.upper,
        }
    }

    /// One possible size, chosen by a random number: the expected one in half of all cases, else the smallest, the largest, or none.
    pub(super) fn sampled(&self, random: u64) -> u64 {
        match random % 8 {
            _ if self.evidence != Evidence::Guessed => self.expected,
            0..4 => self.expected,
            4 => self.lower,
            5 => self.upper,
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::convolution::problem::tests::square;

    const GUESSED: WorkspaceRange = WorkspaceRange { expected: 5, lower: 3, upper: 9, evidence: Evidence::Guessed };

    #[test]
    fn samples_cover_the_range_and_leave_answers_of_cudnn_alone() {
        let samples = |range: WorkspaceRange| (0..8).map(|random| range.sampled(random)).collect::<Vec<u64>>();
        assert_eq!(samples(GUESSED), [5, 5, 5, 5, 3, 9, 0, 0]);
        for evidence in [Evidence::Recorded, Evidence::Asked, Evidence::Tabulated] {
            assert_eq!(samples(WorkspaceRange { evidence, ..GUESSED }), [5; 8]);
        }
    }

    #[test]
    fn what_a_library_without_a_gpu_does_not_know_is_taken_from_the_recorded_answers() {
        let problem = square([64, 64], 56, 3, 1, 1);
        let asked = WorkspaceRange { expected: 1_000_131, lower: 0, upper: 9_000_000, evidence: Evidence::Asked };
        let recorded = |expected| WorkspaceRange { expected, ..GUESSED };
        let beside = |asked: WorkspaceRange, expected| asked.beside_recorded(recorded(expected), &problem);
        assert_eq!(beside(asked, 3_000_131), WorkspaceRange { expected: 3_000_131, ..asked });
        for other in [3_000_132, 9_000_131] {
            assert_eq!(beside(asked, other), asked);
        }
        let copies = WorkspaceRange { expected: 1_000_016, ..asked };
        assert_eq!(beside(copies, 3_000_131), copies);
        let pointwise = copies.beside_recorded(recorded(9_500_000), &square([64, 64], 56, 1, 1, 0));
        assert_eq!((pointwise.expected, pointwise.lower, pointwise.upper), (9_500_000, 0, 9_500_000));
    }

    #[test]
    fn each_scenario_takes_its_end_of_the_range() {
        let scenarios = [Scenario::Expected, Scenario::Lower, Scenario::Upper];
        assert_eq!(scenarios.map(|scenario| GUESSED.assuming(scenario)), [5, 3, 9]);
        assert!(!GUESSED.is_certain() && WorkspaceRange::recorded(7).is_certain());
    }
}
