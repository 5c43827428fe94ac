//! The cache of free blocks: allocating from it, and freeing into it.

use crate::allocator::{Allocator, BlockRequest};
use crate::block::{Block, BlockId, BlockUse};
use crate::driver::Driver;
use crate::pool::Pool;
use crate::size::should_split;

impl<D: Driver> Allocator<D> {
    /// Allocates the best fit among the free blocks, where no segment is expandable.
    #[inline]
    pub(crate) fn take_cached(&mut self, pool: u32, stream: u64, size: u64, requested: u64) -> Option<BlockId> {
        if !self.expandable.is_empty() {
            return None;
        }
        let largest = self.largest_for(size);
        let pool = &mut self.pools[pool as usize];
        let (slot, found) = pool.free.best_fit(stream, size)?;
        if found.size >= largest {
            return None;
        }
        let is_small = pool.is_small;
        let block = &mut self.blocks[found.id];
        let (was_split, previous) = (block.is_split(), block.previous);
        if !should_split(&self.settings, is_small, found.size, size) {
            block.usage = BlockUse::Allocated;
            block.requested = requested;
            pool.free.remove_at(slot);
            self.count_allocated(is_small, found.size, found.size, requested, Some(was_split));
            return Some(found.id);
        }
        // The free rest keeps its number, and its slot in the free list if the order allows it.
        let first = Block { size, requested, usage: BlockUse::Allocated, next: Some(found.id), ..*block };
        block.address += size;
        block.size -= size;
        block.cached_at = pool.searches;
        pool.free.change_at(slot, block.size, block.address);
        let allocated = self.blocks.insert(first);
        self.blocks[found.id].previous = Some(allocated);
        if let Some(previous) = previous {
            self.blocks[previous].next = Some(allocated);
        }
        self.count_allocated(is_small, found.size, size, requested, Some(was_split));
        Some(allocated)
    }

    /// Counts that the program got `size` bytes of a block of `whole`. `was_split` is whether that block was only part of
    /// its segment; `None` for expandable segments, whose splits are not counted.
    #[inline]
    pub(crate) fn count_allocated(
        &mut self,
        is_small: bool,
        whole: u64,
        size: u64,
        requested: u64,
        was_split: Option<bool>,
    ) {
        if self.has_reduced_statistics {
            self.statistics.allocated_bytes.all.increase(size);
            return;
        }
        match (was_split, size < whole) {
            (Some(true), true) => self.statistics.change_split(is_small, 0, -(size as i64)),
            (Some(false), true) => self.statistics.change_split(is_small, 1, (whole - size) as i64),
            (Some(true), false) => self.statistics.change_split(is_small, -1, -(whole as i64)),
            (Some(false), false) | (None, _) => {}
        }
        self.statistics.count_allocated(is_small, size, requested, size >= self.settings.max_split_size);
    }

    /// Whether every block of the small pool has exactly the rounded size of its request, wherever it is: no free block
    /// is too small to split. False under settings that make sizes or the choice of blocks depend on more than that.
    pub fn has_exact_small_blocks(&self) -> bool {
        self.expandable.is_empty()
            && !self.settings.expandable_segments
            && !self.collects_garbage()
            && !self.has_divisions
    }

    /// Frees an active block and merges it with its free neighbours.
    pub(crate) fn return_to_cache(&mut self, id: BlockId) {
        self.blocks[id].usage = BlockUse::Free;
        let neighbours = self.free_neighbours(id);
        if self.has_reduced_statistics {
            self.merge_into_cache(id, neighbours);
        } else {
            self.return_counted(id, neighbours);
        }
    }

    /// Adds a free block to the free list, merged with these neighbours, and counts that.
    fn return_counted(&mut self, id: BlockId, neighbours: [Option<BlockId>; 2]) {
        let Block { size, requested, pool, expandable, .. } = self.blocks[id];
        let mut split_blocks = 0i64;
        let mut split_bytes = 0i64;
        for neighbour in neighbours.into_iter().flatten() {
            split_blocks -= 1;
            split_bytes -= self.blocks[neighbour].size as i64;
        }
        let whole = self.merge_into_cache(id, neighbours);
        let block = &self.blocks[whole];
        if block.is_split() {
            split_blocks += 1;
            split_bytes += block.size as i64;
        }
        let is_small = self.pools[pool as usize].is_small;
        if expandable.is_none() {
            self.statistics.change_split(is_small, split_blocks, split_bytes);
        }
        self.statistics.count_inactive(is_small, size, requested);
    }

