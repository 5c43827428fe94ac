//! The state machine: requests in, blocks out.

use std::collections::BTreeMap;

use crate::block::{Block, BlockId, BlockUse, Blocks};
use crate::driver::Driver;
use crate::mempool::MempoolId;
use crate::pool::Pool;
use crate::settings::Settings;
use crate::size::{SMALL_REQUEST, block_size, round_to_blocks, segment_size, should_split};
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

/// An allocation that failed, with the numbers of PyTorch's message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfMemory {
    /// Bytes the program requested.
    pub requested: u64,
    /// Bytes of the block it needed.
    pub block: u64,
    /// Bytes requested from the driver.
    pub segment: u64,
    /// Bytes the program holds.
    pub allocated: u64,
    /// Bytes taken from the driver.
    pub reserved: u64,
    /// Free bytes in private pools, which the default pool cannot use.
    pub in_private_pools: u64,
    /// [`Settings::cap`].
    pub cap: Option<u64>,
}

/// A free that waits for other streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PendingFree(u64);

/// One device's caching allocator.
#[derive(Clone, Debug)]
pub struct Allocator<D> {
    pub(crate) settings: Settings,
    /// Whether `roundup_power2_divisions` is set.
    pub(crate) has_divisions: bool,
    pub(crate) driver: D,
    pub(crate) blocks: Blocks,
    pub(crate) pools: Vec<Pool>,
    pub(crate) expandable: Vec<ExpandableSegment>,
    pub(crate) freeable_pools: Vec<MempoolId>,
    pub(crate) pending: BTreeMap<u64, BlockId>,
    next_pending: u64,
    pub(crate) statistics: Statistics,
    /// Whether only the statistics of segments and the sum of `allocated_bytes` are kept.
    pub(crate) has_reduced_statistics: bool,
    pub(crate) changes: Vec<SegmentChange>,
}

/// Address space that gets memory page by page.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ExpandableSegment {
    pub base: u64,
    pub page: u64,
}

