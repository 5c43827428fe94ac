//! Workspaces of the plans that compute a convolution by Fourier transforms. They are the largest plans of most convolutions in single
//! precision, and a cuDNN that sees no GPU leaves them out of its list.
//!
//! The sizes were derived from the traces of eight scripts that set `torch.backends.cudnn.benchmark` on an H200 (`docs/cudnn-workspaces.md`).

use vramfit_graph::dtype::Dtype;
use vramfit_graph::format::Format;

use super::problem::{ConvolutionPass, ConvolutionProblem};

/// The sides of a transform of a whole image, and of the tiles that an input's gradient is cut into.
const SMALLEST: i64 = 16;
const LARGEST: i64 = 256;
const TILE: i64 = 32;
/// From so many images on, a pointwise layer's forward pass has such a plan: 40 of 42 layers, and 7 of 38 with fewer.
const MANY_IMAGES: i64 = 24;

/// A plan that is not in every list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FourierPlan {
    /// Bytes of its workspace.
    pub bytes: u64,
    /// Whether cuDNN has it for nearly all layers of this kind, for most, or for few.
    pub frequency: Frequency,
}

/// For how many layers of a kind cuDNN has a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Frequency {
    /// 75 of 81 with a kernel of more than one element and no stride.
    NearlyAll,
    /// 44 of 49 weight gradients of pointwise layers, and 15 of 20 input gradients with a stride of 2.
    Most,
    /// Pointwise layers on few images.
    Few,
}

/// Numbers of a transform with these sides: complex ones, of which half are known from the others.
fn numbers(height: i64, width: i64) -> i64 {
    2 * height * (width / 2 + 1)
}

/// The plan of a convolution; `None` where there is none.
pub(super) fn plan(problem: &ConvolutionProblem) -> Option<FourierPlan> {
    let is_supported = problem.dtype == Dtype::Float32
        && problem.format == Format::Contiguous
        && problem.groups == 1
        && problem.stride.len() == 2
        && problem.dilation.iter().all(|&dilation| dilation == 1);
    if !is_supported {
        return None;
    }
    let is_pointwise = problem.is_pointwise();
    let (elements, frequency) = match (problem.pass, &problem.stride[..]) {
        (ConvolutionPass::Forward, [1, 1]) => (forward(problem)?, forward_frequency(problem)),
        (ConvolutionPass::WeightGradient, [1, 1]) if is_pointwise => (weight_gradient(problem)?, Frequency::Most),
        (ConvolutionPass::WeightGradient, [1, 1]) => (weight_gradient(problem)?, Frequency::NearlyAll),
        (ConvolutionPass::InputGradient, [1, 1]) if !is_pointwise => (tiled(problem), Frequency::NearlyAll),
        (ConvolutionPass::InputGradient, [2, 2]) => (strided(problem)?, Frequency::Most),
        _ => return None,
    };
    Some(FourierPlan { bytes: elements.unsigned_abs() * Dtype::Float32.bytes(), frequency })
}

fn forward_frequency(problem: &ConvolutionProblem) -> Frequency {
    match problem.is_pointwise() {
        false => Frequency::NearlyAll,
        true if problem.image[0] >= MANY_IMAGES || problem.image[2..].iter().all(|&side| side == 1) => Frequency::Most,
        true => Frequency::Few,
    }
}

/// Planes of weights, of images, and of results.
fn planes(problem: &ConvolutionProblem) -> (i64, i64, i64) {
    let (batch, inputs, outputs) = (problem.image[0], problem.image[1], problem.result[1]);
    (inputs * outputs, batch * inputs, batch * outputs)
}

/// Numbers of one whole plane's transform: the sides are powers of two in which image and kernel do not overlap.
fn whole_plane(problem: &ConvolutionProblem) -> Option<i64> {
    let side = |dim: usize| {
        let needed = (problem.image[dim] + problem.weight[dim] - 1).unsigned_abs();
        Some((needed.next_power_of_two() as i64).max(SMALLEST)).filter(|&side| side <= LARGEST)
    };
    Some(numbers(side(2)?, side(3)?))
}

