//! Pools: the cached blocks, in the order in which best fit looks at them.

use std::collections::BTreeMap;

use crate::block::{Block, BlockId};
use crate::free_list::FreeList;
use crate::mempool::MempoolId;

pub(crate) use crate::free_list::SizeKey;

/// One of the allocator's pools.
#[derive(Clone, Debug)]
pub(crate) struct Pool {
    /// Whether it serves requests of at most 1 MiB.
    pub is_small: bool,
    /// The private pool it belongs to, or the default.
    pub owner: MempoolId,
    /// Cached blocks.
    pub free: FreeList,
    /// Unmapped address space of expandable segments, by stream and address.
    pub unmapped: BTreeMap<(u64, u64), BlockId>,
    /// How often a block was looked for, while garbage collection is on.
    pub searches: u64,
}

impl Pool {
    pub fn new(is_small: bool, owner: MempoolId) -> Pool {
        Pool { is_small, owner, free: FreeList::default(), unmapped: BTreeMap::new(), searches: 0 }
    }

    pub fn size_key(block: &Block) -> SizeKey {
        (block.stream, block.size, block.address)
    }

    /// The cached blocks of `stream` with at least `size` bytes, the smallest first.
    pub fn fits(&self, stream: u64, size: u64) -> impl Iterator<Item = (SizeKey, BlockId)> {
        self.free.from((stream, size, 0)).take_while(move |(key, _)| key.0 == stream)
    }
}
