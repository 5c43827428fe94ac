//! The current segments, as a memory snapshot lists them.

use crate::allocator::Allocator;
use crate::block::Block;
use crate::mempool::MempoolId;

/// A segment, or a mapped range of an expandable one.
#[derive(Clone, Debug)]
pub struct Segment {
    /// Where it begins.
    pub address: u64,
    /// Its bytes.
    pub size: u64,
    /// Whether it belongs to the small pool.
    pub is_small: bool,
    /// Whether it is part of an expandable segment.
    pub is_expandable: bool,
    /// The memory pool it belongs to.
    pub pool: MempoolId,
    /// Its blocks, by address.
    pub blocks: Vec<Block>,
}

impl<D> Allocator<D> {
    /// All segments, by address.
    pub fn segments(&self) -> Vec<Segment> {
        let mut segments: Vec<Segment> = self.heads().map(|head| self.segment_from(head)).collect();
        segments.sort_by_key(|segment| segment.address);
        segments
    }

    /// The first block of each segment.
    fn heads(&self) -> impl Iterator<Item = &Block> {
        self.blocks.iter().filter(|block| {
            block.is_mapped() && block.previous.is_none_or(|previous| !self.blocks[previous].is_mapped())
        })
    }

    fn segment_from(&self, head: &Block) -> Segment {
        let mut blocks = vec![*head];
        let mut cursor = head.next;
        while let Some(id) = cursor
            && self.blocks[id].is_mapped()
        {
            blocks.push(self.blocks[id]);
            cursor = self.blocks[id].next;
        }
        let pool = &self.pools[head.pool as usize];
        Segment {
            address: head.address,
            size: blocks.iter().map(|block| block.size).sum(),
            is_small: pool.is_small,
            is_expandable: head.expandable.is_some(),
            pool: pool.owner,
            blocks,
        }
    }

    /// How many segments there are.
    pub fn segment_count(&self) -> usize {
        self.heads().count()
    }
}
