//! The memory cuDNN's convolutions work in.

use super::problem::{Pass, Problem};
use super::recorded;
use crate::ops::Context;

/// Which of the workspaces that cuDNN may take is assumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Assumption {
    /// The likeliest.
    #[default]
    Likeliest,
    /// The least that is thinkable.
    Least,
    /// The most that is thinkable.
    Most,
}

/// How PyTorch chooses among cuDNN's plans for a convolution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Plans {
    /// `torch.backends.cudnn.benchmark`: all plans are tried, in the largest of their workspaces, and the fastest is kept.
    pub are_benchmarked: bool,
    /// What is assumed of workspaces that nobody recorded.
    pub assumption: Assumption,
}

/// Takes the workspace for as long as the kernels are launched. Without room for it PyTorch goes on to the next plan, and
/// the last ones need none.
pub(super) fn take(context: &mut Context, problem: &Problem) {
    if context.memory().borrow().is_muted() {
        return;
    }
    let plans = context.plans();
    if plans.are_benchmarked {
        context.note_guess("workspace of a convolution with cudnn.benchmark");
        if context.is_first_of_thread(problem) {
            search(context, problem, plans.assumption);
        }
        let all = problem.all_copies().unsigned_abs();
        let kept = match plans.assumption {
            Assumption::Least => 0,
            Assumption::Likeliest => context.workspace_guess(problem, recorded::workspace).expected.min(all),
            Assumption::Most => all * 3,
        };
        drop(context.attempt(kept));
        return;
    }
    let guess = context.workspace_guess(problem, recorded::workspace);
    if !guess.is_certain() {
        context.note_guess("workspace of a convolution");
    }
    drop(context.attempt(match plans.assumption {
        Assumption::Likeliest => guess.expected,
        Assumption::Least => guess.least,
        Assumption::Most => guess.most,
    }));
}

/// All plans are tried in the largest of their workspaces that there is room for. Of 249 recorded searches a pass, half
/// took at most the first number of tenths of the tensors' bytes, nineteen in twenty at most the second.
fn search(context: &mut Context, problem: &Problem, assumption: Assumption) {
    let (median, high) = match problem.pass {
        Pass::Forward => (13, 4483),
        Pass::InputGradient => (10, 144),
        Pass::WeightGradient => (27, 4320),
    };
    let tenths = match assumption {
        Assumption::Least => 0,
        Assumption::Likeliest => median,
        Assumption::Most => high,
    };
    let mut bytes = problem.all_copies().unsigned_abs() * tenths / 10;
    while bytes > 0 && context.attempt(bytes).is_none() {
        bytes /= 2;
    }
}