fn elements(shape: &[i64]) -> i64 {
    shape.iter().product()
}

/// The transforms of weights and images, twice, which the result's may overwrite; and a copy of the weights.
fn forward(problem: &ConvolutionProblem) -> Option<i64> {
    let (weights, images, results) = planes(problem);
    Some(2 * whole_plane(problem)? * results.max(weights + images) + elements(&problem.weight))
}

/// The transforms of images and results, twice, which the weights' may overwrite; and a copy of the results.
fn weight_gradient(problem: &ConvolutionProblem) -> Option<i64> {
    let (weights, images, results) = planes(problem);
    Some(2 * whole_plane(problem)? * weights.max(images + results) + elements(&problem.result))
}

/// The transforms of the weights, and of a row of tiles of images and results.
fn tiled(problem: &ConvolutionProblem) -> i64 {
    let (weights, images, results) = planes(problem);
    let tiles =
        |dim: usize| (problem.image[dim] as u64).div_ceil((TILE + 1 - problem.weight[dim]).max(1) as u64) as i64;
    numbers(TILE, TILE) * (weights + tiles(2).max(tiles(3)) * (images + results))
}

/// Weights and images are cut into four by a stride of 2, and padded copies of everything are kept. Known for kernels of 3 × 3 and 4 × 4 on
/// planes of one tile.
fn strided(problem: &ConvolutionProblem) -> Option<i64> {
    let (weights, images, results) = planes(problem);
    let is_one_tile = problem.result[2..].iter().all(|&side| side + 1 < TILE);
    let (side, border) = match problem.weight[2..] {
        [3, 3] if is_one_tile => (4, 1),
        [4, 4] if is_one_tile => (6, 0),
        _ => return None,
    };
    let copies = side * side * weights
        + elements(&problem.image)
        + results * (problem.result[2] + border) * (problem.result[3] + border)
        + 4;
    Some(numbers(TILE, TILE) * (4 * weights + 4 * images + results) + copies)
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
        ] {
            let found = plan(&problem(sizes, kernel, stride, padding, pass));
            assert_eq!(found.map(|plan| plan.bytes), Some(bytes), "{sizes:?} {kernel} {stride} {pass:?}");
        }
    }

    #[test]
    fn other_types_layouts_groups_and_strides_have_no_such_plan() {
        let plain = problem([8, 64, 64, 16], 3, 1, 1, ConvolutionPass::Forward);
        assert_eq!(plan(&plain).map(|plan| plan.frequency), Some(Frequency::NearlyAll));
        for other in [
            ConvolutionProblem { dtype: Dtype::Float16, ..plain.clone() },
            ConvolutionProblem { format: Format::ChannelsLast, ..plain.clone() },
            ConvolutionProblem { groups: 64, weight: Dims::from([64, 1, 3, 3]), ..plain.clone() },
            ConvolutionProblem { dilation: Dims::from([2, 2]), ..plain.clone() },
            problem([8, 64, 64, 16], 3, 2, 1, ConvolutionPass::Forward),
            problem([8, 64, 64, 16], 1, 1, 0, ConvolutionPass::InputGradient),
            problem([1, 3, 64, 300], 3, 1, 1, ConvolutionPass::Forward),
        ] {
            assert_eq!(plan(&other), None, "{other:?}");
        }
    }

    #[test]
    fn pointwise_layers_on_few_images_seldom_have_one() {
        let frequency = |batch, side| {
            plan(&problem([batch, 64, 64, side], 1, 1, 0, ConvolutionPass::Forward)).map(|it| it.frequency)
        };
        assert_eq!(
            [frequency(24, 14), frequency(4, 14), frequency(4, 1)],
            [Some(Frequency::Most), Some(Frequency::Few), Some(Frequency::Most)]
        );
    }
}
