//! The cache: blocks out of it, and back into it.

use crate::allocator::{Allocator, LARGE_POOL, SMALL_POOL, Search};
use crate::block::{Block, BlockId, Use};
use crate::driver::Driver;
use crate::pool::Pool;
use crate::settings::Settings;
use crate::size::{MINIMUM_BLOCK, SMALL_REQUEST};

impl<D: Driver> Allocator<D> {
    /// Best fit among the cached blocks, handed out at once, where no segment is expandable.
    #[inline]
    pub(crate) fn take_cached(&mut self, pool: u32, stream: u64, size: u64, requested: u64) -> Option<BlockId> {
        if !self.expandable.is_empty() {
            return None;
        }
        let largest = self.largest_for(size);
        let pool = &mut self.pools[pool as usize];
        let (place, found) = pool.free.fit(stream, size)?;
        if found.size >= largest {
            return None;
        }
        let is_small = pool.is_small;
        let block = &mut self.blocks[found.id];
        let (was_split, previous) = (block.is_split(), block.previous);
        if !should_split(&self.settings, is_small, found.size, size) {
            block.usage = Use::Allocated;
            block.requested = requested;
            pool.free.remove_at(place);
            self.count_handed_out(is_small, found.size, found.size, requested, Some(was_split));
            return Some(found.id);
        }
        // What is left keeps its number, and its place in the cache if it can.
        let first = Block { size, requested, usage: Use::Allocated, next: Some(found.id), ..*block };
        block.address += size;
        block.size -= size;
        block.cached_at = pool.searches;
        pool.free.change_at(place, block.size, block.address);
        let handed = self.blocks.insert(first);
        self.blocks[found.id].previous = Some(handed);
        if let Some(previous) = previous {
            self.blocks[previous].next = Some(handed);
        }
        self.count_handed_out(is_small, found.size, size, requested, Some(was_split));
        Some(handed)
    }

    /// The program gets `size` bytes of a block of `whole`; `was_split` says whether that was a part of its segment, and is `None`
    /// for expandable ones, which are not counted.
    #[inline]
    pub(crate) fn count_handed_out(
        &mut self,
        is_small: bool,
        whole: u64,
        size: u64,
        requested: u64,
        was_split: Option<bool>,
    ) {
        if self.statistics.is_brief {
            self.statistics.hand_out_briefly(size);
            return;
        }
        match (was_split, size < whole) {
            (Some(true), true) => self.statistics.change_split(is_small, 0, -(size as i64)),
            (Some(false), true) => self.statistics.change_split(is_small, 1, (whole - size) as i64),
            (Some(true), false) => self.statistics.change_split(is_small, -1, -(whole as i64)),
            (Some(false), false) | (None, _) => {}
        }
        self.statistics.hand_out(is_small, size, requested, size >= self.settings.max_split_size);
    }

    /// What [`Allocator::allocate`] on the first stream from the default pool would hand out, where the cache has it and to let go of it at once
    /// would leave everything as it was: then it need not be done.
    #[inline]
    pub fn passing(&self, requested: u64) -> Option<u64> {
        if !self.statistics.is_brief || !self.expandable.is_empty() || self.collects_garbage() {
            return None;
        }
        let size = self.block_size(requested);
        let pool = &self.pools[if size <= SMALL_REQUEST { SMALL_POOL } else { LARGE_POOL } as usize];
        let (_, found) = pool.free.fit(0, size)?;
        let whole = found.size;
        if whole >= self.largest_for(size) {
            return None;
        }
        Some(if should_split(&self.settings, pool.is_small, whole, size) { size } else { whole })
    }

    /// Whether each block of the small pool is as large as its request asks for, rounded to whole pieces: what is left of a cached
    /// block is never too little to be cut off. Not said where garbage is collected, which ages blocks.
    pub fn has_exact_small_blocks(&self) -> bool {
        self.expandable.is_empty()
            && !self.settings.expandable_segments
            && !self.collects_garbage()
            && !self.has_divisions
    }

    /// Puts an active block into the cache, joined with its free neighbours.
    pub(crate) fn return_to_cache(&mut self, id: BlockId) {
        self.blocks[id].usage = Use::Free;
        let neighbours = self.cached_neighbours(id);
        if self.statistics.is_brief {
            self.unite_in_cache(id, neighbours);
        } else {
            self.return_counted(id, neighbours);
        }
    }

