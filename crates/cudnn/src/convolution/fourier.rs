//! Workspaces of the plans that compute a convolution by Fourier transforms. They are the largest plans of most convolutions in single
//! precision, and a cuDNN that sees no GPU leaves them out of its list.
//!
//! The sizes were derived from traces of scripts that set `torch.backends.cudnn.benchmark`, and compared with cuDNN's lists of plans next to an
//! H200 (`docs/cudnn-workspaces.md`).

use vramfit_graph::dtype::Dtype;
use vramfit_graph::format::Format;

use super::problem::{ConvolutionPass, ConvolutionProblem};

/// The smallest and the largest side of a transform of a whole image, and the side of the tiles that an input's gradient is cut into.
const SMALLEST: i64 = 16;
const LARGEST: i64 = 256;
const TILE: i64 = 32;
/// Parts of a workspace are rounded up to so many numbers, and copies in another layout end with as many.
const ALIGNMENT: i64 = 4;

/// So many groups are computed at a time.
const GROUPS: i64 = 8;

/// A plan that is not in every list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FourierPlan {
    /// Bytes of its workspace.
    pub bytes: u64,
    /// Whether cuDNN had it for nearly all layers of this kind (567 of 587), or only for most (518 of 654).
    pub is_in_nearly_all_lists: bool,
}

/// The plan of a convolution; `None` where none is known.
pub(super) fn plan(problem: &ConvolutionProblem) -> Option<FourierPlan> {
    let is_supported = problem.dtype == Dtype::Float32
        && problem.stride.len() == 2
        && problem.dilation.iter().all(|&dilation| dilation == 1);
    if !is_supported {
        return None;
    }
    let is_large = problem.weight[2..].iter().all(|&side| side > 1);
    let group = one_group(problem);
    let (numbers, is_in_nearly_all_lists) = match (problem.pass, &problem.stride[..]) {
        (ConvolutionPass::Forward, [1, 1]) => (forward(&group)?, false),
        (ConvolutionPass::WeightGradient, [1, 1]) => (weight_gradient(&group)?, problem.is_pointwise()),
        (ConvolutionPass::InputGradient, [1, 1]) if is_large => (tiled(&group), true),
        (ConvolutionPass::InputGradient, [2, 2]) => (strided(&group)?, true),
        _ => return None,
    };
    let numbers = GROUPS.min(problem.groups) * (numbers + copies(problem, &group));
    Some(FourierPlan { bytes: numbers.unsigned_abs() * Dtype::Float32.bytes(), is_in_nearly_all_lists })
}

/// A layer that is one group of another.
fn one_group(problem: &ConvolutionProblem) -> ConvolutionProblem {
    let mut group = problem.clone();
    group.image[1] /= problem.groups;
    group.result[1] /= problem.groups;
    group.weight[0] /= problem.groups;
    group
}

/// Planes of weights, of images, and of results.
fn planes(problem: &ConvolutionProblem) -> (i64, i64, i64) {
    let (batch, inputs, outputs) = (problem.image[0], problem.image[1], problem.result[1]);
    (inputs * outputs, batch * inputs, batch * outputs)
}

fn elements(shape: &[i64]) -> i64 {
    shape.iter().product()
}

