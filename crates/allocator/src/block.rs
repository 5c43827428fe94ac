//! Blocks: the parts of segments, in one table.

use std::num::NonZeroU32;

/// The number of a block, valid while the program holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BlockId(NonZeroU32);

impl BlockId {
    /// The block at this index of the table.
    pub(crate) fn new(index: usize) -> BlockId {
        let number = u32::try_from(index + 1).ok().and_then(NonZeroU32::new);
        BlockId(number.expect("fewer than 2^32 blocks"))
    }

    #[inline]
    fn index(self) -> usize {
        self.0.get() as usize - 1
    }
}

/// Who uses a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockUse {
    /// Address space of an expandable segment without memory behind it.
    Unmapped,
    /// Nobody: it is free.
    Free,
    /// The program holds it.
    Allocated,
    /// The program has freed it, but another stream still uses it.
    Pending,
    /// Not a block any more. Never returned.
    Deleted,
}

/// A part of a segment.
#[derive(Clone, Copy, Debug)]
pub struct Block {
    /// Where it begins.
    pub address: u64,
    /// Its bytes.
    pub size: u64,
    /// The bytes the program requested, while it is in use.
    pub requested: u64,
    /// The stream it belongs to.
    pub stream: u64,
    /// Who uses it.
    pub usage: BlockUse,
    /// The pool it belongs to.
    pub(crate) pool: u32,
    /// The expandable segment it is part of, from 1.
    pub(crate) expandable: Option<NonZeroU32>,
    /// The block before it in its segment.
    pub(crate) previous: Option<BlockId>,
    /// The block after it in its segment.
    pub(crate) next: Option<BlockId>,
    /// The pool's count of searches when it was freed: its age for garbage collection.
    pub(crate) cached_at: u64,
}

impl Block {
    /// Whether its segment has other blocks too.
    pub fn is_split(&self) -> bool {
        self.previous.is_some() || self.next.is_some()
    }

    /// Whether there is memory behind it.
    pub fn is_mapped(&self) -> bool {
        self.usage != BlockUse::Unmapped
    }
}

/// All blocks. Numbers of deleted ones are reused.
#[derive(Clone, Debug)]
pub(crate) struct Blocks {
    table: Vec<Block>,
    vacant: Vec<BlockId>,
}

/// Blocks for which memory is reserved at once: about as many as the training of a mid-sized model has.
const INITIAL_CAPACITY: usize = 1024;

impl Default for Blocks {
    fn default() -> Blocks {
        Blocks { table: Vec::with_capacity(INITIAL_CAPACITY), vacant: Vec::new() }
    }
}

impl Blocks {
    #[inline]
    pub fn insert(&mut self, block: Block) -> BlockId {
        match self.vacant.pop() {
            Some(id) => {
                self[id] = block;
                id
            }
            None => {
                let id = BlockId::new(self.table.len());
                self.table.push(block);
                id
            }
        }
    }

    #[inline]
    pub fn delete(&mut self, id: BlockId) {
        self[id].usage = BlockUse::Deleted;
        self.vacant.push(id);
    }

    /// All blocks, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = &Block> {
        self.table.iter().filter(|block| block.usage != BlockUse::Deleted)
    }

    /// Links `id` between `before` and `after`, which were neighbours.
    #[inline]
    pub fn splice(&mut self, id: BlockId, before: Option<BlockId>, after: Option<BlockId>) {
        if let Some(before) = before {
            self[before].next = Some(id);
        }
        if let Some(after) = after {
            self[after].previous = Some(id);
        }
        self[id].previous = before;
        self[id].next = after;
    }
}

impl std::ops::Index<BlockId> for Blocks {
    type Output = Block;
    #[inline]
    fn index(&self, id: BlockId) -> &Block {
        &self.table[id.index()]
    }
}

impl std::ops::IndexMut<BlockId> for Blocks {
    #[inline]
    fn index_mut(&mut self, id: BlockId) -> &mut Block {
        &mut self.table[id.index()]
    }
}