    /// The blocks before and after this one, where they are free.
    #[inline]
    fn free_neighbours(&self, id: BlockId) -> [Option<BlockId>; 2] {
        let Block { previous, next, .. } = self.blocks[id];
        [previous, next].map(|neighbour| neighbour.filter(|&id| self.blocks[id].usage == BlockUse::Free))
    }

    /// Adds a free block to the free list, merged with these neighbours; returns the merged block.
    #[inline(always)]
    fn merge_into_cache(&mut self, id: BlockId, neighbours: [Option<BlockId>; 2]) -> BlockId {
        let cached = match neighbours {
            [None, None] => {
                self.insert_free(id);
                return id;
            }
            [Some(first), Some(other)] => {
                self.merge_pooled(id, other);
                first
            }
            [Some(only), None] | [None, Some(only)] => only,
        };
        self.grow_free(cached, id);
        cached
    }

    /// Merges `other`, a neighbour, into `block` if both have the same use.
    pub(crate) fn merge(&mut self, block: BlockId, other: BlockId) {
        if self.blocks[other].usage == self.blocks[block].usage {
            self.merge_pooled(block, other);
        }
    }

    /// Merges `other`, a free or unmapped neighbour, into `id`, which is in no pool.
    fn merge_pooled(&mut self, id: BlockId, other: BlockId) {
        let neighbour = &self.blocks[other];
        let key = Pool::size_key(neighbour);
        let pool = &mut self.pools[neighbour.pool as usize];
        let removed = match neighbour.usage {
            BlockUse::Free => pool.free.remove(&key),
            _ => pool.unmapped.remove(&(key.0, key.2)),
        };
        debug_assert_eq!(removed, Some(other));
        self.absorb(id, other);
    }

    /// Merges `other`, which is in no pool, into the free block next to it, which stays in the free list.
    #[inline(always)]
    fn grow_free(&mut self, id: BlockId, other: BlockId) {
        let before = Pool::size_key(&self.blocks[id]);
        self.absorb(id, other);
        let block = &mut self.blocks[id];
        let pool = &mut self.pools[block.pool as usize];
        block.cached_at = pool.searches;
        pool.free.change(before, block.size, block.address);
    }

    /// Makes `other`, which is in no pool, part of its neighbour.
    #[inline(always)]
    fn absorb(&mut self, id: BlockId, other: BlockId) {
        let Block { address, size, previous, next, .. } = self.blocks[other];
        self.blocks.delete(other);
        let block = &mut self.blocks[id];
        block.size += size;
        if block.next == Some(other) {
            block.next = next;
            if let Some(next) = next {
                self.blocks[next].previous = Some(id);
            }
        } else {
            block.address = address;
            block.previous = previous;
            if let Some(previous) = previous {
                self.blocks[previous].next = Some(id);
            }
        }
    }

    #[inline]
    pub(crate) fn insert_free(&mut self, id: BlockId) {
        let block = &mut self.blocks[id];
        let pool = &mut self.pools[block.pool as usize];
        block.cached_at = pool.searches;
        pool.free.insert(Pool::size_key(block), id);
    }

    /// Free blocks of this size or larger must not serve a request of `size` bytes.
    fn largest_for(&self, size: u64) -> u64 {
        let limit = self.settings.max_split_size;
        if size < limit { limit } else { size.saturating_add(self.settings.max_non_split_rounding) }
    }

    /// Takes the best fit out of the free list, where there are expandable segments.
    pub(crate) fn take_expandable(&mut self, request: BlockRequest) -> Option<BlockId> {
        if self.expandable.is_empty() {
            return None;
        }
        let id = self.best_expandable(request)?;
        let key = Pool::size_key(&self.blocks[id]);
        if key.1 >= self.largest_for(request.size) {
            return None;
        }
        self.pools[request.pool as usize].free.remove(&key)
    }

    /// Best fit where there are expandable segments: a block counts with the size it could grow to.
    fn best_expandable(&self, request: BlockRequest) -> Option<BlockId> {
        let mut fits = self.pools[request.pool as usize].fits(request.stream, request.size).map(|(_, id)| id);
        let is_expandable = |id: BlockId| self.blocks[id].expandable.is_some();
        if !self.settings.expandable_segments {
            return fits.find(|&id| !is_expandable(id));
        }
        let could_grow_to = |id: BlockId| {
            let block = &self.blocks[id];
            let room = block.next.map(|next| &self.blocks[next]).filter(|next| !next.is_mapped());
            block.size + room.map_or(0, |room| room.size)
        };
        let mut best = fits.next()?;
        while is_expandable(best)
            && let Some(next) = fits.next()
            && could_grow_to(next) < could_grow_to(best)
        {
            best = next;
        }
        Some(best)
    }
}
