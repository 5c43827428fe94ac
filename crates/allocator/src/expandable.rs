//! Expandable segments: address space that gets memory page by page.

use std::num::NonZeroU32;

use crate::allocator::{Allocator, BlockRequest, ExpandableSegment, SegmentAction};
use crate::block::{Block, BlockId, BlockUse};
use crate::driver::Driver;
use crate::size::SMALL_SEGMENT;

impl<D: Driver> Allocator<D> {
    /// A block of at least `request.size` bytes, at the lowest address where mapping pages makes one.
    pub(crate) fn expand(&mut self, request: BlockRequest) -> Option<BlockId> {
        let mut candidate = self.find_address_space(request);
        if !self.blocks[candidate].is_mapped() {
            let room = self.blocks[candidate].size;
            self.map(candidate, room.min(request.size))?;
        }
        while self.blocks[candidate].size < request.size {
            let missing = request.size - self.blocks[candidate].size;
            let next = self.blocks[candidate].next?;
            self.map(next, missing.min(self.blocks[next].size))?;
            candidate = next;
        }
        let key = crate::pool::Pool::size_key(&self.blocks[candidate]);
        self.pools[request.pool as usize].free.remove(&key);
        Some(candidate)
    }

    /// The lowest run of free and unmapped blocks with room for the request, in a new segment if there is none.
    fn find_address_space(&mut self, request: BlockRequest) -> BlockId {
        let is_usable = |block: &Block| matches!(block.usage, BlockUse::Free | BlockUse::Unmapped);
        let pool = &self.pools[request.pool as usize];
        for (_, &unmapped) in pool.unmapped.range((request.stream, 0)..).take_while(|&(key, _)| key.0 == request.stream)
        {
            let before = self.blocks[unmapped].previous.filter(|&before| is_usable(&self.blocks[before]));
            let first = before.unwrap_or(unmapped);
            let mut room = 0;
            let mut cursor = Some(first);
            while let Some(id) = cursor
                && room < request.size
                && is_usable(&self.blocks[id])
            {
                room += self.blocks[id].size;
                cursor = self.blocks[id].next;
            }
            if room >= request.size {
                return first;
            }
        }
        let page = if pool.is_small { SMALL_SEGMENT } else { self.settings.large_segment_size };
        let (base, span) = self.driver.reserve_addresses(page);
        self.add_address_space(request, base, span.max(request.size.next_multiple_of(page)), page)
    }

    fn expandable_segment(&self, number: NonZeroU32) -> ExpandableSegment {
        self.expandable[number.get() as usize - 1]
    }

    /// Adds an expandable segment without memory, as one unmapped block.
    pub(crate) fn add_address_space(&mut self, request: BlockRequest, base: u64, span: u64, page: u64) -> BlockId {
        self.expandable.push(ExpandableSegment { base, page });
        let number = u32::try_from(self.expandable.len()).ok().and_then(NonZeroU32::new);
        let id = self.blocks.insert(Block {
            address: base,
            size: span,
            requested: 0,
            stream: request.stream,
            usage: BlockUse::Unmapped,
            pool: request.pool,
            expandable: number,
            previous: None,
            next: None,
            cached_at: 0,
        });
        self.pools[request.pool as usize].unmapped.insert((request.stream, base), id);
        id
    }

    /// Maps the first `size` bytes of an unmapped block, in whole pages, and merges them with free neighbours. `None` if
    /// the driver has no memory.
    fn map(&mut self, id: BlockId, size: u64) -> Option<()> {
        let block = self.blocks[id];
        let segment = self.expandable_segment(block.expandable?);
        let end = (block.address - segment.base + size).next_multiple_of(segment.page) + segment.base;
        let mapped = end - block.address;
        if !self.driver.map(block.address, mapped) {
            return None;
        }
        self.pools[block.pool as usize].unmapped.remove(&(block.stream, block.address));
        self.blocks[id].usage = BlockUse::Free;
        if mapped < block.size {
            let rest = self.blocks.insert(Block { address: end, size: block.size - mapped, ..block });
            self.blocks[id].size = mapped;
            self.blocks.splice(rest, Some(id), block.next);
            self.pools[block.pool as usize].unmapped.insert((block.stream, end), rest);
        }
        self.merge_neighbours(id);
        self.insert_free(id);
        let is_small = self.pools[block.pool as usize].is_small;
        self.statistics.reserved_bytes.increase(is_small, mapped);
        self.statistics.device_alloc += 1;
        self.record(SegmentAction::Map, block.address, mapped, block.stream);
        Some(())
    }

    /// Unmaps the whole pages inside a free block. False if there are none.
    pub(crate) fn unmap(&mut self, id: BlockId) -> bool {
        let block = self.blocks[id];
        let Some(number) = block.expandable else { return false };
        let ExpandableSegment { base, page } = self.expandable_segment(number);
        let begin = (block.address - base).next_multiple_of(page) + base;
        let end = (block.address + block.size - base) / page * page + base;
        if begin >= end {
            return false;
        }
        self.driver.unmap(begin, end - begin);
        self.pools[block.pool as usize].free.remove(&crate::pool::Pool::size_key(&block));
        if begin > block.address {
            let before = self.blocks.insert(Block { size: begin - block.address, ..block });
            self.blocks.splice(before, block.previous, Some(id));
            self.insert_free(before);
        }
        let block_end = block.address + block.size;
        if block_end > end {
            let after = self.blocks.insert(Block { address: end, size: block_end - end, ..block });
            self.blocks.splice(after, Some(id), block.next);
            self.insert_free(after);
        }
        self.blocks[id].address = begin;
        self.blocks[id].size = end - begin;
        self.blocks[id].usage = BlockUse::Unmapped;
        self.merge_neighbours(id);
        let address = self.blocks[id].address;
        self.pools[block.pool as usize].unmapped.insert((block.stream, address), id);
        let is_small = self.pools[block.pool as usize].is_small;
        self.statistics.reserved_bytes.decrease(is_small, end - begin);
        self.statistics.device_free += 1;
        self.record(SegmentAction::Unmap, begin, end - begin, block.stream);
        true
    }

    fn merge_neighbours(&mut self, id: BlockId) {
        if let Some(previous) = self.blocks[id].previous {
            self.merge(id, previous);
        }
        if let Some(next) = self.blocks[id].next {
            self.merge(id, next);
        }
    }
}
