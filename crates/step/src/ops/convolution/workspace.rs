//! The memory cuDNN's convolutions work in.

use vramfit_graph::dtype::Dtype;

use super::plan_cache::{LESSER, Planned};
use super::problem::{Copied, Pass, Problem};
use super::recorded::{self, Spread};
use crate::format::Format;
use crate::forward::Guess;
use crate::kernels::reduce::Gpu;
use crate::memory::Plan;
use crate::ops::Context;

/// How PyTorch chooses among cuDNN's plans for a convolution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Plans {
    /// `torch.backends.cudnn.benchmark`: all plans are tried, in the largest of their workspaces, and the fastest is kept.
    pub are_benchmarked: bool,
    /// What is assumed of workspaces that nobody recorded.
    pub assumption: Guess,
}

/// The GPU whose plans were recorded.
const RECORDED_ON: Gpu = Gpu { multiprocessors: 132, threads_per_multiprocessor: 2048 };

/// Takes the workspace for as long as the kernels are launched. Without room for it PyTorch goes on to the next plan, of which the
/// last ones need none, and keeps the one that ran for all convolutions that are alike.
pub(super) fn take(context: &mut Context, problem: &Problem) {
    if context.memory().borrow().is_muted() {
        return;
    }
    let plans = context.plans();
    let is_recorded = context.gpu() == RECORDED_ON;
    let Planned { plan, spread, is_first } = context.planned(problem, |problem| {
        let spread = recorded::workspace(problem);
        if is_recorded { spread } else { elsewhere(problem, spread) }
    });
    if plans.are_benchmarked {
        context.note_guess("workspace of a convolution with cudnn.benchmark");
        if is_first {
            search(context, problem, plan, plans.assumption);
        }
        let all = problem.all_copies().unsigned_abs();
        let kept = match plans.assumption {
            Guess::Least => 0,
            Guess::Usual => spread.expected.min(all),
            Guess::Most => all * 3,
        };
        context.memory().borrow_mut().pass_through(kept, plan);
        return;
    }
    if !spread.is_certain() {
        context.note_guess("workspace of a convolution");
    }
    // What is not certain is asked for even where it is nothing: under another assumption it is something.
    if spread.most > 0 {
        context.memory().borrow_mut().pass_through(spread.assuming(plans.assumption), plan);
    }
}

/// Bytes of the workspaces of the plans that are tried where there is no room for a usual one, 0 for none. In the first layout one that copies the
/// three tensors and nothing else comes soon where the first keeps partial sums beside them; a pointwise weight is the same in both layouts, and is not copied. Then, in 279 of 401 recorded
/// lists for the forward pass of single precision, one that copies image and weight, not the result; and in 224 of 275 for the
/// weight's gradient of half precision one sum in single precision and a number for every 128 of its elements.
/// `docs/cudnn-workspaces.md` says how often that is so.
pub(super) fn lesser_plans(problem: &Problem) -> [u64; LESSER] {
    if problem.format == Format::ChannelsLast {
        return [0; LESSER];
    }
    let is_single = problem.dtype == Dtype::Float32;
    let least = match problem.pass {
        _ if problem.groups > 1 => 0,
        Pass::Forward if is_single => {
            problem.image_copy(Copied::Plain)
                + problem.weight_elements(Copied::Plain) * problem.dtype.bytes().cast_signed()
                + 16
        }
        Pass::WeightGradient if !is_single => {
            let elements = problem.weight_elements(Copied::Plain);
            elements * 4 + elements / 128 + 16
        }
        _ => 0,
    };
    let is_pointwise = problem.groups == 1 && problem.weight[2..].iter().all(|&side| side == 1);
    let uncopied =
        if is_pointwise { problem.weight_elements(Copied::Plain) * problem.dtype.bytes().cast_signed() } else { 0 };
    [problem.plain_copies() - uncopied + 16, least].map(i64::unsigned_abs)
}

/// On another GPU cuDNN may choose any plan: one without a workspace, or one that copies everything.
fn elsewhere(problem: &Problem, recorded: Spread) -> Spread {
    Spread::up_to(recorded.expected, recorded.most.max(problem.all_copies().unsigned_abs()))
}

/// All plans are tried in the largest of their workspaces; where there is no room for it, in less, which is not modelled. Of 249 recorded searches a pass, half
/// took at most the first number of tenths of the tensors' bytes, nineteen in twenty at most the second.
fn search(context: &mut Context, problem: &Problem, plan: Plan, assumption: Guess) {
    let (median, high) = match problem.pass {
        Pass::Forward => (13, 4483),
        Pass::InputGradient => (10, 144),
        Pass::WeightGradient => (27, 4320),
    };
    let tenths = match assumption {
        Guess::Least => 0,
        Guess::Usual => median,
        Guess::Most => high,
    };
    context.memory().borrow_mut().pass_through(problem.all_copies().unsigned_abs() * tenths / 10, plan);
}
