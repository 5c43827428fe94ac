//! Tiles, the parts they are split into, and the bytes of these parts.

use smallvec::SmallVec;
use vramfit_graph::dtype::Dtype;

use super::Kernel;
use super::costs::cost_of_a_level;
use crate::convolution::problem::ConvolutionProblem;

/// Bytes at the end of such a workspace, and beside the parts.
const END: u64 = 131;
const PARTS_HEAD: u64 = 28;
/// The number that bytes beside the parts are a multiple of.
const ALIGNMENT: u64 = 16;

/// The most bytes that such a workspace has beside copies of tensors and parts of tiles.
const MOST_BESIDE_COPIES: i64 = 64;

/// What a kernel has to do.
#[derive(Clone, Copy, Debug)]
pub(super) struct Work<'k> {
    pub kernel: &'k Kernel,
    pub dtype: Dtype,
    pub launches: u64,
    pub tiles: u64,
    /// How often a tile adds products.
    pub iterations: u64,
}

/// How the tiles that are left may be split.
#[derive(Debug)]
pub(super) struct Split<'k> {
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
    pub fn split(self, workers: u64) -> Split<'k> {
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
    pub fn most_bytes(&self, workers: u64) -> u64 {
        // No tile has twice as many sums as parts.
        let of_part = 4 * self.kernel.rows * self.kernel.columns + 8;
        self.of_all_launches(workers * of_part + PARTS_HEAD + 4 + END)
    }
}

/// How many sums it takes to add up so many parts two at a time.
pub(super) fn sums(parts: u64) -> u64 {
    let (mut left, mut sums) = (parts, 0);
    while left > 1 {
        left = left.div_ceil(2);
        sums += left;
    }
    sums
}

impl Split<'_> {
    fn bytes(&self, parts: u64) -> u64 {
        self.work.bytes(self.workers, self.left, parts)
    }

    pub fn expected(&self) -> u64 {
        self.parts.first().map_or(0, |(parts, _)| self.bytes(*parts))
    }

    /// What a workspace has beside the parts of tiles: copies of tensors, and a multiple of 16 bytes in any case. `None` where no number of parts leaves
    /// that.
    pub fn rest(&self, library: u64, problem: &ConvolutionProblem) -> Option<u64> {
        let rest = |parts| library.checked_sub(self.bytes(parts)).filter(|rest| rest % ALIGNMENT == 0);
        let likely = || self.parts.iter().filter_map(|(parts, _)| rest(*parts));
        // Other numbers of parts are rare. One that leaves exactly copies of tensors is taken.
        let possible = (2..=if self.work.kernel.may_split { self.most } else { 1 }).filter_map(rest);
        let are_copies = |rest: &u64| problem.has_copies_of(rest.cast_signed(), MOST_BESIDE_COPIES);
        likely().chain(possible).find(are_copies).or_else(|| likely().next())
    }

    /// The least and the most bytes of numbers of parts that cost nearly as little as the cheapest.
    pub fn range(&self) -> (u64, u64) {
        let limit = 1.0 + 1.1 * self.parts.first().map_or(0.0, |(_, cost)| *cost);
        let possible = self.parts.iter().filter(|(_, cost)| *cost <= limit).map(|(parts, _)| self.bytes(*parts));
        possible.fold((self.expected(), self.expected()), |(least, most), bytes| (least.min(bytes), most.max(bytes)))
    }
}
