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
