//! Workspaces of the kernels of compute capability 9.0 that split tiles between multiprocessors (stream-K).
//!
//! Such a kernel computes its result tile by tile, with one worker for each cluster of multiprocessors. Tiles that are left when all workers have had
//! equally many are split: several workers each sum a part of the tile's products, and their sums lie in the workspace. The number of workers
//! depends on the GPU. A library that only has the GPU's description assumes one group of 18 multiprocessors, so its workspace is that of other parts. The
//! rules were derived from plans on an H200, next to what the library answers without one (`docs/cudnn-workspaces.md`).

mod costs;
mod parts;

use self::parts::Work;
use super::live::LiveEngine;
use super::problem::{ConvolutionPass, ConvolutionProblem};
use crate::GpuIdentity;

/// The compute capability that has such kernels.
pub(super) const CAPABILITY: (u8, u8) = (9, 0);

/// cuDNN's numbers of an engine's settings.
mod knob {
    pub(super) const TILE: u64 = 2;
    pub(super) const DEPTH: u64 = 13;
    pub(super) const NEVER_SPLITS: u64 = 25;
    pub(super) const CLUSTER_ROWS: u64 = 27;
    pub(super) const CLUSTER_COLUMNS: u64 = 28;
}

/// Multiprocessors by group of an H200. A cluster lies within a group.
const H200_GROUPS: [u64; 12] = [18, 18, 16, 16, 16, 16, 16, 8, 2, 2, 2, 2];
const H200_MULTIPROCESSORS: i64 = 132;
/// What the library assumes without a GPU.
const DESCRIBED_GROUPS: [u64; 1] = [18];

/// Groups with more channels than this are computed one after another.
const LARGEST_SHARED: u64 = 256;

/// A kernel's settings.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kernel {
    tile: usize,
    rows: u64,
    columns: u64,
    /// Products of a tile's element that are summed in one iteration.
    depth: u64,
    cluster: [u64; 2],
    may_split: bool,
}

/// Bytes of a workspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bytes {
    pub expected: u64,
    pub lower: u64,
    pub upper: u64,
}

impl Kernel {
    /// `None` for the settings of any other kernel.
    pub fn of(engine: &LiveEngine) -> Option<Kernel> {
        let tile = usize::try_from(engine.knob(knob::TILE)?).ok()?;
        let (rows, columns) = size_of_tile(tile)?;
        let depth = match engine.knob(knob::DEPTH)? {
            0 => 32,
            1 => 64,
            _ => return None,
        };
        let cluster = [engine.knob(knob::CLUSTER_ROWS)?, engine.knob(knob::CLUSTER_COLUMNS)?];
        let is_cluster = cluster.iter().all(|side| (1..=16).contains(side));
        let may_split = engine.knob(knob::NEVER_SPLITS)? == 0;
        is_cluster.then_some(Kernel { tile, rows, columns, depth, cluster, may_split })
    }

    /// The workspace on a GPU, given that of the library, which does not see one. `None` where the library's cannot be told apart into the parts of tiles
    /// and the rest.
    pub fn bytes(&self, library: u64, problem: &ConvolutionProblem, gpu: GpuIdentity) -> Option<Bytes> {
        let work = self.work(problem)?;
        let described = work.split(self.workers(&DESCRIBED_GROUPS));
        let rest = described.rest(library, problem)?;
        if gpu.multiprocessors != H200_MULTIPROCESSORS {
            let workers = self.workers(&[gpu.multiprocessors.unsigned_abs()]);
            let upper = rest + work.most_bytes(workers);
            return Some(Bytes { expected: rest + work.split(workers).expected(), lower: rest, upper });
        }
        let split = work.split(self.workers(&H200_GROUPS));
        let (lower, upper) = split.range();
        Some(Bytes { expected: rest + split.expected(), lower: rest + lower, upper: rest + upper })
    }

    /// How many multiprocessors work, in groups that clusters do not cross.
    fn workers(&self, groups: &[u64]) -> u64 {
        let cluster = self.cluster[0] * self.cluster[1];
        groups.iter().map(|group| group / cluster * cluster).sum::<u64>().max(1)
    }

    /// The tiles of a layer.
    fn work(&self, problem: &ConvolutionProblem) -> Option<Work<'_>> {
        let sides = |sizes: &[i64]| sizes.iter().product::<i64>().unsigned_abs();
        let batch = problem.image.first()?.unsigned_abs();
        let Channels { launches, bundles, inputs, outputs } = self.channels(problem)?;
        let taps = sides(problem.weight.get(2..)?);
        let result_rows = batch * sides(problem.result.get(2..)?);
        let image_rows = batch * sides(problem.image.get(2..)?);
        let (rows, columns, iterations) = match problem.pass {
            ConvolutionPass::Forward => {
                (result_rows, outputs.div_ceil(self.columns), taps * inputs.div_ceil(self.depth))
            }
            ConvolutionPass::InputGradient => {
                (image_rows, inputs.div_ceil(self.columns), taps * outputs.div_ceil(self.depth))
            }
            ConvolutionPass::WeightGradient => {
                (outputs, taps * inputs.div_ceil(self.columns), result_rows.div_ceil(self.depth))
            }
        };
        let [in_rows, in_columns] = self.cluster;
        let tiles = rows.div_ceil(self.rows).next_multiple_of(in_rows) * columns.next_multiple_of(in_columns);
        let (tiles, iterations) = (bundles * tiles, iterations.max(1));
        Some(Work { kernel: self, dtype: problem.dtype, launches, tiles, iterations })
    }

    /// The channels that tiles are made of. Large groups are computed one after another. Others have their channels padded to a power of two, the same
    /// for inputs and outputs, and small ones share a tile.
    fn channels(&self, problem: &ConvolutionProblem) -> Option<Channels> {
        let groups = u64::try_from(problem.groups).ok().filter(|groups| *groups > 0)?;
        let (outputs, inputs) = (problem.weight.first()?.unsigned_abs(), problem.weight.get(1)?.unsigned_abs());
        if groups == 1 {
            return Some(Channels { launches: 1, bundles: 1, inputs, outputs });
        }
        let channels = inputs.max(outputs / groups).next_power_of_two().max(4);
        if channels > LARGEST_SHARED {
            return Some(Channels { launches: groups, bundles: 1, inputs, outputs: outputs / groups });
        }
        let together = (self.rows.min(self.columns) / channels).max(1);
        let channels = channels * together;
        Some(Channels { launches: 1, bundles: groups.div_ceil(together), inputs: channels, outputs: channels })
    }
}

/// Channels of one product of matrices, and how many such products there are.
struct Channels {
    /// Kernels, one after another, each with a workspace of its own.
    launches: u64,
    /// Products that a kernel computes.
    bundles: u64,
    inputs: u64,
    outputs: u64,
}

/// Rows and columns of cuDNN's tiles.
fn size_of_tile(number: usize) -> Option<(u64, u64)> {
    Some(match number {
        0 => (128, 128),
        1 => (128, 64),
        2 => (128, 32),
        3 => (256, 128),
        4 => (256, 64),
        5 => (64, 64),
        6 => (128, 256),
        7 => (64, 128),
        8 => (64, 32),
        9 => (64, 256),
        16 => (256, 32),
        18 => (64, 192),
        19 => (128, 192),
        20 => (256, 96),
        _ => return None,
    })
}

#[cfg(test)]
mod tests;
