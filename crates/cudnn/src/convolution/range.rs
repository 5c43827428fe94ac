//! What is known about the size of a workspace.

use super::live::LivePlan;
use super::problem::ConvolutionProblem;
use super::products;
use super::split_tiles::{self, Kernel};
use crate::{GpuIdentity, Scenario};

/// Bytes of the largest tile, 256 × 256 in single precision.
const LARGEST_TILE: u64 = 256 << 10;
/// Tiles per multiprocessor whose parts a kernel may keep. On the H200 at most 1.82 were seen, in 6,635 layers (`docs/cudnn-workspaces.md`).
const TILES_PER_MULTIPROCESSOR: u64 = 2;

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
        let parts = if gpu.compute_capability == split_tiles::CAPABILITY {
            TILES_PER_MULTIPROCESSOR * gpu.multiprocessors.unsigned_abs() * LARGEST_TILE
        } else {
            0
        };
        WorkspaceRange { expected: bytes, lower: bytes.saturating_sub(parts), upper: bytes + parts, evidence }
    }

    /// A plan of an installed cuDNN for a GPU that was only described to it.
    pub(super) fn asked(plan: &LivePlan, problem: &ConvolutionProblem, gpu: GpuIdentity) -> WorkspaceRange {
        let described = WorkspaceRange::described(plan.workspace, Evidence::Asked, gpu);
        let Some(engine) = &plan.engine else {
            let is_pointwise = problem.is_pointwise();
            return if is_pointwise { described.or_product_of_matrices(problem) } else { described };
        };
        let exact = WorkspaceRange { lower: plan.workspace, upper: plan.workspace, ..described };
        if let Some(most) = products::most_bytes(engine, problem, gpu) {
            return WorkspaceRange { upper: plan.workspace + most, ..exact };
        }
        let kernel = Kernel::of(engine).filter(|_| gpu.compute_capability == split_tiles::CAPABILITY);
        let Some(kernel) = kernel else { return exact };
        kernel.bytes(plan.workspace, problem, gpu).map_or(described, |bytes| WorkspaceRange {
            expected: bytes.expected,
            lower: bytes.lower,
            upper: bytes.upper,
            evidence: Evidence::Asked,
        })
    }

    /// The same on a GPU whose recorded answers predict another size. These know what cuBLASLt takes on the GPU itself, and that depthwise layers have
    /// kernels of their own there.
    pub(super) fn beside_recorded(self, recorded: WorkspaceRange, problem: &ConvolutionProblem) -> WorkspaceRange {
        let WorkspaceRange { expected, lower, upper, .. } = recorded;
        match () {
            () if problem.is_depthwise() => {
                WorkspaceRange { expected, lower: self.lower.min(lower), upper: self.upper.max(upper), ..self }
            }
            () if problem.is_pointwise() && (self.lower..=self.upper).contains(&expected) => {
                WorkspaceRange { expected, ..self }
            }
            () => self,
        }
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
    use vramfit_graph::dims::Dims;

    use super::*;
    use crate::convolution::live::LiveEngine;
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
    fn recorded_answers_count_for_products_of_matrices_and_depthwise_layers() {
        let asked = WorkspaceRange { expected: 16, lower: 16, upper: 4096, evidence: Evidence::Asked };
        let recorded = |expected| WorkspaceRange { expected, ..GUESSED };
        let (pointwise, plain) = (square([64, 64], 56, 1, 1, 0), square([64, 64], 56, 3, 1, 1));
        let beside = |problem, expected| asked.beside_recorded(recorded(expected), problem);
        assert_eq!(beside(&pointwise, 416), WorkspaceRange { expected: 416, ..asked });
        assert_eq!([beside(&pointwise, 5000), beside(&plain, 416)], [asked; 2]);
        let depthwise = ConvolutionProblem { groups: 64, weight: Dims::from([64, 1, 3, 3]), ..plain.clone() };
        let between = beside(&depthwise, 5);
        assert_eq!((between.expected, between.lower, between.upper), (5, 3, 4096));
    }

    const H200: GpuIdentity =
        GpuIdentity { compute_capability: (9, 0), multiprocessors: 132, threads_per_multiprocessor: 2048 };

    #[test]
    fn a_plan_whose_engine_is_known_has_one_size_unless_it_is_a_product() {
        let plan = |knobs: &[(u64, u64)]| LivePlan {
            workspace: 512,
            engine: Some(LiveEngine { number: 1, knobs: knobs.to_vec() }),
        };
        let pointwise = square([1024, 64], 7, 1, 1, 0);
        let exact = WorkspaceRange { evidence: Evidence::Asked, ..WorkspaceRange::recorded(512) };
        assert_eq!(WorkspaceRange::asked(&plan(&[(3, 1)]), &pointwise, H200), exact);
        let product = WorkspaceRange::asked(&plan(&[(25, 1)]), &pointwise, H200);
        assert!(product.expected == 512 && product.lower == 512 && product.upper > 512);
        let unknown = LivePlan { engine: None, ..plan(&[]) };
        assert!(!WorkspaceRange::asked(&unknown, &square([64, 64], 56, 3, 1, 1), H200).is_certain());
    }

    #[test]
    fn kernels_that_split_tiles_are_only_those_of_compute_capability_9_0() {
        let knobs = vec![(2, 0), (13, 1), (25, 0), (27, 1), (28, 2)];
        let plan = LivePlan { workspace: 131, engine: Some(LiveEngine { number: 65, knobs }) };
        let problem = square([64, 64], 56, 3, 1, 1);
        let older = GpuIdentity { compute_capability: (8, 9), ..H200 };
        assert!(WorkspaceRange::asked(&plan, &problem, older).is_certain());
        let unexplained = LivePlan { workspace: 132, ..plan };
        assert!(!WorkspaceRange::asked(&unexplained, &problem, H200).is_certain());
    }

    #[test]
    fn each_scenario_takes_its_end_of_the_range() {
        let scenarios = [Scenario::Expected, Scenario::Lower, Scenario::Upper];
        assert_eq!(scenarios.map(|scenario| GUESSED.assuming(scenario)), [5, 3, 9]);
        assert!(!GUESSED.is_certain() && WorkspaceRange::recorded(7).is_certain());
    }
}
