//! Pools: the cached blocks, in the order in which best fit looks at them.

use std::collections::BTreeMap;

use vramfit_trace::snapshot::PoolId;

use crate::block::{Block, BlockId};
use crate::free_list::{FreeList, Position};

pub(crate) use crate::free_list::SizeKey;

/// One of the allocator's pools.
#[derive(Clone, Debug)]
pub(crate) struct Pool {
    /// Whether it serves requests of at most 1 MiB.
    pub is_small: bool,
    /// The private pool it belongs to, or the default.
    pub owner: PoolId,
    /// Cached blocks.
    pub free: FreeList,
    /// Unmapped address space of expandable segments, by stream and address.
    pub unmapped: BTreeMap<(u64, u64), BlockId>,
    /// How often a block was looked for, while garbage collection is on.
    pub searches: u64,
}

impl Pool {
    pub fn new(is_small: bool, owner: PoolId) -> Pool {
        Pool { is_small, owner, free: FreeList::default(), unmapped: BTreeMap::new(), searches: 0 }
    }

    pub fn size_key(block: &Block) -> SizeKey {
        (block.stream, block.size, block.address)
    }

    /// The first cached block of `stream` with at least `size` bytes.
    #[inline]
    pub fn best_fit(&self, stream: u64, size: u64) -> Option<(SizeKey, BlockId)> {
        self.best_fit_at(stream, size).map(|(_, found)| found)
    }

    /// The same, with its place.
    #[inline]
    pub fn best_fit_at(&self, stream: u64, size: u64) -> Option<(Position, (SizeKey, BlockId))> {
        let position = self.free.first_from((stream, size, 0));
        let found = self.free.at(position)?;
        (found.0.0 == stream).then_some((position, found))
    }

    /// The cached block of the same stream that comes after the one at `position`.
    pub fn after(&self, position: Position) -> Option<(Position, (SizeKey, BlockId))> {
        let ((stream, ..), _) = self.free.at(position)?;
        let next = self.free.next(position);
        let found = self.free.at(next)?;
        (found.0.0 == stream).then_some((next, found))
    }
}
