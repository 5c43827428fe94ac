//! The features that the trees decide by: numbers of a convolution that cuDNN's heuristic may look at.
//!
//! `validation/workspace_grid/features.py` has the same list, in the same order.

use vramfit_graph::dtype::Dtype;
use vramfit_graph::format::Format;

use super::problem::ConvolutionProblem;

/// Steps of a doubling that large numbers are rounded to.
const STEPS_PER_DOUBLING: f64 = 1024.0;

pub(super) const FEATURES: usize = 56;

fn doublings(number: i64) -> i64 {
    ((number.max(1) as f64).log2() * STEPS_PER_DOUBLING).round() as i64
}

/// How often a number can be halved, up to five times.
fn evenness(number: i64) -> i64 {
    i64::from(number.trailing_zeros().min(5))
}

fn up(number: i64, by: i64) -> i64 {
    (number + by - 1) / by
}

/// How many tiles cover a matrix.
fn tiles((high, wide): (i64, i64), (tile_high, tile_wide): (i64, i64)) -> i64 {
    up(high, tile_high) * up(wide, tile_wide)
}

/// The side at this position from the end of a shape; 1 if there are fewer sides.
fn side(shape: &[i64], position: usize) -> i64 {
    if shape.len() >= position + 2 { shape[shape.len() - position] } else { 1 }
}