fn aligned(numbers: i64) -> i64 {
    (numbers + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT
}

/// Numbers of a square transform: complex ones, of which half follow from the others.
fn transform(side: i64) -> i64 {
    2 * side * (side / 2 + 1)
}

/// Numbers of one whole plane's transform: the side is a power of two in which image and kernel do not overlap.
fn whole_plane(problem: &ConvolutionProblem) -> Option<i64> {
    let needed = (2..4).map(|dim| problem.image[dim] + problem.weight[dim] - 1).max()?;
    let side = (needed.unsigned_abs().next_power_of_two() as i64).max(SMALLEST);
    (side <= LARGEST).then(|| transform(side))
}

/// The transforms of weights and images, twice, which the result's may overwrite; and a copy of the weights.
fn forward(problem: &ConvolutionProblem) -> Option<i64> {
    let (weights, images, results) = planes(problem);
    Some(2 * whole_plane(problem)? * results.max(weights + images) + aligned(elements(&problem.weight)))
}

/// The transforms of images and results, twice, which the weights' may overwrite; and a copy of the results.
fn weight_gradient(problem: &ConvolutionProblem) -> Option<i64> {
    let (weights, images, results) = planes(problem);
    Some(2 * whole_plane(problem)? * weights.max(images + results) + aligned(elements(&problem.result)))
}

/// The transforms of the weights, and of one tile or two of images and results.
fn tiled(problem: &ConvolutionProblem) -> i64 {
    let (weights, images, results) = planes(problem);
    let is_one_tile = (2..4).all(|dim| problem.image[dim] + problem.weight[dim] - 1 <= TILE);
    let tiles = if is_one_tile { 1 } else { 2 };
    transform(TILE) * (weights + tiles * (images + results))
}

/// Weights and images are cut into four by a stride of 2, and padded copies of everything are kept. Known for kernels of 3 × 3 and 4 × 4.
fn strided(problem: &ConvolutionProblem) -> Option<i64> {
    let (weights, images, results) = planes(problem);
    let (side, border) = match problem.weight[2..] {
        [3, 3] => (4, 1),
        [4, 4] => (6, 0),
        _ => return None,
    };
    let is_one_tile = problem.result[2..].iter().all(|&side| side + border < TILE);
    let tiles = if is_one_tile { 1 } else { 2 };
    let padded = results * (problem.result[2] + border) * (problem.result[3] + border);
    let copies = side * side * weights + elements(&problem.image) + padded + ALIGNMENT;
    Some(transform(TILE) * (4 * weights + tiles * (4 * images + results)) + copies)
}

/// The transforms read tensors with channels first and without gaps: copies of those that are stored otherwise. Where a stride cuts tensors into
/// pieces, these are the copies.
fn copies(problem: &ConvolutionProblem, group: &ConvolutionProblem) -> i64 {
    let copied = |shape: &[i64]| match problem.format {
        // A group of several images has the others between them.
        Format::Contiguous => problem.groups > 1 && shape[0] > 1,
        Format::ChannelsLast => problem.groups > 1 || shape[2..].iter().any(|&side| side > 1),
    };
    let mut numbers = 0;
    for shape in [&group.image, &group.result] {
        numbers += if copied(shape) { elements(shape) } else { 0 };
    }
    if problem.format == Format::ChannelsLast && problem.groups == 1 && copied(&group.weight) {
        numbers += elements(&group.weight);
    }
    let is_cut = problem.stride.iter().any(|&stride| stride > 1);
    if numbers == 0 || is_cut { 0 } else { numbers + ALIGNMENT }
}

#[cfg(test)]
mod tests {
    use vramfit_graph::dims::Dims;

    use super::*;

    /// Batch, inputs, outputs, side, kernel, stride, padding, pass.
    fn problem(sizes: [i64; 4], kernel: i64, stride: i64, padding: i64, pass: ConvolutionPass) -> ConvolutionProblem {
        let [batch, inputs, outputs, side] = sizes;
        let after = (side + 2 * padding - kernel) / stride + 1;
        ConvolutionProblem {
            pass,
            dtype: Dtype::Float32,
            format: Format::Contiguous,
            image: Dims::from([batch, inputs, side, side]),
            result: Dims::from([batch, outputs, after, after]),
            weight: Dims::from([outputs, inputs, kernel, kernel]),
            stride: Dims::from([stride, stride]),
            padding: Dims::from([padding, padding]),
            dilation: Dims::from([1, 1]),
            groups: 1,
        }
    }

    #[test]
    fn the_sizes_are_those_that_were_recorded_on_an_h200() {
        use ConvolutionPass::{Forward, InputGradient, WeightGradient};
        for (sizes, kernel, stride, padding, pass, bytes) in [
            ([128, 512, 512, 4], 3, 1, 1, Forward, 764_411_904),
            ([128, 32, 64, 32], 3, 1, 1, Forward, 276_897_792),
            ([64, 512, 1, 4], 4, 1, 0, Forward, 76_709_888),
            ([128, 1024, 512, 4], 1, 1, 0, Forward, 1_512_046_592),
            ([16, 64, 64, 56], 3, 1, 1, WeightGradient, 151_257_088),
            ([64, 512, 100, 4], 4, 1, 0, WeightGradient, 117_990_400),
            ([32, 2048, 512, 7], 1, 1, 0, WeightGradient, 2_419_130_368),
            ([128, 512, 512, 4], 3, 1, 1, InputGradient, 1_711_276_032),
            ([128, 64, 64, 32], 3, 1, 1, InputGradient, 160_432_128),
            ([64, 512, 100, 4], 4, 1, 0, InputGradient, 393_281_536),
            ([64, 256, 512, 8], 4, 2, 1, InputGradient, 2_734_686_224),
            ([32, 512, 512, 14], 3, 2, 1, InputGradient, 4_953_735_184),
            ([16, 64, 128, 56], 3, 2, 1, InputGradient, 189_603_856),
            ([6, 320, 256, 182], 3, 2, 1, InputGradient, 1_817_917_456),
            ([32, 192, 96, 65], 3, 1, 1, InputGradient, 160_432_128),
            ([11, 144, 6, 1], 1, 1, 0, WeightGradient, 3_801_872),
        ] {
            let found = plan(&problem(sizes, kernel, stride, padding, pass));
            assert_eq!(found.map(|plan| plan.bytes), Some(bytes), "{sizes:?} {kernel} {stride} {pass:?}");
        }
    }

    #[test]
    fn with_channels_last_copies_are_added_of_what_has_more_than_one_pixel() {
        let last = |sizes, kernel, padding, pass| {
            let problem = problem(sizes, kernel, 1, padding, pass);
            plan(&ConvolutionProblem { format: Format::ChannelsLast, ..problem }).map(|plan| plan.bytes)
        };
        assert_eq!(last([128, 16, 32, 110], 3, 1, ConvolutionPass::Forward), Some(842_666_000));
        assert_eq!(last([2, 512, 512, 4], 3, 1, ConvolutionPass::InputGradient), Some(1_159_331_856));
        assert_eq!(last([343, 448, 56, 1], 1, 0, ConvolutionPass::Forward), Some(411_944_960));
    }

    #[test]
    fn eight_groups_are_computed_at_a_time() {
        use ConvolutionPass::{Forward, InputGradient, WeightGradient};
        for (sizes, groups, stride, pass, bytes) in [
            ([1, 1280, 1280, 36], 32, 1, Forward, 443_811_840),
            ([4, 512, 512, 20], 32, 1, Forward, 23_994_496),
            ([10, 224, 224, 36], 4, 1, Forward, 523_256_896),
            ([4, 512, 512, 20], 32, 1, InputGradient, 15_007_872),
            ([4, 512, 512, 20], 32, 1, WeightGradient, 20_283_520),
            ([12, 336, 336, 32], 14, 2, InputGradient, 142_746_752),
        ] {
            let mut grouped = problem(sizes, 3, stride, 1, pass);
            grouped.groups = groups;
            grouped.weight[1] /= groups;
            assert_eq!(plan(&grouped).map(|plan| plan.bytes), Some(bytes), "{sizes:?} {pass:?}");
        }
    }

    #[test]
    fn a_side_decides_for_both_and_one_dimension_is_a_row() {
        let mut row = problem([867, 300, 100, 128], 5, 1, 2, ConvolutionPass::WeightGradient);
        (row.image[2], row.result[2], row.weight[2]) = (1, 1, 1);
        assert_eq!(plan(&row).map(|plan| plan.bytes), Some(183_287_961_600));
    }

    #[test]
    fn other_types_and_strides_have_no_such_plan() {
        let plain = problem([8, 64, 64, 16], 3, 1, 1, ConvolutionPass::Forward);
        assert!(plan(&plain).is_some());
        for other in [
            ConvolutionProblem { dtype: Dtype::Float16, ..plain.clone() },
            ConvolutionProblem { dilation: Dims::from([2, 2]), ..plain.clone() },
            problem([8, 64, 64, 16], 3, 2, 1, ConvolutionPass::Forward),
            problem([8, 64, 64, 16], 1, 1, 0, ConvolutionPass::InputGradient),
            problem([1, 3, 64, 300], 3, 1, 1, ConvolutionPass::Forward),
        ] {
            assert_eq!(plan(&other), None, "{other:?}");
        }
    }
}
