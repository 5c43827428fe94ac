//! Pools of free blocks.

use std::collections::BTreeMap;

use crate::block::{Block, BlockId};
use crate::free_list::FreeList;
use crate::mempool::MempoolId;

pub(crate) use crate::free_list::SizeKey;

/// One of the allocator's pools.
#[derive(Clone, Debug)]
pub(crate) struct Pool {
    /// Whether it serves blocks of at most 1 MiB.
    pub is_small: bool,
    /// The private pool it belongs to, or the default.
    pub owner: MempoolId,
    /// Free blocks in best-fit order.
    pub free: FreeList,
    /// Unmapped address space of expandable segments, by stream and address.
    pub unmapped: BTreeMap<(u64, u64), BlockId>,
    /// How many requests there were, while garbage collection is on.
    pub searches: u64,
}

impl Pool {
    pub fn new(is_small: bool, owner: MempoolId) -> Pool {
        Pool { is_small, owner, free: FreeList::default(), unmapped: BTreeMap::new(), searches: 0 }
    }

    pub fn size_key(block: &Block) -> SizeKey {
        (block.stream, block.size, block.address)
    }

    /// The free blocks of `stream` with at least `size` bytes, the smallest first.
    pub fn fits(&self, stream: u64, size: u64) -> impl Iterator<Item = (SizeKey, BlockId)> {
        self.free.from((stream, size, 0)).take_while(move |(key, _)| key.0 == stream)
    }
}
