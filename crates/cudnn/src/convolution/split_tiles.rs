//! Workspaces of the kernels of compute capability 9.0 that split tiles between multiprocessors (stream-K).
//!
//! Such a kernel computes its result tile by tile, with one worker for each cluster of multiprocessors. Tiles that are left when all workers have had
//! equally many are split: several workers each sum a part of the tile's products, and their sums lie in the workspace. The number of workers
//! depends on the GPU. A library that only has the GPU's description assumes one group of 18 multiprocessors, so its workspace is that of other parts. The
//! rules were derived from plans on an H200, next to what the library answers without one (`docs/cudnn-workspaces.md`).

use smallvec::SmallVec;
use vramfit_graph::dtype::Dtype;

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

/// Bytes at the end of such a workspace, and beside the parts.
const END: u64 = 131;
const PARTS_HEAD: u64 = 28;
/// The number that bytes beside the parts are a multiple of.
const ALIGNMENT: u64 = 16;

/// The most bytes that such a workspace has beside copies of tensors and parts of tiles.
const MOST_BESIDE_COPIES: i64 = 64;
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

/// What a kernel has to do.
#[derive(Clone, Copy, Debug)]
struct Work<'k> {
    kernel: &'k Kernel,
    dtype: Dtype,
    launches: u64,
    tiles: u64,
    /// How often a tile adds products.
    iterations: u64,
}

/// How the tiles that are left may be split.
#[derive(Debug)]
struct Split<'k> {
    work: Work<'k>,
    workers: u64,
    /// Tiles that are left when all workers have had equally many.
    left: u64,
    /// The most parts for which there are workers.
    most: u64,
    /// The numbers of parts that are possible, the likeliest first: with the time that cuDNN expects of it, relative to the other ones.
    parts: SmallVec<[(u64, f64); 16]>,
}