/// The features of a convolution on a GPU with so many multiprocessors.
pub(super) fn of(problem: &ConvolutionProblem, multiprocessors: i64) -> [u16; FEATURES] {
    let (image, result, weight) = (&problem.image, &problem.result, &problem.weight);
    let (batch, inputs, outputs, groups) = (image[0], image[1], result[1], problem.groups.max(1));
    let (of_group, outputs_of_group) = (weight[1], outputs / groups);
    let (area, after): (i64, i64) = (image[2..].iter().product(), result[2..].iter().product());
    let kernel: i64 = weight[2..].iter().product();
    let (rows, pixels, inner) = (batch * after, batch * area, of_group * kernel);
    let last = |dims: &[i64]| dims.last().copied().unwrap_or(1);
    let (stride, dilation) = (last(&problem.stride).max(1), last(&problem.dilation));
    let unpadded = (last(image) - dilation * (last(weight) - 1) - 1).div_euclid(stride) + 1;
    // The matrix products that the three passes amount to: rows and columns of their results.
    let (forward, backward, of_weight) = ((rows, outputs_of_group), (pixels, of_group), (outputs_of_group, inner));
    let wave = |matrix, tile| tiles(matrix, tile) % multiprocessors.max(1);
    let products = |matrix, tile| doublings(tiles(matrix, tile));
    let all = (rows as i128 * outputs as i128 * inner as i128).min(i64::MAX as i128) as i64;
    let numbers: [i64; FEATURES] = [
        i64::from(problem.dtype != Dtype::Float32),
        i64::from(problem.dtype == Dtype::Float16),
        i64::from(problem.format == Format::ChannelsLast),
        i64::from(problem.recorded_rank()),
        i64::from(problem.grouping()),
        kernel,
        last(weight),
        stride,
        dilation,
        i64::from(last(result) > unpadded),
        doublings(batch),
        doublings(area),
        doublings(inputs),
        doublings(outputs),
        doublings(rows),
        doublings(inner * outputs),
        doublings(groups),
        doublings(after),
        doublings(pixels),
        doublings(rows * outputs),
        doublings(pixels * inputs),
        doublings(inner),
        doublings(all),
        evenness(inputs),
        evenness(outputs),
        evenness(of_group),
        evenness(after),
        last(image),
        last(result),
        products((rows, outputs), (128, 128)),
        products((outputs, inner), (128, 128)),
        products((pixels, inputs), (128, 128)),
        side(image, 2),
        doublings(outputs_of_group),
        doublings(of_group),
        evenness(outputs_of_group),
        evenness(area),
        evenness(batch),
        side(weight, 2),
        doublings(kernel * outputs),
        doublings(rows * 1024 / outputs.max(1)),
        doublings(inputs * 1024 / outputs.max(1)),
        doublings(pixels * 64 / inputs.max(1)),
        wave(forward, (128, 128)),
        wave(backward, (128, 128)),
        wave(of_weight, (128, 128)),
        wave(forward, (128, 256)),
        wave(backward, (128, 256)),
        products(forward, (64, 64)),
        products(backward, (64, 64)),
        products(of_weight, (64, 64)),
        products(forward, (256, 128)),
        products(backward, (256, 128)),
        products(of_weight, (256, 128)),
        products(of_weight, (64, 128)),
        products(of_weight, (128, 64)),
    ];
    numbers.map(|number| number.clamp(0, i64::from(u16::MAX)) as u16)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::convolution::problem::tests::described;

    #[test]
    fn features_are_those_that_the_trees_were_grown_from() {
        for (text, expected) in EXPECTED {
            assert_eq!(of(&described(text), 132), expected, "{text}");
        }
    }

    #[test]
    fn numbers_too_large_for_a_feature_are_cut_off() {
        let wide = described("fp32 first 1 1 1 1 1x100000 1x1 1x1 0x0 1x1");
        assert_eq!(of(&wide, 132)[27], u16::MAX);
    }

    /// From `features.py`.
    #[rustfmt::skip]
    const EXPECTED: [(&str, [u16; FEATURES]); 7] = [
        ("fp32 first 5 96 40 1 13x9 5x3 2x1 2x1 1x1",
         [0, 0, 0, 2, 0, 15, 3, 1, 1, 1, 2378, 7035, 6743, 5450, 8498, 16193, 0, 6121, 9413, 13948, 16156, 10744, 24692, 5, 3, 5, 0, 9, 9, 1623, 3671, 2378, 13, 5450, 6743, 3, 0, 0, 5, 9450, 13289, 11533, 8814, 3, 5, 12, 3, 5, 2378, 4426, 4632, 1024, 1623, 3671, 3671, 4632]),
        ("bf16 last 33 48 48 48 28x28 3x3 1x1 1x1 1x1",
         [1, 0, 1, 2, 2, 9, 3, 1, 1, 1, 5165, 9845, 5719, 5719, 15011, 8965, 5719, 9845, 15011, 20730, 20730, 3246, 23976, 4, 4, 0, 4, 28, 28, 7849, 0, 7849, 28, 0, 0, 0, 4, 0, 3, 8965, 19532, 10240, 15436, 71, 71, 1, 71, 71, 8870, 8870, 0, 6833, 6833, 0, 0, 0]),
        ("fp16 first 7 24 36 4 10x12x14 3x3x3 1x2x2 1x1x1 1x1x1",
         [1, 1, 0, 3, 1, 27, 3, 2, 1, 1, 2875, 10971, 4695, 5294, 11798, 12810, 2048, 8923, 13846, 17092, 18541, 7516, 24608, 3, 2, 1, 2, 14, 7, 4632, 1024, 6680, 12, 3246, 2647, 0, 4, 0, 3, 10163, 16744, 9640, 15295, 23, 92, 2, 23, 92, 5656, 7704, 1623, 3671, 5656, 1024, 1024, 1623]),
        ("fp32 first 64 6 130 1 3000 10 5 0 1",
         [0, 0, 0, 1, 0, 10, 10, 5, 1, 0, 6144, 11828, 2647, 7191, 15592, 13240, 0, 9448, 17972, 22783, 20619, 6049, 28831, 1, 1, 1, 0, 3000, 599, 9450, 1024, 10804, 1, 7191, 2647, 1, 3, 5, 1, 10593, 18641, 5688, 21469, 72, 48, 2, 36, 48, 11071, 11828, 1623, 8426, 9780, 0, 1623, 1024]),
        ("bf16 first 700 640 12 1 57x57 1x1 1x1 0x0 1x1",
         [1, 0, 0, 2, 0, 1, 1, 1, 1, 0, 9678, 11946, 9546, 3671, 21624, 13217, 0, 11946, 21624, 25295, 31169, 9546, 34840, 5, 2, 5, 0, 57, 57, 14456, 2378, 16833, 57, 3671, 9546, 2, 0, 2, 1, 3671, 28193, 16115, 18222, 80, 4, 5, 80, 108, 15480, 18881, 3402, 13432, 15809, 2378, 2378, 3402]),
        ("fp16 last 1 3 1000 1 31x33 7x7 3x3 3x3 2x2",
         [1, 1, 1, 2, 0, 49, 7, 3, 2, 1, 0, 10239, 1623, 10205, 6492, 17577, 0, 6492, 10239, 16697, 11862, 7372, 24069, 0, 3, 0, 0, 33, 9, 3072, 4096, 3072, 31, 10205, 1623, 3, 0, 0, 7, 15954, 6510, 1623, 14760, 8, 8, 16, 4, 8, 5120, 4096, 5719, 3072, 2048, 3072, 5120, 4695]),
        ("fp32 last 2 32 64 2 8x8 4x4 4x4 0x0 1x1",
         [0, 0, 1, 2, 1, 16, 4, 4, 1, 0, 1024, 6144, 5120, 6144, 3072, 14336, 1024, 2048, 7168, 9216, 12288, 8192, 17408, 5, 5, 4, 2, 8, 2, 0, 1024, 0, 8, 5120, 4096, 5, 5, 1, 4, 10240, 7168, 9216, 8192, 1, 1, 2, 1, 1, 0, 1024, 2048, 0, 0, 1024, 1024, 2048]),
    ];
}
