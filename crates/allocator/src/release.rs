//! Giving memory back to the driver: `empty_cache`, the steps before an out-of-memory error, garbage collection.

use crate::allocator::{Allocator, BlockRequest, LARGE_POOL, SMALL_POOL, SegmentAction};
use crate::block::BlockId;
use crate::driver::Driver;
use crate::mempool::MempoolId;
use crate::pool::{Pool, SizeKey};

impl<D: Driver> Allocator<D> {
    /// `torch.cuda.empty_cache`: completes pending frees, then gives back every segment that is wholly free.
    pub fn empty_cache(&mut self) {
        self.statistics.sync_all_streams += 1;
        for id in std::mem::take(&mut self.pending).into_values() {
            self.return_to_cache(id);
        }
        self.release_pool(LARGE_POOL);
        self.release_pool(SMALL_POOL);
        for owner in self.freeable_pools.clone() {
            for is_small in [true, false] {
                let index = self.pools.iter().position(|pool| pool.owner == owner && pool.is_small == is_small);
                if let Some(index) = index {
                    self.release_pool(index as u32);
                }
            }
        }
    }

    /// Lets `empty_cache` give back a private pool that nothing uses any more (its CUDA graph was destroyed).
    pub fn make_freeable(&mut self, owner: MempoolId) {
        if owner != MempoolId::DEFAULT && !self.freeable_pools.contains(&owner) {
            self.freeable_pools.push(owner);
        }
    }

    fn release_pool(&mut self, pool: u32) {
        let mut expandable = Vec::new();
        let mut whole = Vec::new();
        for (key, id) in self.pools[pool as usize].free.iter() {
            let block = &self.blocks[id];
            if block.expandable.is_some() {
                expandable.push(id);
            } else if !block.is_split() {
                whole.push((key, id));
            }
        }
        for (key, id) in whole {
            self.release_segment(pool, key, id);
        }
        for id in expandable {
            if self.unmap(id) && !self.blocks[id].is_split() {
                let block = self.blocks[id];
                self.pools[pool as usize].unmapped.remove(&(block.stream, block.address));
                self.blocks.delete(id);
            }
        }
    }

    /// Gives back one segment that is wholly free.
    pub(crate) fn release_segment(&mut self, pool: u32, key: SizeKey, id: BlockId) {
        let (stream, size, address) = key;
        self.statistics.device_free += 1;
        self.record(SegmentAction::Free, address, size, stream);
        self.driver.free(address, size);
        let is_small = self.pools[pool as usize].is_small;
        self.statistics.segment.decrease(is_small, 1);
        self.statistics.reserved_bytes.decrease(is_small, size);
        if size >= self.settings.max_split_size {
            self.statistics.oversize_segments.decrease(1);
        }
        self.pools[pool as usize].free.remove(&key);
        self.blocks.delete(id);
    }

    /// Gives back unsplittable free blocks, just enough for the request. Does nothing unless `max_split_size` is set.
    pub(crate) fn release_oversize(&mut self, request: BlockRequest) -> bool {
        let limit = self.settings.max_split_size;
        if limit == u64::MAX {
            return false;
        }
        let wanted = request.size.max(limit);
        let is_releasable = |allocator: &Self, id: BlockId| allocator.blocks[id].expandable.is_none();
        let pool = &self.pools[request.pool as usize];
        let best = pool.fits(request.stream, wanted).next();
        if let Some((key, id)) = best
            && is_releasable(self, id)
        {
            self.release_segment(request.pool, key, id);
            return true;
        }
        let mut released = 0;
        let candidates: Vec<(SizeKey, BlockId)> = pool
            .free
            .before((request.stream, wanted, 0))
            .take_while(|(key, _)| key.0 == request.stream && key.1 >= limit)
            .collect();
        for (key, id) in candidates {
            if released >= wanted {
                break;
            }
            if is_releasable(self, id) {
                released += key.1;
                self.release_segment(request.pool, key, id);
            }
        }
        released >= wanted
    }

    /// Gives back segments of the large pool that have been free for longer than average, while more than the threshold
    /// is reserved.
    pub(crate) fn collect_garbage(&mut self) {
        let Some(cap) = self.settings.cap else { return };
        let threshold = (self.settings.garbage_collection_threshold * cap as f64) as u64;
        if self.reserved_bytes() <= threshold {
            return;
        }
        let target = self.reserved_bytes() - threshold;
        let age = |allocator: &Self, id: BlockId| {
            allocator.pools[LARGE_POOL as usize].searches - allocator.blocks[id].cached_at
        };
        let free_segments = |allocator: &Self| -> Vec<(SizeKey, BlockId)> {
            let free = &allocator.pools[LARGE_POOL as usize].free;
            free.iter().filter(|&(_, id)| !allocator.blocks[id].is_split()).collect()
        };
        let candidates = free_segments(self);
        let mut count = candidates.len() as u64;
        let mut total_age: u64 = candidates.iter().map(|&(_, id)| age(self, id)).sum();
        let mut released = 0;
        let mut has_freed = true;
        while released < target && has_freed && count > 0 {
            let mean_age = total_age as f64 / count as f64;
            has_freed = false;
            for (key, id) in free_segments(self) {
                let block_age = age(self, id);
                if self.blocks[id].expandable.is_none() && block_age as f64 >= mean_age {
                    has_freed = true;
                    released += key.1;
                    total_age -= block_age;
                    count -= 1;
                    self.release_segment(LARGE_POOL, key, id);
                }
            }
        }
    }

    /// Gives one segment back to the driver, as a recording shows it. False where no wholly free segment of this size
    /// is at `address`.
    pub fn release_segment_at(&mut self, address: u64, size: u64, stream: u64) -> bool {
        let key = (stream, size, address);
        let found = self.pools.iter().find_map(|pool| pool.free.get(key));
        let Some(id) = found else { return false };
        let block = self.blocks[id];
        if block.is_split() || block.expandable.is_some() {
            return false;
        }
        self.release_segment(block.pool, key, id);
        true
    }

    /// Gives pages of an expandable segment back to the driver, as a recording shows it. False where these are not
    /// exactly the whole pages of a free block.
    pub fn unmap_at(&mut self, address: u64, size: u64, stream: u64) -> bool {
        let end = address.saturating_add(size);
        let large_enough = |pool: &Pool| pool.free.from((stream, size, 0)).map(|(_, id)| id).collect::<Vec<_>>();
        let found = self.pools.iter().flat_map(large_enough).find(|&id| {
            let block = &self.blocks[id];
            block.expandable.is_some() && block.address <= address && block.address + block.size >= end
        });
        let Some(id) = found else { return false };
        self.clear_changes();
        self.unmap(id) && self.changes.last().is_some_and(|change| (change.address, change.size) == (address, size))
    }
}