/// A request with its sizes and its pool.
#[derive(Clone, Copy)]
pub(crate) struct BlockRequest {
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
            has_reduced_statistics: false,
            changes: Vec::new(),
        }
    }

    /// A faster allocator, which keeps only part of [`Allocator::statistics`]: what concerns segments, and the sum of
    /// `allocated_bytes`.
    pub fn with_reduced_statistics(settings: Settings, driver: D) -> Allocator<D> {
        let mut allocator = Allocator::new(settings, driver);
        allocator.has_reduced_statistics = true;
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

    /// Bytes in blocks that the program holds.
    pub fn allocated_bytes(&self) -> u64 {
        self.statistics.allocated_bytes.all.current
    }

    /// Bytes taken from the driver.
    pub fn reserved_bytes(&self) -> u64 {
        self.statistics.reserved_bytes.all.current
    }

    /// The driver that the allocator takes memory from.
    pub fn driver(&mut self) -> &mut D {
        &mut self.driver
    }

    /// A block. Its number is valid while the program holds it.
    pub fn block(&self, id: BlockId) -> &Block {
        &self.blocks[id]
    }

    /// What was taken from the driver or given back since the last call, in order.
    pub fn take_changes(&mut self) -> Vec<SegmentChange> {
        std::mem::take(&mut self.changes)
    }

    /// Drops what [`Allocator::take_changes`] would return.
    pub fn clear_changes(&mut self) {
        self.changes.clear();
    }

    /// A block of at least `requested` bytes on `stream`, from `owner`'s pool.
    ///
    /// # Errors
    /// Out of memory: the driver or the cap refuses even after the cache was given back.
    #[inline]
    pub fn allocate(&mut self, requested: u64, stream: u64, owner: MempoolId) -> Result<BlockId, OutOfMemory> {
        match self.allocate_cached(requested, stream, owner) {
            Some(id) => Ok(id),
            None => self.allocate_uncached(requested, stream, owner),
        }
    }

    /// The same from free blocks alone. `None` where there is none that fits, or where there are expandable segments.
    pub fn allocate_cached(&mut self, requested: u64, stream: u64, owner: MempoolId) -> Option<BlockId> {
        let size = self.block_size(requested);
        let pool = self.pool_for(size, owner);
        if self.collects_garbage() {
            self.pools[pool as usize].searches += 1;
        }
        self.take_cached(pool, stream, size, requested)
    }

    #[inline]
    pub(crate) fn block_size(&self, requested: u64) -> u64 {
        if self.has_divisions { block_size(requested, &self.settings) } else { round_to_blocks(requested) }
    }

    /// From free blocks where there are expandable segments, or from the driver.
    #[cold]
    fn allocate_uncached(&mut self, requested: u64, stream: u64, owner: MempoolId) -> Result<BlockId, OutOfMemory> {
        let size = self.block_size(requested);
        let pool = self.pool_for(size, owner);
        let request = BlockRequest { pool, stream, size, segment: segment_size(size, &self.settings) };
        let found = self.take_expandable(request).or_else(|| self.allocate_from_driver(request, owner));
        match found {
            Some(found) => Ok(self.assign(found, request, requested)),
            None => {
                self.statistics.ooms += 1;
                Err(self.out_of_memory(requested, request))
            }
        }
    }

    /// A block from the driver, after the steps that PyTorch takes to make room.
    fn allocate_from_driver(&mut self, request: BlockRequest, owner: MempoolId) -> Option<BlockId> {
        if self.collects_garbage() {
            self.collect_garbage();
        }
        if let Some(found) = self.request_segment(request, false) {
            return Some(found);
        }
        if self.release_oversize(request)
            && let Some(found) = self.request_segment(request, false)
        {
            return Some(found);
        }
        // A private pool is filled during the capture of a CUDA graph, when the cache must not be emptied.
        if owner != MempoolId::DEFAULT {
            return None;
        }
        self.empty_cache();
        self.request_segment(request, true)
    }

    fn out_of_memory(&self, requested: u64, request: BlockRequest) -> OutOfMemory {
        let private = self.pools.iter().filter(|pool| pool.owner != MempoolId::DEFAULT);
        OutOfMemory {
            requested,
            block: request.size,
            segment: request.segment,
            allocated: self.allocated_bytes(),
            reserved: self.reserved_bytes(),
            in_private_pools: private.flat_map(|pool| pool.free.iter()).map(|(key, _)| key.1).sum(),
            cap: self.settings.cap,
        }
    }

    /// Frees a block; it can be used again at once.
    #[inline]
    pub fn free(&mut self, id: BlockId) {
        self.count_freed(id);
        self.return_to_cache(id);
    }

    /// Frees a block that other streams still use: it stays active until [`Allocator::complete_free`].
    pub fn request_free(&mut self, id: BlockId) -> PendingFree {
        self.count_freed(id);
        self.blocks[id].usage = BlockUse::Pending;
        self.next_pending += 1;
        self.pending.insert(self.next_pending, id);
        PendingFree(self.next_pending)
    }

    /// The other streams are done with the block. Does nothing if the cache was emptied meanwhile, since that waits for
    /// all streams.
    pub fn complete_free(&mut self, free: PendingFree) {
        if let Some(id) = self.pending.remove(&free.0) {
            self.return_to_cache(id);
        }
    }

    #[inline]
    fn count_freed(&mut self, id: BlockId) {
        let block = &self.blocks[id];
        let size = block.size;
        if self.has_reduced_statistics {
            self.statistics.allocated_bytes.all.decrease(size);
            return;
        }
        let is_small = self.pools[block.pool as usize].is_small;
        self.statistics.count_freed(is_small, size, size >= self.settings.max_split_size);
    }

    /// The pool of `owner` for blocks of `size` bytes.
    pub(crate) fn pool_for(&mut self, size: u64, owner: MempoolId) -> u32 {
        self.pool_of(size <= SMALL_REQUEST, owner)
    }

    /// The small or the large pool of `owner`, created if it does not exist yet.
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

    /// Requests a segment from the driver, or pages of an expandable one.
    fn request_segment(&mut self, request: BlockRequest, is_retry: bool) -> Option<BlockId> {
        if is_retry {
            self.statistics.alloc_retries += 1;
        }
        if let Some(cap) = self.settings.cap
            && self.reserved_bytes().saturating_add(request.segment) > cap
        {
            return None;
        }
        if self.settings.expandable_segments {
            return self.expand(request);
        }
        let address = self.driver.allocate(request.segment)?;
        Some(self.add_segment(address, request))
    }

    /// Adds a segment, as one block that is in no pool yet.
    pub(crate) fn add_segment(&mut self, address: u64, request: BlockRequest) -> BlockId {
        let is_small = self.pools[request.pool as usize].is_small;
        self.statistics.segment.increase(is_small, 1);
        self.statistics.reserved_bytes.increase(is_small, request.segment);
        if request.segment >= self.settings.max_split_size {
            self.statistics.oversize_segments.increase(1);
        }
        self.statistics.device_alloc += 1;
        self.record(SegmentAction::Allocate, address, request.segment, request.stream);
        self.blocks.insert(Block {
            address,
            size: request.segment,
            requested: 0,
            stream: request.stream,
            usage: BlockUse::Free,
            pool: request.pool,
            expandable: None,
            previous: None,
            next: None,
            cached_at: 0,
        })
    }

    pub(crate) fn record(&mut self, action: SegmentAction, address: u64, size: u64, stream: u64) {
        self.changes.push(SegmentChange { action, address, size, stream });
    }

    /// Allocates a block that is in no pool to the program, split where the rules allow it.
    pub(crate) fn assign(&mut self, id: BlockId, request: BlockRequest, requested: u64) -> BlockId {
        let block = &self.blocks[id];
        let is_small = self.pools[block.pool as usize].is_small;
        let is_split = should_split(&self.settings, is_small, block.size, request.size);
        self.assign_part(id, request.size, requested, is_split)
    }

    /// Allocates the first `size` bytes of a block that is in no pool, or all of it unless `is_split`.
    pub(crate) fn assign_part(&mut self, id: BlockId, size: u64, requested: u64, is_split: bool) -> BlockId {
        let found = &mut self.blocks[id];
        let (is_part, whole, next) = (found.is_split(), found.size, found.next);
        let is_small = self.pools[found.pool as usize].is_small;
        let was_split = found.expandable.is_none().then_some(is_part);
        found.usage = BlockUse::Allocated;
        found.requested = requested;
        if is_split {
            let rest = Block { address: found.address + size, size: whole - size, usage: BlockUse::Free, ..*found };
            found.size = size;
            let rest = self.blocks.insert(rest);
            self.blocks.splice(rest, Some(id), next);
            self.insert_free(rest);
        }
        let size = self.blocks[id].size;
        self.count_allocated(is_small, whole, size, requested, was_split);
        id
    }

    pub(crate) fn collects_garbage(&self) -> bool {
        self.settings.cap.is_some() && self.settings.garbage_collection_threshold > 0.0
    }
}
