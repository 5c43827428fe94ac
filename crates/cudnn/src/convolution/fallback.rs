//! Workspaces of the plans that PyTorch falls back to when there is no room for the first plan's workspace.

use vramfit_graph::dtype::Dtype;
use vramfit_graph::format::Format;

use super::problem::{ConvolutionPass, ConvolutionProblem, Copied};

/// How many plans with a workspace are tried after the first. After them comes one that needs none.
pub(super) const FALLBACKS: usize = 2;

/// Bytes of the workspaces of the fallback plans, 0 for none. `docs/cudnn-workspaces.md` says how often they are right.
///
/// With channels first the next plan copies the three tensors and nothing else, without the partial sums that the first plan may keep beside
/// them. A pointwise weight is the same in both layouts and is not copied. The plan after that copies image and weight but not the result
/// (279 of 401 recorded lists of the forward pass in single precision), or keeps one sum in single precision and a number for every 128 of
/// its elements (224 of 275 lists of the weight's gradient in half precision).
pub(super) fn workspaces(problem: &ConvolutionProblem) -> [u64; FALLBACKS] {
    if problem.format == Format::ChannelsLast {
        return [0; FALLBACKS];
    }
    let is_single = problem.dtype == Dtype::Float32;
    let size = problem.dtype.bytes().cast_signed();
    let weight = problem.weight_elements(Copied::Plain);
    let last = match problem.pass {
        _ if problem.groups > 1 => 0,
        ConvolutionPass::Forward if is_single => problem.image_copy(Copied::Plain) + weight * size + 16,
        ConvolutionPass::WeightGradient if !is_single => weight * 4 + weight / 128 + 16,
        _ => 0,
    };
    let is_pointwise = problem.groups == 1 && problem.weight[2..].iter().all(|&side| side == 1);
    let uncopied = if is_pointwise { weight * size } else { 0 };
    [problem.plain_copies() - uncopied + 16, last].map(i64::unsigned_abs)
}
