//! The state machine: requests in, blocks out.

use std::collections::BTreeMap;

use vramfit_trace::snapshot::{Action, PoolId};

use crate::block::{Block, BlockId, Blocks, Use};
use crate::driver::Driver;
use crate::pool::Pool;
use crate::settings::Settings;
use crate::size::{MINIMUM_BLOCK, SMALL_REQUEST, block_size, segment_size};
use crate::statistics::Statistics;

pub(crate) const SMALL_POOL: u32 = 0;
pub(crate) const LARGE_POOL: u32 = 1;

/// Memory taken from the driver or given back to it, as a recorded trace shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentChange {
    /// One of the four segment actions.
    pub action: Action,
    /// Where.
    pub address: u64,
    /// How many bytes.
    pub size: u64,
    /// The stream it belongs to.
    pub stream: u64,
}

/// An allocation that failed for good, with what PyTorch's message tells of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfMemory {
    /// What the program asked for.
    pub requested: u64,
    /// The block that would have served it.
    pub block: u64,
    /// What was asked of the driver.
    pub segment: u64,
    /// Bytes the program holds.
    pub allocated: u64,
    /// Bytes reserved.
    pub reserved: u64,
    /// Cached bytes in private pools, which the default pool cannot use.
    pub in_private_pools: u64,
    /// The cap, where one is set.
    pub cap: Option<u64>,
}

/// A free that was requested and waits for other streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PendingFree(u64);

/// One device's caching allocator.
#[derive(Clone, Debug)]
pub struct Allocator<D> {
    pub(crate) settings: Settings,
    pub(crate) driver: D,
    pub(crate) blocks: Blocks,
    pub(crate) pools: Vec<Pool>,
    pub(crate) expandable: Vec<ExpandableSegment>,
    pub(crate) freeable_pools: Vec<PoolId>,
    pub(crate) pending: BTreeMap<u64, BlockId>,
    next_pending: u64,
    pub(crate) statistics: Statistics,
    pub(crate) changes: Vec<SegmentChange>,
}

/// Address space that grows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ExpandableSegment {
    pub base: u64,
    pub page: u64,
}

/// A request on its way through the allocator.
#[derive(Clone, Copy)]
pub(crate) struct Search {
    pub pool: u32,
    pub stream: u64,
    pub size: u64,
    pub segment: u64,
}

impl<D: Driver> Allocator<D> {
    /// An allocator that holds nothing yet.
    pub fn new(settings: Settings, driver: D) -> Allocator<D> {
        Allocator {
            settings,
            driver,
            blocks: Blocks::default(),
            pools: vec![Pool::new(true, PoolId::DEFAULT), Pool::new(false, PoolId::DEFAULT)],
            expandable: Vec::new(),
            freeable_pools: Vec::new(),
            pending: BTreeMap::new(),
            next_pending: 0,
            statistics: Statistics::default(),
            changes: Vec::new(),
        }
    }

    /// One that counts less with each request: of [`Allocator::statistics`] only what concerns segments, and the sum of
    /// `allocated_bytes`, hold.
    pub fn brief(settings: Settings, driver: D) -> Allocator<D> {
        let mut allocator = Allocator::new(settings, driver);
        allocator.statistics.is_brief = true;
        allocator
    }

    /// The settings it runs under.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The numbers of `torch.cuda.memory_stats`.
    pub fn statistics(&self) -> &Statistics {
        &self.statistics
    }

    /// As `torch.cuda.reset_peak_memory_stats`.
    pub fn reset_peaks(&mut self) {
        self.statistics.reset_peaks();
    }

    /// Bytes the program holds, whole blocks counted.
    pub fn allocated_bytes(&self) -> u64 {
        self.statistics.allocated_bytes.all.current
    }

    /// Bytes taken from the driver.
    pub fn reserved_bytes(&self) -> u64 {
        self.statistics.reserved_bytes.all.current
    }

    /// CUDA, as this allocator sees it.
    pub fn driver(&mut self) -> &mut D {
        &mut self.driver
    }

    /// A block.
    pub fn block(&self, id: BlockId) -> &Block {
        &self.blocks[id]
    }

    /// What was taken from the driver or given back since this was last asked, in order.
    pub fn take_changes(&mut self) -> Vec<SegmentChange> {
        std::mem::take(&mut self.changes)
    }

