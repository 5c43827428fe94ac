//! Starting from memory that is already in use: an allocator with a given layout of segments and blocks.

use crate::allocator::{Allocator, BlockRequest, PendingFree};
use crate::block::{Block, BlockId, BlockUse};
use crate::driver::Driver;
use crate::mempool::MempoolId;
use crate::pool::Pool;
use crate::settings::Settings;
use crate::size::SMALL_SEGMENT;

/// Address space of a restored expandable segment: more than any GPU has memory.
const EXPANDABLE_SPAN: u64 = 1 << 44;

/// A segment to start with, or a mapped range of an expandable one. It spans its pieces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayoutSegment {
    /// Where it begins.
    pub address: u64,
    /// The stream it belongs to.
    pub stream: u64,
    /// The memory pool it belongs to.
    pub pool: MempoolId,
    /// Whether it belongs to the small pool.
    pub is_small: bool,
    /// Whether it is part of an expandable segment.
    pub is_expandable: bool,
    /// What it is divided into, by address, without gaps.
    pub pieces: Vec<LayoutPiece>,
}

/// A block of a [`LayoutSegment`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LayoutPiece {
    /// Its bytes.
    pub size: u64,
    /// Who uses it.
    pub usage: LayoutUse,
}

/// Who uses a [`LayoutPiece`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayoutUse {
    /// Nobody: it is in the cache.
    Free,
    /// The program, which requested this many bytes.
    Allocated {
        /// Bytes requested.
        requested: u64,
    },
    /// Another stream, after the program has freed it.
    Pending {
        /// Bytes requested.
        requested: u64,
    },
}

/// The handle to a piece that was in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestoredBlock {
    /// A block the program holds.
    Held(BlockId),
    /// A free that waits for other streams.
    Pending(PendingFree),
}

impl<D: Driver> Allocator<D> {
    /// An allocator in which `segments` exist already, and the handles to the pieces in use, in order. The driver is
    /// not asked for them, but gets them back when they are released. The statistics begin with this state: every peak is the current value.
    pub fn with_layout(
        settings: Settings,
        driver: D,
        segments: &[LayoutSegment],
    ) -> (Allocator<D>, Vec<RestoredBlock>) {
        let mut allocator = Allocator::new(settings, driver);
        let mut handles = Vec::new();
        for segment in segments {
            let head = allocator.restore_segment(segment);
            allocator.restore_pieces(head, &segment.pieces, &mut handles);
        }
        allocator.statistics = allocator.statistics.as_beginning();
        allocator.clear_changes();
        (allocator, handles)
    }

    /// Creates the segment, as one block that is in no pool.
    fn restore_segment(&mut self, segment: &LayoutSegment) -> BlockId {
        let size = segment.pieces.iter().map(|piece| piece.size).sum();
        let pool = self.pool_of(segment.is_small, segment.pool);
        let request = BlockRequest { pool, stream: segment.stream, size, segment: size };
        if !segment.is_expandable {
            return self.add_segment(segment.address, request);
        }
        let page = if segment.is_small { SMALL_SEGMENT } else { self.settings.large_segment_size };
        let unmapped = match self.unmapped_around(pool, segment.stream, segment.address, size) {
            Some(id) => id,
            None => self.add_address_space(request, segment.address, EXPANDABLE_SPAN, page),
        };
        self.restore_mapped(unmapped, segment.address, size)
    }

    /// Divides the block `head` into `pieces`.
    fn restore_pieces(&mut self, head: BlockId, pieces: &[LayoutPiece], handles: &mut Vec<RestoredBlock>) {
        let mut blocks = Vec::with_capacity(pieces.len());
        let mut cursor = head;
        for (index, piece) in pieces.iter().enumerate() {
            let requested = match piece.usage {
                LayoutUse::Free => 0,
                LayoutUse::Allocated { requested } | LayoutUse::Pending { requested } => requested,
            };
            let is_last = index + 1 == pieces.len();
            let id = self.assign_part(cursor, piece.size, requested, !is_last);
            blocks.push((id, piece.usage));
            if let Some(rest) = self.blocks[id].next.filter(|_| !is_last) {
                let key = Pool::size_key(&self.blocks[rest]);
                let pool = self.blocks[rest].pool;
                self.pools[pool as usize].free.remove(&key);
                cursor = rest;
            }
        }
        for (id, usage) in blocks {
            match usage {
                LayoutUse::Free => self.free(id),
                LayoutUse::Allocated { .. } => handles.push(RestoredBlock::Held(id)),
                LayoutUse::Pending { .. } => handles.push(RestoredBlock::Pending(self.request_free(id))),
            }
        }
    }

    /// The unmapped block of an expandable segment that contains this range.
    fn unmapped_around(&self, pool: u32, stream: u64, address: u64, size: u64) -> Option<BlockId> {
        let before = self.pools[pool as usize].unmapped.range(..=(stream, address)).next_back();
        before.map(|(_, &id)| id).filter(|&id| {
            let block = &self.blocks[id];
            block.stream == stream && block.address + block.size >= address + size
        })
    }

    /// Puts memory behind exactly this range of an unmapped block; the mapped block, in no pool.
    fn restore_mapped(&mut self, unmapped: BlockId, address: u64, size: u64) -> BlockId {
        let whole = self.blocks[unmapped];
        let pool = whole.pool as usize;
        self.pools[pool].unmapped.remove(&(whole.stream, whole.address));
        let mapped = self.blocks.insert(Block { address, size, usage: BlockUse::Free, ..whole });
        self.blocks.splice(mapped, whole.previous, whole.next);
        let mut before = whole.previous;
        if address > whole.address {
            self.blocks[unmapped].size = address - whole.address;
            self.blocks.splice(unmapped, whole.previous, Some(mapped));
            self.pools[pool].unmapped.insert((whole.stream, whole.address), unmapped);
            before = Some(unmapped);
        } else {
            self.blocks.delete(unmapped);
        }
        self.blocks[mapped].previous = before;
        let end = whole.address + whole.size;
        if address + size < end {
            let rest = self.blocks.insert(Block { address: address + size, size: end - address - size, ..whole });
            self.blocks.splice(rest, Some(mapped), whole.next);
            self.pools[pool].unmapped.insert((whole.stream, address + size), rest);
        }
        let is_small = self.pools[pool].is_small;
        self.statistics.reserved_bytes.increase(is_small, size);
        mapped
    }
}
