//! The memory cuDNN's convolutions work in.

use vramfit_cudnn::convolution::{self, ConvolutionProblem, Evidence, Planned};

use crate::autograd::Context;
use crate::memory::SideEventKind;

/// Takes the workspace for as long as the kernels are launched. Without room for it PyTorch goes on to the next plan, of which the
/// last ones need none, and keeps the one that ran for all convolutions that are alike. With `torch.backends.cudnn.benchmark` it first tries all
/// plans in one workspace, and empties the cache.
pub(super) fn take(context: &mut Context, problem: &ConvolutionProblem) {
    if context.memory().borrow().is_muted() {
        return;
    }
    let plans = context.plans();
    let (gpu, live) = (context.gpu_identity(), context.live_cudnn());
    let Planned { plan, workspace, trial } = context.planned(problem, |problem| match plans.are_benchmarked {
        true => {
            let (kept, trial) = convolution::search(problem, gpu, live);
            (kept, Some(trial))
        }
        false => (convolution::workspace(problem, gpu, live), None),
    });
    context.note_cudnn_source(workspace.evidence);
    if let Some((trial, workspace)) = trial {
        context.note_cudnn_source(workspace.evidence);
        let mut memory = context.memory().borrow_mut();
        memory.pass_through(workspace.assuming(plans.assumption), trial);
        memory.add_side_event(SideEventKind::CacheEmptied);
    }
    // Trees that all predict the same are wrong about one layer in twenty.
    if !workspace.is_certain() || workspace.evidence == Evidence::Guessed {
        context.note_guess(match workspace.evidence {
            _ if plans.are_benchmarked => "workspace of a convolution with cudnn.benchmark",
            Evidence::Recorded | Evidence::Guessed => "workspace of a convolution",
            Evidence::Asked | Evidence::Tabulated => "workspace of a convolution that depends on the GPU itself",
        });
    }
    // What is not certain is asked for even where it is nothing: under another assumption it is something.
    if workspace.upper > 0 {
        context.memory().borrow_mut().pass_through(workspace.assuming(plans.assumption), plan);
    }
}