impl<'k> Work<'k> {
    fn split(self, workers: u64) -> Split<'k> {
        let left = self.tiles % workers;
        let most = workers.checked_div(left).unwrap_or(1);
        let parts = match self.kernel.may_split && most > 1 {
            false => SmallVec::from_slice(&[(1, 0.0)]),
            true if self.tiles < workers => self.parts_of_the_only_tiles(most),
            true => self.parts_of_the_last_tiles(most),
        };
        Split { work: self, workers, left, most, parts }
    }

    /// Where every worker has at most one tile.
    fn parts_of_the_only_tiles(&self, most: u64) -> SmallVec<[(u64, f64); 16]> {
        // Each part has at least so many iterations.
        let least = if self.kernel.depth == 64 { 17 } else { 33 };
        let many = most.min(self.iterations / least);
        let cost = cost_of_a_level(self.dtype, self.kernel.tile, false);
        let levels = |parts: u64| f64::from(parts.next_power_of_two().trailing_zeros());
        let mut parts = self.by_cost(1..=most.min(16), |parts| cost * levels(parts));
        if many >= 9 {
            let many = self.in_equal_parts(many);
            parts.retain(|(other, _)| *other != many);
            let least = parts.first().map_or(0.0, |(_, cost)| *cost);
            parts.insert(0, (many, least));
        }
        parts
    }

    /// Where workers have whole tiles first.
    fn parts_of_the_last_tiles(&self, most: u64) -> SmallVec<[(u64, f64); 16]> {
        const LEVELS: [f64; 9] = [0.0, 1.0, 1.9, 2.6, 2.8, 2.9, 3.0, 3.1, 3.2];
        let limit = most.min((self.iterations / 4).max(1));
        let cost = cost_of_a_level(self.dtype, self.kernel.tile, true);
        let levels = |parts: u64| LEVELS[(parts.next_power_of_two().trailing_zeros() as usize).min(LEVELS.len() - 1)];
        let candidates = (1..=limit.min(8)).chain((limit > 16).then_some(16)).chain((limit > 8).then_some(limit));
        self.by_cost(candidates, |parts| cost * levels(parts))
    }

    /// Numbers of parts with what they cost: the iterations of a part, and what it takes to add the parts up. The cheapest first, of equals the fewest
    /// parts.
    fn by_cost(
        &self,
        candidates: impl Iterator<Item = u64>,
        adding: impl Fn(u64) -> f64,
    ) -> SmallVec<[(u64, f64); 16]> {
        let mut found: SmallVec<[(u64, f64); 16]> = SmallVec::new();
        for parts in candidates {
            let cost = self.iterations as f64 / parts as f64 + adding(parts);
            let parts = self.in_equal_parts(parts);
            match found.iter_mut().find(|(other, _)| *other == parts) {
                Some((_, least)) => *least = least.min(cost),
                None => found.push((parts, cost)),
            }
        }
        found.sort_by(|(few, one), (many, other)| one.total_cmp(other).then(few.cmp(many)));
        found
    }

    /// The number of parts when all but the last have equally many iterations.
    fn in_equal_parts(&self, parts: u64) -> u64 {
        self.iterations.div_ceil(self.iterations.div_ceil(parts))
    }

    /// Bytes that hold parts of tiles.
    fn bytes(&self, workers: u64, left: u64, parts: u64) -> u64 {
        let has_two_waves = self.tiles >= 2 * workers;
        let bytes = if parts > 1 {
            let tile = 4 * self.kernel.rows * self.kernel.columns;
            let more = if has_two_waves { 4 } else { 0 };
            left * parts * tile + PARTS_HEAD + 4 * left * sums(parts) + more + END
        } else if self.tiles > 2 * workers {
            END
        } else {
            0
        };
        self.of_all_launches(bytes)
    }

    fn of_all_launches(&self, bytes: u64) -> u64 {
        if self.launches == 1 { bytes } else { self.launches * bytes.next_multiple_of(ALIGNMENT) }
    }

    /// The bytes are never more with so many workers, whatever groups they are in.
    fn most_bytes(&self, workers: u64) -> u64 {
        // No tile has twice as many sums as parts.
        let of_part = 4 * self.kernel.rows * self.kernel.columns + 8;
        self.of_all_launches(workers * of_part + PARTS_HEAD + 4 + END)
    }
}

/// How many sums it takes to add up so many parts two at a time.
fn sums(parts: u64) -> u64 {
    let (mut left, mut sums) = (parts, 0);
    while left > 1 {
        left = left.div_ceil(2);
        sums += left;
    }
    sums
}

/// What each level of adding parts up costs, in iterations. Derived from the numbers of parts that cuDNN takes.
fn cost_of_a_level(dtype: Dtype, tile: usize, has_whole_tiles: bool) -> f64 {
    let by_tile: &[(usize, f64)] = match (dtype, has_whole_tiles) {
        (Dtype::Float16, false) => &[
            (0, 7.25),
            (1, 8.5),
            (3, 5.75),
            (4, 7.5),
            (5, 13.0),
            (6, 5.75),
            (7, 8.5),
            (9, 7.0),
            (18, 5.75),
            (20, 10.75),
        ],
        (Dtype::Float16, true) => &[
            (0, 5.0),
            (1, 9.0),
            (3, 1.25),
            (4, 3.25),
            (5, 5.0),
            (6, 3.0),
            (7, 3.25),
            (9, 4.75),
            (16, 6.75),
            (18, 3.0),
            (20, 6.25),
        ],
        (Dtype::Bfloat16, false) => {
            &[(0, 51.0), (1, 68.0), (3, 45.0), (4, 55.0), (5, 98.0), (6, 50.0), (7, 68.0), (9, 52.0)]
        }
        (Dtype::Bfloat16, true) => {
            &[(0, 32.0), (1, 32.0), (3, 26.0), (4, 43.0), (5, 42.0), (6, 25.0), (7, 34.0), (9, 25.0)]
        }
        (_, false) => &[(0, 14.25), (1, 17.0), (3, 11.5), (4, 11.75), (5, 24.0), (7, 17.0), (9, 14.5)],
        (_, true) => &[(0, 6.5), (1, 7.5), (3, 5.0), (4, 7.25), (5, 10.25), (7, 3.75), (9, 7.5)],
    };
    by_tile.iter().find(|(number, _)| *number == tile).map_or(by_tile[0].1, |(_, cost)| *cost)
}