    /// Forgets what [`Allocator::take_changes`] would tell.
    pub fn clear_changes(&mut self) {
        self.changes.clear();
    }

    /// Serves a request of `requested` bytes on `stream`, from `owner`'s pool.
    ///
    /// # Errors
    /// Out of memory, after the cache has been given back to the driver and the driver asked again.
    pub fn allocate(&mut self, requested: u64, stream: u64, owner: PoolId) -> Result<BlockId, OutOfMemory> {
        let size = block_size(requested, &self.settings);
        let pool = self.pool_for(size, owner);
        if self.collects_garbage() {
            self.pools[pool as usize].searches += 1;
        }
        match self.take_cached(pool, stream, size, requested) {
            Some(id) => Ok(id),
            None => self.allocate_otherwise(pool, stream, size, requested, owner),
        }
    }

    /// From the cache where there are expandable segments, or from the driver.
    #[cold]
    fn allocate_otherwise(
        &mut self,
        pool: u32,
        stream: u64,
        size: u64,
        requested: u64,
        owner: PoolId,
    ) -> Result<BlockId, OutOfMemory> {
        let search = Search { pool, stream, size, segment: segment_size(size, &self.settings) };
        let found = self.take_expandable(search).or_else(|| self.obtain(search, owner));
        match found {
            Some(found) => Ok(self.hand_out(found, search, requested)),
            None => {
                self.statistics.ooms += 1;
                Err(self.out_of_memory(requested, search))
            }
        }
    }

    /// Best fit among the cached blocks, handed out at once, where no segment is expandable.
    #[inline]
    fn take_cached(&mut self, pool: u32, stream: u64, size: u64, requested: u64) -> Option<BlockId> {
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
        let handed = self.blocks.upcoming();
        self.blocks[found.id].previous = Some(handed);
        if let Some(previous) = previous {
            self.blocks[previous].next = Some(handed);
        }
        self.blocks.insert(first);
        self.count_handed_out(is_small, found.size, size, requested, Some(was_split));
        Some(handed)
    }

    /// The program gets `size` bytes of a block of `whole`; `was_split` says whether that was a part of its segment, and is `None`
    /// for expandable ones, which are not counted.
    #[inline]
    fn count_handed_out(&mut self, is_small: bool, whole: u64, size: u64, requested: u64, was_split: Option<bool>) {
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
        let size = block_size(requested, &self.settings);
        let pool = &self.pools[if size <= SMALL_REQUEST { SMALL_POOL } else { LARGE_POOL } as usize];
        let (_, found) = pool.free.fit(0, size)?;
        let whole = found.size;
        if whole >= self.largest_for(size) {
            return None;
        }
        Some(if should_split(&self.settings, pool.is_small, whole, size) { size } else { whole })
    }

    /// The way to a block that the cache does not have.
    fn obtain(&mut self, search: Search, owner: PoolId) -> Option<BlockId> {
        if self.collects_garbage() {
            self.collect_garbage();
        }
        if let Some(found) = self.ask_driver(search, false) {
            return Some(found);
        }
        if self.release_oversize(search)
            && let Some(found) = self.ask_driver(search, false)
        {
            return Some(found);
        }
        // While a private pool is being filled a CUDA graph is being captured, and the cache must not be touched.
        if owner != PoolId::DEFAULT {
            return None;
        }
        self.empty_cache();
        self.ask_driver(search, true)
    }

    fn out_of_memory(&self, requested: u64, search: Search) -> OutOfMemory {
        let private = self.pools.iter().filter(|pool| pool.owner != PoolId::DEFAULT);
        OutOfMemory {
            requested,
            block: search.size,
            segment: search.segment,
            allocated: self.allocated_bytes(),
            reserved: self.reserved_bytes(),
            in_private_pools: private.flat_map(|pool| pool.free.iter()).map(|(key, _)| key.1).sum(),
            cap: self.settings.cap,
        }
    }

    /// The program lets go of a block; it goes back to the cache at once.
    pub fn free(&mut self, id: BlockId) {
        self.release_from_program(id);
        self.return_to_cache(id);
    }

