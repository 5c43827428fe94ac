//! Workspaces of the plans that PyTorch falls back to, and of other GPUs.

use vramfit_graph::dtype::Dtype;
use vramfit_graph::format::Format;

use super::plan_cache::LESSER;
use super::problem::{Copied, Pass, Problem};
use super::recorded::Spread;

/// Bytes of the workspaces of the plans that are tried where there is no room for a usual one, 0 for none. In the first layout one that copies the
/// three tensors and nothing else comes soon where the first keeps partial sums beside them; a pointwise weight is the same in both layouts, and is not copied. Then, in 279 of 401 recorded
/// lists for the forward pass of single precision, one that copies image and weight, not the result; and in 224 of 275 for the
/// weight's gradient of half precision one sum in single precision and a number for every 128 of its elements.
/// `docs/cudnn-workspaces.md` says how often that is so.
pub fn lesser_plans(problem: &Problem) -> [u64; LESSER] {
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
pub fn elsewhere(problem: &Problem, recorded: Spread) -> Spread {
    Spread::up_to(recorded.expected, recorded.most.max(problem.all_copies().unsigned_abs()))
}
