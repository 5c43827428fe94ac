//! Pools: the cached blocks, in the order in which best fit looks at them.

use std::collections::BTreeMap;
use std::ops::Bound;

use vramfit_trace::snapshot::PoolId;

use crate::block::{Block, BlockId};

/// Best fit's order: by stream, then size, then address.
pub(crate) type SizeKey = (u64, u64, u64);

/// One of the allocator's pools.
#[derive(Clone, Debug)]
pub(crate) struct Pool {
    /// Whether it serves requests of at most 1 MiB.
    pub is_small: bool,
    /// The private pool it belongs to, or the default.
    pub owner: PoolId,
    /// Cached blocks.
    pub free: BTreeMap<SizeKey, BlockId>,
    /// Unmapped address space of expandable segments, by stream and address.
    pub unmapped: BTreeMap<(u64, u64), BlockId>,
    /// How often a block was looked for, while garbage collection is on.
    pub searches: u64,
}

impl Pool {
    pub fn new(is_small: bool, owner: PoolId) -> Pool {
        Pool { is_small, owner, free: BTreeMap::new(), unmapped: BTreeMap::new(), searches: 0 }
    }

    pub fn size_key(block: &Block) -> SizeKey {
        (block.stream, block.size, block.address)
    }

    /// The first cached block of `stream` with at least `size` bytes.
    #[inline]
    pub fn best_fit(&self, stream: u64, size: u64) -> Option<(SizeKey, BlockId)> {
        let (&key, &id) = self.free.range((stream, size, 0)..).next()?;
        (key.0 == stream).then_some((key, id))
    }

    /// The cached block of the same stream that comes after `key`.
    pub fn after(&self, key: SizeKey) -> Option<(SizeKey, BlockId)> {
        let (&next, &id) = self.free.range((Bound::Excluded(key), Bound::Unbounded)).next()?;
        (next.0 == key.0).then_some((next, id))
    }
}
