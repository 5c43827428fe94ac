//! The memory cuDNN's convolutions work in.

use vramfit_cudnn::Scenario;
use vramfit_cudnn::convolution::{self, ConvolutionPass, ConvolutionProblem, Evidence, PlanId, Planned};

use crate::autograd::Context;

/// Takes the workspace for as long as the kernels are launched. Without room for it PyTorch goes on to the next plan, of which the
/// last ones need none, and keeps the one that ran for all convolutions that are alike.
pub(super) fn take(context: &mut Context, problem: &ConvolutionProblem) {
    if context.memory().borrow().is_muted() {
        return;
    }
    let plans = context.plans();
    // A benchmark takes the fastest plan, whatever the heuristic that a library is asked for says.
    let (gpu, live) = (context.gpu_identity(), context.live_cudnn().filter(|_| !plans.are_benchmarked));
    let Planned { plan, workspace, is_first } =
        context.planned(problem, |problem| convolution::workspace(problem, gpu, live));
    context.note_cudnn_source(workspace.evidence);
    if plans.are_benchmarked {
        context.note_guess("workspace of a convolution with cudnn.benchmark");
        if is_first {
            search(context, problem, plan, plans.assumption);
        }
        let all = problem.all_copies().unsigned_abs();
        let kept = match plans.assumption {
            Scenario::Lower => 0,
            Scenario::Expected => workspace.expected.min(all),
            Scenario::Upper => all * 3,
        };
        context.memory().borrow_mut().pass_through(kept, plan);
        return;
    }
    // Trees that all predict the same are wrong about one layer in twenty.
    if !workspace.is_certain() || workspace.evidence == Evidence::Guessed {
        context.note_guess(match workspace.evidence {
            Evidence::Recorded | Evidence::Guessed => "workspace of a convolution",
            Evidence::Asked | Evidence::Tabulated => "workspace of a convolution that depends on the GPU itself",
        });
    }
    // What is not certain is asked for even where it is nothing: under another assumption it is something.
    if workspace.upper > 0 {
        context.memory().borrow_mut().pass_through(workspace.assuming(plans.assumption), plan);
    }
}

/// All plans are tried in the largest of their workspaces; where there is no room for it, in less, which is not modelled. Of 249 recorded searches a pass, half
/// took at most the first number of tenths of the tensors' bytes, nineteen in twenty at most the second.
fn search(context: &mut Context, problem: &ConvolutionProblem, plan: PlanId, assumption: Scenario) {
    let (median, high) = match problem.pass {
        ConvolutionPass::Forward => (13, 4483),
        ConvolutionPass::InputGradient => (10, 144),
        ConvolutionPass::WeightGradient => (27, 4320),
    };
    let tenths = match assumption {
        Scenario::Lower => 0,
        Scenario::Expected => median,
        Scenario::Upper => high,
    };
    context.memory().borrow_mut().pass_through(problem.all_copies().unsigned_abs() * tenths / 10, plan);
}