    /// Puts a free block into the cache, joined with its free neighbours, and counts that.
    fn return_counted(&mut self, id: BlockId, neighbours: [Option<BlockId>; 2]) {
        let Block { size, requested, pool, expandable, .. } = self.blocks[id];
        let mut split_blocks = 0i64;
        let mut split_bytes = 0i64;
        for neighbour in neighbours.into_iter().flatten() {
            split_blocks -= 1;
            split_bytes -= self.blocks[neighbour].size as i64;
        }
        let whole = self.unite_in_cache(id, neighbours);
        let block = &self.blocks[whole];
        if block.is_split() {
            split_blocks += 1;
            split_bytes += block.size as i64;
        }
        let is_small = self.pools[pool as usize].is_small;
        if expandable.is_none() {
            self.statistics.change_split(is_small, split_blocks, split_bytes);
        }
        self.statistics.come_back(is_small, size, requested);
    }

    /// The blocks before and after this one, where they are in the cache.
    #[inline]
    fn cached_neighbours(&self, id: BlockId) -> [Option<BlockId>; 2] {
        let Block { previous, next, .. } = self.blocks[id];
        [previous, next].map(|neighbour| neighbour.filter(|&id| self.blocks[id].usage == Use::Free))
    }

    /// Puts a free block into the cache, joined with these neighbours; tells which block it is then.
    #[inline(always)]
    fn unite_in_cache(&mut self, id: BlockId, neighbours: [Option<BlockId>; 2]) -> BlockId {
        let cached = match neighbours {
            [None, None] => {
                self.insert_free(id);
                return id;
            }
            [Some(first), Some(other)] => {
                self.join(id, other);
                first
            }
            [Some(only), None] | [None, Some(only)] => only,
        };
        self.absorb(cached, id);
        cached
    }

    /// Joins `other`, a neighbour, to `block` if both are of one kind.
    pub(crate) fn merge(&mut self, block: BlockId, other: BlockId) {
        if self.blocks[other].usage == self.blocks[block].usage {
            self.join(block, other);
        }
    }

    /// Joins `other`, a neighbour of the same kind, to `block`.
    fn join(&mut self, id: BlockId, other: BlockId) {
        let neighbour = &self.blocks[other];
        let key = Pool::size_key(neighbour);
        let pool = &mut self.pools[neighbour.pool as usize];
        let removed = match neighbour.usage {
            Use::Free => pool.free.remove(&key),
            _ => pool.unmapped.remove(&(key.0, key.2)),
        };
        debug_assert_eq!(removed, Some(other));
        self.unite(id, other);
    }

    /// Joins `other`, which is in no pool, to the cached block beside it, which stays in the cache.
    #[inline(always)]
    fn absorb(&mut self, id: BlockId, other: BlockId) {
        let before = Pool::size_key(&self.blocks[id]);
        self.unite(id, other);
        let block = &mut self.blocks[id];
        let pool = &mut self.pools[block.pool as usize];
        block.cached_at = pool.searches;
        pool.free.change(before, block.size, block.address);
    }

    /// `other`, which is in no pool, becomes a part of its neighbour.
    #[inline(always)]
    fn unite(&mut self, id: BlockId, other: BlockId) {
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

    /// Cached blocks from this size on are not for a request of `size` bytes.
    fn largest_for(&self, size: u64) -> u64 {
        let limit = self.settings.max_split_size;
        if size < limit { limit } else { size.saturating_add(self.settings.max_non_split_rounding) }
    }

    /// Best fit among the cached blocks, taken out, where there are expandable segments.
    pub(crate) fn take_expandable(&mut self, search: Search) -> Option<BlockId> {
        if self.expandable.is_empty() {
            return None;
        }
        let id = self.best_expandable(search)?;
        let key = Pool::size_key(&self.blocks[id]);
        if key.1 >= self.largest_for(search.size) {
            return None;
        }
        self.pools[search.pool as usize].free.remove(&key)
    }

    /// Best fit where there are expandable segments: there a block counts with what it could grow to.
    fn best_expandable(&self, search: Search) -> Option<BlockId> {
        let mut fits = self.pools[search.pool as usize].fits(search.stream, search.size).map(|(_, id)| id);
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

/// Whether a block of `whole` bytes is cut for a request of `size`.
#[inline]
pub(crate) fn should_split(settings: &Settings, is_small: bool, whole: u64, size: u64) -> bool {
    let rest = whole - size;
    if is_small || settings.expandable_segments {
        rest >= MINIMUM_BLOCK
    } else {
        size < settings.max_split_size && rest > SMALL_REQUEST
    }
}
