//! Workspaces of pointwise convolutions that cuDNN leaves to cuBLASLt.

use super::live::LiveEngine;
use super::problem::{ConvolutionPass, ConvolutionProblem};
use crate::GpuIdentity;

/// The only setting of these engines: how much memory cuBLASLt may take.
const WORKSPACE: u64 = 25;
/// The sides of the smallest tiles that a large product has.
const TILE: u64 = 64;
/// The most bytes of a product that is not split.
const UNSPLIT: u64 = 1 << 10;
/// The most bytes for parts of tiles of a product with few elements.
const FEW_TILES: u64 = 1 << 20;

/// The product of matrices that a layer is.
struct Product {
    rows: u64,
    columns: u64,
    /// Products that are summed for an element.
    depth: u64,
    /// Products of the same size, with channels first one for each image.
    count: u64,
}

impl Product {
    fn of(problem: &ConvolutionProblem) -> Product {
        let sides = problem.result[2..].iter().product::<i64>().unsigned_abs();
        let [batch, inputs] = [problem.image[0], problem.image[1]].map(i64::unsigned_abs);
        let outputs = problem.weight[0].unsigned_abs();
        let (count, sides) = if problem.is_one_product() { (1, batch * sides) } else { (batch, sides) };
        let (rows, columns, depth) = match problem.pass {
            ConvolutionPass::Forward => (outputs, sides, inputs),
            ConvolutionPass::InputGradient => (inputs, sides, outputs),
            ConvolutionPass::WeightGradient => (outputs, inputs, sides),
        };
        Product { rows, columns, depth, count }
    }

    fn tiles(&self) -> u64 {
        self.count * self.rows.div_ceil(TILE) * self.columns.div_ceil(TILE)
    }

    /// The most bytes for parts of sums. In none of 8,795 layers on an H200 it was more (`docs/cudnn-workspaces.md`).
    fn most_bytes(&self, gpu: GpuIdentity) -> u64 {
        let elements = self.tiles() * TILE * TILE;
        let parts = (self.depth / 128).max(1);
        match self.count {
            1 => 16 * elements * parts + FEW_TILES,
            _ if self.tiles() > gpu.multiprocessors.unsigned_abs() => UNSPLIT,
            _ => 4 * elements * parts + UNSPLIT,
        }
    }
}

/// The most bytes that cuBLASLt takes beside cuDNN's own workspace. `None` for engines that do not use it.
pub(super) fn most_bytes(engine: &LiveEngine, problem: &ConvolutionProblem, gpu: GpuIdentity) -> Option<u64> {
    let limit = match engine.knobs.as_slice() {
        _ if !problem.is_pointwise() => return None,
        [(WORKSPACE, 0)] => 0,
        [(WORKSPACE, 1)] => 4 << 20,
        [(WORKSPACE, 2)] => 128 << 20,
        _ => return None,
    };
    Some(Product::of(problem).most_bytes(gpu).min(limit))
}

#[cfg(test)]
mod tests {
    use vramfit_graph::format::Format;

    use super::*;
    use crate::convolution::problem::tests::square;

    const H200: GpuIdentity =
        GpuIdentity { compute_capability: (9, 0), multiprocessors: 132, threads_per_multiprocessor: 2048 };

    fn most(limit: u64, problem: &ConvolutionProblem) -> Option<u64> {
        most_bytes(&LiveEngine { number: 58, knobs: vec![(WORKSPACE, limit)] }, problem, H200)
    }

    #[test]
    fn what_cublaslt_may_take_follows_from_the_setting_and_the_tiles() {
        let layer = square([64, 256], 56, 1, 1, 0);
        assert_eq!([0, 1, 2, 3].map(|limit| most(limit, &layer)), [Some(0), Some(UNSPLIT), Some(UNSPLIT), None]);
        // Few tiles of a long sum may be split.
        let small = square([1024, 64], 7, 1, 1, 0);
        assert_eq!([1, 2].map(|limit| most(limit, &small)), [Some(16 * 4 * 64 * 64 * 8 + UNSPLIT); 2]);
        let together = ConvolutionProblem { format: Format::ChannelsLast, ..square([64, 16], 28, 1, 1, 0) };
        assert_eq!([1, 2].map(|limit| most(limit, &together)), [Some(4 << 20), Some(16 * 196 * 4096 + FEW_TILES)]);
    }

    #[test]
    fn only_pointwise_layers_with_this_one_setting_are_products() {
        assert_eq!(most(2, &square([64, 64], 56, 3, 1, 1)), None);
        let other = LiveEngine { number: 65, knobs: vec![(2, 0), (WORKSPACE, 1)] };
        assert_eq!(most_bytes(&other, &square([64, 64], 56, 1, 1, 0), H200), None);
    }
}
