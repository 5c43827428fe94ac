//! What PyTorch requests for a convolution with `torch.backends.cudnn.benchmark`: one workspace in which all plans are tried, then that of the
//! fastest. Times are not simulated, so the fastest may be any of them.

use super::answers::workspace;
use super::fourier;
use super::live::LiveAnswers;
use super::problem::{ConvolutionPass, ConvolutionProblem};
use super::range::{Evidence, WorkspaceRange};
use crate::GpuIdentity;

/// The compute capability on which plans that use Fourier transforms were recorded.
const RECORDED: (u8, u8) = (9, 0);
/// Of the plans that were kept none needed more than so many times the tensors' bytes, nor any that was tried and does not use Fourier
/// transforms more than so many times.
const KEPT: u64 = 3;
const TRIED: u64 = 10;

/// The trial of all plans.
#[derive(Clone, Debug)]
pub struct Trial {
    /// The workspace of the largest plan.
    pub workspace: WorkspaceRange,
    /// Bytes of the workspaces of smaller plans, the largest first. Plans for which the GPU has no memory are not tried.
    pub smaller: Box<[u64]>,
}

/// The workspace of the plan that is kept, and the trial before.
pub fn search(
    problem: &ConvolutionProblem,
    gpu: GpuIdentity,
    live: Option<&dyn LiveAnswers>,
) -> (WorkspaceRange, Trial) {
    let all = problem.all_copies().unsigned_abs();
    let first = workspace(problem, gpu, live);
    let listed = live.map(|live| live.workspaces(problem)).unwrap_or_default();
    let workspace = match listed.first() {
        Some(&largest) => WorkspaceRange::described(largest, Evidence::Asked, gpu),
        None => {
            let upper = WorkspaceRange::described(TRIED * all, Evidence::Guessed, gpu).upper;
            WorkspaceRange::up_to(all * usual_tenths(problem.pass) / 10, upper)
        }
    };
    let upper = first.upper.max(KEPT * all).max(listed.first().copied().unwrap_or(0));
    let kept = WorkspaceRange { lower: 0, upper, ..first };
    (kept, Trial { workspace: with_other_plans(workspace, problem, gpu), smaller: listed.into() })
}

/// Half of 249 recorded trials a pass took at most so many tenths of the tensors' bytes.
fn usual_tenths(pass: ConvolutionPass) -> u64 {
    match pass {
        ConvolutionPass::Forward => 13,
        ConvolutionPass::InputGradient => 10,
        ConvolutionPass::WeightGradient => 27,
    }
}

/// The same where cuDNN may also have plans that it does not tell without a GPU: by Fourier transforms, or for a pointwise layer by a product
/// of matrices.
fn with_other_plans(range: WorkspaceRange, problem: &ConvolutionProblem, gpu: GpuIdentity) -> WorkspaceRange {
    let product = if problem.is_pointwise() { problem.product_of_matrices().unsigned_abs() } else { 0 };
    let range = WorkspaceRange { expected: range.expected.max(product), upper: range.upper.max(product), ..range };
    let Some(plan) = fourier::plan(problem) else { return range };
    let is_certain = plan.is_in_nearly_all_lists && gpu.compute_capability == RECORDED;
    WorkspaceRange {
        expected: range.expected.max(plan.bytes),
        lower: if is_certain { range.lower.max(plan.bytes) } else { range.lower },
        upper: range.upper.max(plan.bytes),
        ..range
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::convolution::live::{CudnnVersion, LivePlan, LiveReport};
    use crate::convolution::problem::tests::square;

    const H200: GpuIdentity =
        GpuIdentity { compute_capability: (9, 0), multiprocessors: 132, threads_per_multiprocessor: 2048 };
    const A100: GpuIdentity = GpuIdentity { compute_capability: (8, 0), multiprocessors: 108, ..H200 };

    /// Has three plans for every layer.
    #[derive(Debug)]
    struct ThreePlans;

    impl LiveAnswers for ThreePlans {
        fn plan(&self, _problem: &ConvolutionProblem) -> Option<LivePlan> {
            Some(LivePlan { workspace: 5, engine: None })
        }

        fn workspaces(&self, _problem: &ConvolutionProblem) -> Vec<u64> {
            vec![1 << 20, 5, 0]
        }

        fn version(&self) -> Option<CudnnVersion> {
            None
        }

        fn report(&self) -> LiveReport {
            unreachable!("nobody reads it here")
        }
    }

    #[test]
    fn plans_that_use_fourier_transforms_are_added_to_those_of_a_library() {
        let plain = ConvolutionProblem { pass: ConvolutionPass::InputGradient, ..square([64, 64], 56, 3, 1, 1) };
        let strided = square([64, 64], 56, 3, 2, 1);
        let fourier = fourier::plan(&plain).map(|plan| plan.bytes).unwrap();
        let trial = |problem, gpu| search(problem, gpu, Some(&ThreePlans)).1;
        let on_h200 = trial(&plain, H200);
        assert_eq!((on_h200.workspace.expected, on_h200.workspace.lower), (fourier, fourier));
        assert_eq!(on_h200.smaller[..], [1 << 20, 5, 0]);
        let on_a100 = trial(&plain, A100).workspace;
        assert_eq!((on_a100.expected, on_a100.lower), (fourier, 1 << 20));
        let without = trial(&strided, A100).workspace;
        assert_eq!((without.expected, without.lower, without.upper), (1 << 20, 1 << 20, 1 << 20));
    }

    #[test]
    fn any_plan_may_be_kept_and_without_a_library_any_may_be_tried() {
        let problem = square([64, 64], 56, 3, 2, 1);
        let (kept, _) = search(&problem, A100, Some(&ThreePlans));
        assert_eq!((kept.expected, kept.lower), (5, 0));
        assert!(kept.upper >= 1 << 20);
        let (_, trial) = search(&problem, A100, None);
        assert!(trial.workspace.lower == 0 && trial.workspace.upper >= TRIED * problem.all_copies().unsigned_abs());
        assert!(trial.smaller.is_empty());
    }
}
