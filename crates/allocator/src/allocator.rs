//! The state machine: requests in, blocks out.

use std::collections::BTreeMap;

use crate::block::{Block, BlockId, Blocks, Use};
use crate::driver::Driver;
use crate::mempool::MempoolId;
use crate::pool::Pool;
use crate::settings::Settings;
use crate::size::{SMALL_REQUEST, block_size, segment_size, should_split, whole_pieces};
use crate::statistics::Statistics;

pub(crate) const SMALL_POOL: u32 = 0;
pub(crate) const LARGE_POOL: u32 = 1;

/// What happened between the allocator and the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SegmentAction {
    /// `cudaMalloc` returned a segment.
    Allocate,
    /// A segment went back through `cudaFree`.
    Free,
    /// Pages of an expandable segment got memory.
    Map,
    /// Pages of an expandable segment gave their memory back.
    Unmap,
}

/// Memory taken from the driver or given back to it: one segment event of a PyTorch memory trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentChange {
    /// What happened.
    pub action: SegmentAction,
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
    /// Whether sizes are rounded to steps between powers of two.
    pub(crate) has_divisions: bool,
    pub(crate) driver: D,
    pub(crate) blocks: Blocks,
    pub(crate) pools: Vec<Pool>,
    pub(crate) expandable: Vec<ExpandableSegment>,
    pub(crate) freeable_pools: Vec<MempoolId>,
    pub(crate) pending: BTreeMap<u64, BlockId>,
    next_pending: u64,
    pub(crate) statistics: Statistics,
    /// Whether of all that changes with each request only the sum of `allocated_bytes` is kept.
    pub(crate) is_brief: bool,
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
            has_divisions: settings.roundup_power2_divisions.iter().any(|divisions| *divisions > 1),
            settings,
            driver,
            blocks: Blocks::default(),
            pools: vec![Pool::new(true, MempoolId::DEFAULT), Pool::new(false, MempoolId::DEFAULT)],
            expandable: Vec::new(),
            freeable_pools: Vec::new(),
            pending: BTreeMap::new(),
            next_pending: 0,
            statistics: Statistics::default(),
            is_brief: false,
            changes: Vec::new(),
        }
    }

    /// One that counts less with each request: of [`Allocator::statistics`] only what concerns segments, and the sum of
    /// `allocated_bytes`, hold.
    pub fn brief(settings: Settings, driver: D) -> Allocator<D> {
        let mut allocator = Allocator::new(settings, driver);
        allocator.is_brief = true;
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
    #[inline]
    pub fn allocate(&mut self, requested: u64, stream: u64, owner: MempoolId) -> Result<BlockId, OutOfMemory> {
        match self.allocate_cached(requested, stream, owner) {
            Some(id) => Ok(id),
            None => self.allocate_otherwise(requested, stream, owner),
        }
    }

    /// The same from the cache alone, where no segment is expandable; `None` where it has no block for the request.
    pub fn allocate_cached(&mut self, requested: u64, stream: u64, owner: MempoolId) -> Option<BlockId> {
        let size = self.block_size(requested);
        let pool = self.pool_for(size, owner);
        if self.collects_garbage() {
            self.pools[pool as usize].searches += 1;
        }
        self.take_cached(pool, stream, size, requested)
    }

    /// The block size that serves a request.
    #[inline]
    pub(crate) fn block_size(&self, requested: u64) -> u64 {
        if self.has_divisions { block_size(requested, &self.settings) } else { whole_pieces(requested) }
    }

    /// From the cache where there are expandable segments, or from the driver.
    #[cold]
    fn allocate_otherwise(&mut self, requested: u64, stream: u64, owner: MempoolId) -> Result<BlockId, OutOfMemory> {
        let size = self.block_size(requested);
        let pool = self.pool_for(size, owner);
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

    /// The way to a block that the cache does not have.
    fn obtain(&mut self, search: Search, owner: MempoolId) -> Option<BlockId> {
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
        if owner != MempoolId::DEFAULT {
            return None;
        }
        self.empty_cache();
        self.ask_driver(search, true)
    }

    fn out_of_memory(&self, requested: u64, search: Search) -> OutOfMemory {
        let private = self.pools.iter().filter(|pool| pool.owner != MempoolId::DEFAULT);
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
    #[inline]
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
        let size = block.size;
        if self.is_brief {
            self.statistics.let_go_briefly(size);
            return;
        }
        let is_small = self.pools[block.pool as usize].is_small;
        self.statistics.let_go(is_small, size, size >= self.settings.max_split_size);
    }

    /// The pool of `owner` that serves blocks of `size` bytes, made now if `owner` has none yet.
    pub(crate) fn pool_for(&mut self, size: u64, owner: MempoolId) -> u32 {
        self.pool_of(size <= SMALL_REQUEST, owner)
    }

    /// The small or the large pool of `owner`, made now if `owner` has none yet.
    pub(crate) fn pool_of(&mut self, is_small: bool, owner: MempoolId) -> u32 {
        if owner == MempoolId::DEFAULT {
            return if is_small { SMALL_POOL } else { LARGE_POOL };
        }
        let known = self.pools.iter().position(|pool| pool.owner == owner && pool.is_small == is_small);
        let index = known.unwrap_or_else(|| {
            self.pools.push(Pool::new(is_small, owner));
            self.pools.len() - 1
        });
        u32::try_from(index).expect("fewer than 2^32 pools")
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
        self.record(SegmentAction::Allocate, address, search.segment, search.stream);
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

    pub(crate) fn record(&mut self, action: SegmentAction, address: u64, size: u64, stream: u64) {
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