    /// The program lets go of a block that other streams still use: it stays active until
    /// [`Allocator::complete_free`].
    pub fn request_free(&mut self, id: BlockId) -> PendingFree {
        self.release_from_program(id);
        self.blocks[id].usage = Use::Pending;
        self.next_pending += 1;
        self.pending.insert(self.next_pending, id);
        PendingFree(self.next_pending)
    }

    /// The other streams are done with the block. Nothing happens where the cache was emptied meanwhile, which waits
    /// for all streams.
    pub fn complete_free(&mut self, free: PendingFree) {
        if let Some(id) = self.pending.remove(&free.0) {
            self.return_to_cache(id);
        }
    }

    #[inline]
    fn release_from_program(&mut self, id: BlockId) {
        let block = &self.blocks[id];
        let (is_small, size) = (self.pools[block.pool as usize].is_small, block.size);
        self.statistics.let_go(is_small, size, size >= self.settings.max_split_size);
    }

    /// Puts an active block into the cache, joined with its free neighbours.
    pub(crate) fn return_to_cache(&mut self, id: BlockId) {
        let block = &mut self.blocks[id];
        block.usage = Use::Free;
        let Block { size, requested, pool, previous, next, expandable, .. } = *block;
        let cached = |neighbour: Option<BlockId>| neighbour.filter(|&id| self.blocks[id].usage == Use::Free);
        let (previous, next) = (cached(previous), cached(next));
        let mut split_blocks = 0i64;
        let mut split_bytes = 0i64;
        if !self.statistics.is_brief {
            for neighbour in [previous, next].into_iter().flatten() {
                split_blocks -= 1;
                split_bytes -= self.blocks[neighbour].size as i64;
            }
        }
        let whole = match (previous, next) {
            (None, None) => {
                self.insert_free(id);
                id
            }
            (Some(first), other) => {
                if let Some(other) = other {
                    self.join(id, other);
                }
                self.absorb(first, id)
            }
            (None, Some(other)) => self.absorb(other, id),
        };
        if self.statistics.is_brief {
            return;
        }
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

    /// Joins `other`, a neighbour, to `block` if both are of one kind.
    pub(crate) fn merge(&mut self, block: BlockId, other: BlockId) {
        if self.blocks[other].usage == self.blocks[block].usage {
            self.join(block, other);
        }
    }

    /// Joins `other`, a neighbour of the same kind, to `block`; the bytes it brought.
    fn join(&mut self, id: BlockId, other: BlockId) -> u64 {
        let neighbour = &self.blocks[other];
        let (key, usage, size, previous, next) =
            (Pool::size_key(neighbour), neighbour.usage, neighbour.size, neighbour.previous, neighbour.next);
        let pool = &mut self.pools[neighbour.pool as usize];
        let removed = match usage {
            Use::Free => pool.free.remove(&key),
            _ => pool.unmapped.remove(&(key.0, key.2)),
        };
        debug_assert_eq!(removed, Some(other));
        self.blocks.delete(other);
        let block = &mut self.blocks[id];
        block.size += size;
        if block.previous == Some(other) {
            block.address = key.2;
            block.previous = previous;
            if let Some(previous) = previous {
                self.blocks[previous].next = Some(id);
            }
        } else {
            block.next = next;
            if let Some(next) = next {
                self.blocks[next].previous = Some(id);
            }
        }
        size
    }

    /// Joins `other`, which is in no pool, to the cached block beside it, which stays in the cache.
    fn absorb(&mut self, id: BlockId, other: BlockId) -> BlockId {
        let Block { address, size, previous, next, .. } = self.blocks[other];
        self.blocks.delete(other);
        let block = &mut self.blocks[id];
        let before = Pool::size_key(block);
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
        let block = &mut self.blocks[id];
        let pool = &mut self.pools[block.pool as usize];
        block.cached_at = pool.searches;
        pool.free.change(&before, block.size, block.address);
        id
    }

    #[inline]
    pub(crate) fn insert_free(&mut self, id: BlockId) {
        let block = &mut self.blocks[id];
        let pool = &mut self.pools[block.pool as usize];
        block.cached_at = pool.searches;
        pool.free.insert(Pool::size_key(block), id);
    }

    /// The pool of `owner` that serves blocks of `size` bytes, made now if `owner` has none yet.
    pub(crate) fn pool_for(&mut self, size: u64, owner: PoolId) -> u32 {
        let is_small = size <= SMALL_REQUEST;
        if owner == PoolId::DEFAULT {
            return if is_small { SMALL_POOL } else { LARGE_POOL };
        }
        let known = self.pools.iter().position(|pool| pool.owner == owner && pool.is_small == is_small);
        let index = known.unwrap_or_else(|| {
            self.pools.push(Pool::new(is_small, owner));
            self.pools.len() - 1
        });
        u32::try_from(index).expect("fewer than 2^32 pools")
    }

    /// Cached blocks from this size on are not for a request of `size` bytes.
    fn largest_for(&self, size: u64) -> u64 {
        let limit = self.settings.max_split_size;
        if size < limit { limit } else { size.saturating_add(self.settings.max_non_split_rounding) }
    }

    /// Best fit among the cached blocks, taken out, where there are expandable segments.
    fn take_expandable(&mut self, search: Search) -> Option<BlockId> {
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

    /// Asks the driver for a segment, or for more of an expandable one.
    fn ask_driver(&mut self, search: Search, is_retry: bool) -> Option<BlockId> {
        if is_retry {
            self.statistics.alloc_retries += 1;
        }
        if let Some(cap) = self.settings.cap
            && self.reserved_bytes().saturating_add(search.segment) > cap
        {
            return None;
        }
        if self.settings.expandable_segments {
            return self.expand(search);
        }
        let address = self.driver.allocate(search.segment)?;
        Some(self.adopt_segment(address, search))
    }

    /// A new segment, as one block that is in no pool yet.
    pub(crate) fn adopt_segment(&mut self, address: u64, search: Search) -> BlockId {
        let is_small = self.pools[search.pool as usize].is_small;
        self.statistics.segment.increase(is_small, 1);
        self.statistics.reserved_bytes.increase(is_small, search.segment);
        if search.segment >= self.settings.max_split_size {
            self.statistics.oversize_segments.increase(1);
        }
        self.statistics.device_alloc += 1;
        self.record(Action::SegmentAlloc, address, search.segment, search.stream);
        self.blocks.insert(Block {
            address,
            size: search.segment,
            requested: 0,
            stream: search.stream,
            usage: Use::Free,
            pool: search.pool,
            expandable: None,
            previous: None,
            next: None,
            cached_at: 0,
        })
    }

    pub(crate) fn record(&mut self, action: Action, address: u64, size: u64, stream: u64) {
        self.changes.push(SegmentChange { action, address, size, stream });
    }

    /// Gives the block, which is in no pool, to the program, cutting off what it does not need where the rules allow it.
    pub(crate) fn hand_out(&mut self, id: BlockId, search: Search, requested: u64) -> BlockId {
        let block = &self.blocks[id];
        let is_small = self.pools[block.pool as usize].is_small;
        let is_split = should_split(&self.settings, is_small, block.size, search.size);
        self.hand_out_part(id, search.size, requested, is_split)
    }

    pub(crate) fn hand_out_part(&mut self, id: BlockId, size: u64, requested: u64, is_split: bool) -> BlockId {
        let found = &mut self.blocks[id];
        let (is_in_split, whole, next) = (found.is_split(), found.size, found.next);
        let is_small = self.pools[found.pool as usize].is_small;
        let was_split = found.expandable.is_none().then_some(is_in_split);
        found.usage = Use::Allocated;
        found.requested = requested;
        if is_split {
            let rest =
                Block { address: found.address + size, size: whole - size, requested: 0, usage: Use::Free, ..*found };
            found.size = size;
            let rest = self.blocks.insert(rest);
            self.blocks.splice(rest, Some(id), next);
            self.insert_free(rest);
        }
        let size = self.blocks[id].size;
        self.count_handed_out(is_small, whole, size, requested, was_split);
        id
    }

    pub(crate) fn collects_garbage(&self) -> bool {
        self.settings.cap.is_some() && self.settings.garbage_collection_threshold > 0.0
    }
}

/// Whether a block of `whole` bytes is cut for a request of `size`.
#[inline]
fn should_split(settings: &Settings, is_small: bool, whole: u64, size: u64) -> bool {
    let rest = whole - size;
    if is_small || settings.expandable_segments {
        rest >= MINIMUM_BLOCK
    } else {
        size < settings.max_split_size && rest > SMALL_REQUEST
    }
}