impl Split<'_> {
    fn bytes(&self, parts: u64) -> u64 {
        self.work.bytes(self.workers, self.left, parts)
    }

    fn expected(&self) -> u64 {
        self.parts.first().map_or(0, |(parts, _)| self.bytes(*parts))
    }

    /// What a workspace has beside the parts of tiles: copies of tensors, and a multiple of 16 bytes in any case. `None` where no number of parts leaves
    /// that.
    fn rest(&self, library: u64, problem: &ConvolutionProblem) -> Option<u64> {
        let rest = |parts| library.checked_sub(self.bytes(parts)).filter(|rest| rest % ALIGNMENT == 0);
        let likely = || self.parts.iter().filter_map(|(parts, _)| rest(*parts));
        // Other numbers of parts are rare. One that leaves exactly copies of tensors is taken.
        let possible = (2..=if self.work.kernel.may_split { self.most } else { 1 }).filter_map(rest);
        let are_copies = |rest: &u64| problem.has_copies_of(rest.cast_signed(), MOST_BESIDE_COPIES);
        likely().chain(possible).find(are_copies).or_else(|| likely().next())
    }

    /// The least and the most bytes of numbers of parts that cost nearly as little as the cheapest.
    fn range(&self) -> (u64, u64) {
        let limit = 1.0 + 1.1 * self.parts.first().map_or(0.0, |(_, cost)| *cost);
        let possible = self.parts.iter().filter(|(_, cost)| *cost <= limit).map(|(parts, _)| self.bytes(*parts));
        possible.fold((self.expected(), self.expected()), |(least, most), bytes| (least.min(bytes), most.max(bytes)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::convolution::problem::tests::described;

    const H200: GpuIdentity =
        GpuIdentity { compute_capability: (9, 0), multiprocessors: 132, threads_per_multiprocessor: 2048 };

    fn engine([tile, depth, never_splits, rows, columns]: [u64; 5]) -> LiveEngine {
        let knobs = vec![(2, tile), (13, depth), (18, 0), (25, never_splits), (27, rows), (28, columns)];
        LiveEngine { number: 65, knobs }
    }

    fn layer(text: &str, pass: usize) -> ConvolutionProblem {
        let passes = [ConvolutionPass::Forward, ConvolutionPass::InputGradient, ConvolutionPass::WeightGradient];
        ConvolutionProblem { pass: passes[pass], ..described(text) }
    }

    #[test]
    fn workspaces_are_those_that_were_recorded_on_the_gpu() {
        for (text, pass, knobs, library, recorded) in RECORDED {
            let kernel = Kernel::of(&engine(knobs)).unwrap();
            let bytes = kernel.bytes(library, &layer(text, pass), H200).unwrap();
            assert_eq!(bytes.expected, recorded, "{text}, pass {pass}");
            assert!(bytes.lower <= recorded && recorded <= bytes.upper, "{text}, pass {pass}");
        }
    }

    #[test]
    fn other_gpus_have_a_range_for_any_number_of_parts() {
        let smaller = GpuIdentity { multiprocessors: 114, ..H200 };
        for (text, pass, knobs, library, recorded) in RECORDED {
            let kernel = Kernel::of(&engine(knobs)).unwrap();
            let problem = layer(text, pass);
            let other = kernel.bytes(library, &problem, smaller).unwrap();
            assert!(other.lower <= recorded.min(other.expected) && other.expected < other.upper, "{text}: {other:?}");
        }
    }

    #[test]
    fn settings_of_other_kernels_are_left_alone() {
        let known = [0, 1, 0, 2, 4];
        assert!(Kernel::of(&engine(known)).is_some());
        for (index, value) in [(0, 10), (0, 99), (1, 2), (3, 0), (4, 17)] {
            let mut settings = known;
            settings[index] = value;
            assert!(Kernel::of(&engine(settings)).is_none(), "{settings:?}");
        }
        assert!(Kernel::of(&LiveEngine { number: 62, knobs: vec![(25, 2)] }).is_none());
    }

    #[test]
    fn a_workspace_that_parts_do_not_explain_is_not_taken_apart() {
        let (text, pass, knobs, library, _) = RECORDED[0];
        assert_eq!(Kernel::of(&engine(knobs)).unwrap().bytes(library + 1, &layer(text, pass), H200), None);
    }

    #[test]
    fn parts_are_added_up_two_at_a_time() {
        assert_eq!([1, 2, 3, 4, 5, 11, 16].map(sums), [0, 1, 3, 3, 6, 12, 15]);
    }

    /// A layer, its pass, the kernel's tile, depth, whether it never splits, and its cluster; bytes that the library says without a GPU, and on an
    /// H200. Drawn from `plans-blind.jsonl.xz` where the two differ.
    #[rustfmt::skip]
    const RECORDED: [(&str, usize, [u64; 5], u64, u64); 36] = [
        ("bf16 first 128 384 96 1 24x24 3x3 1x1 2x2 2x2", 0, [3, 0, 0, 4, 1], 71_442_579, 84_025_715),
        ("bf16 last 894 1024 1024 1 1x1 3x3 1x1 1x1 1x1", 0, [7, 1, 0, 7, 1], 131, 917_747),
        ("bf16 first 7 192 96 8 36x36 2x2 2x2 0x0 1x1", 0, [5, 1, 1, 8, 1], 5_871_763, 5_871_632),
        ("bf16 first 56 128 256 2 64x64 4x4 4x4 0x0 1x1", 0, [0, 1, 0, 1, 1], 126_877_907, 125_829_136),
        ("fp16 last 30 512 512 1 8x8 3x3 1x1 4x4 4x4", 0, [4, 0, 1, 1, 5], 131, 0),
        ("fp16 last 16 1024 1024 1 14x14 3x3 1x1 1x1 1x1", 0, [6, 1, 0, 1, 2], 131, 0),
        ("fp16 last 32 2304 768 8 80x80 5x5 5x5 0x0 1x1", 0, [0, 1, 1, 8, 1], 956_302_592, 956_301_440),
        ("fp16 last 76 1056 1056 4 24x24 3x3 1x1 1x1 1x1", 0, [0, 1, 0, 4, 2], 184_910_464, 214_271_616),
        ("fp32 first 4 512 128 1 70x70 5x5 5x5 0x0 1x1", 0, [0, 0, 0, 8, 1], 48_144_591, 53_387_823),
        ("fp32 first 11 256 256 1 128x128 3x3 1x1 1x1 1x1", 0, [3, 0, 0, 1, 2], 373_555_427, 371_458_195),
        ("fp32 last 1 1232 1232 11 16x16 3x3 1x1 1x1 1x1", 0, [7, 0, 1, 8, 1], 9_371_795, 9_371_664),
        ("fp32 first 1 1600 192 2 112x112 3x3 1x1 1x1 1x1", 0, [0, 0, 0, 8, 1], 97_542_592, 95_445_024),
        ("bf16 last 4 144 144 1 210x210 4x4 1x1 1x1 1x1", 1, [4, 1, 0, 1, 2], 786_619, 131),
        ("bf16 first 10 2 128 1 48x48 3x3 1x1 1x1 1x1", 1, [4, 0, 1, 7, 1], 6_285_459, 6_285_328),
        ("bf16 last 293 440 440 55 3x3 3x3 1x1 1x1 1x1", 1, [1, 1, 1, 4, 1], 131, 0),
        ("bf16 first 3 1536 1536 2 48x320 3x3 1x1 1x1 1x1", 1, [3, 1, 0, 1, 2], 304_349_504, 329_515_968),
        ("fp16 first 14 32 64 1 293x293 3x3 1x1 1x1 1x1", 1, [16, 0, 0, 8, 1], 231_323_475, 231_847_795),
        ("fp16 last 48 256 512 1 8x8 3x3 1x1 1x1 1x1", 1, [1, 1, 0, 1, 4], 131, 0),
        ("fp16 last 20 3840 2560 4 112x112 3x3 1x1 1x1 1x1", 1, [3, 1, 0, 1, 2], 3_211_264_640, 3_265_791_552),
        ("fp16 first 8 1024 1024 32 3x3 3x3 1x1 1x1 1x1", 1, [5, 1, 1, 8, 1], 884_883, 884_752),
        ("fp32 first 6 1344 1344 1 8x8 1x1 1x1 0x0 1x1", 1, [1, 0, 0, 1, 3], 4_718_807, 4_128_784),
        ("fp32 first 40 32 64 1 20x20 3x3 1x1 1x1 1x1", 1, [1, 0, 0, 5, 1], 6_545_607, 7_201_003),
        ("fp32 first 64 448 448 4 28x28 3x3 1x1 1x1 1x1", 1, [0, 0, 0, 4, 1], 207_880_339, 209_977_619),
        ("fp32 last 256 320 320 20 4x4 3x3 1x1 1x1 1x1", 1, [16, 0, 1, 2, 1], 131, 0),
        ("bf16 first 36 128 128 1 28x28 3x3 1x1 1x1 1x1", 2, [1, 1, 0, 1, 3], 14_745_616, 17_105_287),
        ("bf16 last 369 32 48 1 48x48 1x1 2x2 0x0 1x1", 2, [7, 1, 0, 1, 1], 590_063, 4_194_971),
        ("bf16 last 122 1232 1232 11 12x12 3x3 1x1 1x1 1x1", 2, [0, 1, 0, 1, 3], 103_366_871, 102_187_024),
        ("bf16 first 85 528 528 2 112x112 3x3 2x2 1x1 1x1", 2, [3, 1, 0, 1, 2], 1_414_664_992, 1_439_306_784),
        ("fp16 first 89 320 784 1 14x14 1x1 1x1 0x0 1x1", 2, [5, 1, 0, 1, 6], 38_811_515, 38_516_368),
        ("fp16 first 48 1536 1024 1 28x28 3x3 1x1 1x1 1x1", 2, [4, 1, 0, 1, 4], 220_987_539, 228_852_467),
        ("fp16 last 40 192 192 2 90x90 3x3 2x2 1x1 1x1", 2, [0, 1, 0, 1, 3], 207_949_840, 215_028_319),
        ("fp16 first 389 128 64 2 128x128 2x2 2x2 0x0 1x1", 2, [5, 1, 0, 1, 5], 2_039_545_872, 2_041_348_751),
        ("fp32 first 64 208 208 1 4x7x7 3x1x1 1x1x1 1x0x0 1x1x1", 2, [0, 0, 0, 1, 2], 21_392_400, 30_043_887),
        ("fp32 first 32 256 256 1 12x12 3x3 2x2 1x1 1x1", 2, [1, 0, 0, 1, 2], 8_257_683, 8_257_552),
        ("fp32 first 12 96 96 2 48x48 3x3 1x1 1x1 1x1", 2, [5, 0, 0, 1, 1], 28_606_480, 30_671_527),
        ("fp32 last 1 1232 1232 11 28x28 3x3 2x2 1x1 1x1", 2, [0, 0, 1, 1, 1], 12_007_571, 12_007_440),
    ];
}
