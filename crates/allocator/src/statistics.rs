//! The numbers of `torch.cuda.memory_stats`.

/// One number with its history.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistic {
    /// The current value.
    pub current: u64,
    /// The highest value so far.
    pub peak: u64,
    /// The sum of all increases.
    pub allocated: u64,
}

impl Statistic {
    #[inline]
    pub(crate) fn increase(&mut self, amount: u64) {
        self.current += amount;
        self.peak = self.peak.max(self.current);
        self.allocated = self.allocated.wrapping_add(amount);
    }

    #[inline]
    pub(crate) fn decrease(&mut self, amount: u64) {
        self.current -= amount;
    }

    /// The sum of all decreases.
    pub fn freed(&self) -> u64 {
        self.allocated.wrapping_sub(self.current)
    }

    fn reset_peak(&mut self) {
        self.peak = self.current;
    }
}

/// A statistic in total and by pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ByPool {
    /// The small and the large pools together.
    pub all: Statistic,
    /// The small pools.
    pub small_pool: Statistic,
    /// The large pools.
    pub large_pool: Statistic,
}

impl ByPool {
    #[inline]
    fn of(&mut self, is_small: bool) -> &mut Statistic {
        if is_small { &mut self.small_pool } else { &mut self.large_pool }
    }

    #[inline]
    pub(crate) fn increase(&mut self, is_small: bool, amount: u64) {
        self.all.increase(amount);
        self.of(is_small).increase(amount);
    }

    #[inline]
    pub(crate) fn decrease(&mut self, is_small: bool, amount: u64) {
        self.all.decrease(amount);
        self.of(is_small).decrease(amount);
    }

    #[inline]
    pub(crate) fn change(&mut self, is_small: bool, amount: i64) {
        match amount {
            0.. => self.increase(is_small, amount.unsigned_abs()),
            _ => self.decrease(is_small, amount.unsigned_abs()),
        }
    }

    fn reset_peak(&mut self) {
        self.all.reset_peak();
        self.small_pool.reset_peak();
        self.large_pool.reset_peak();
    }
}

/// What `torch.cuda.memory_stats` reports for one device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// How many blocks the program holds.
    pub allocation: ByPool,
    /// How many segments come from `cudaMalloc`; expandable segments do not count.
    pub segment: ByPool,
    /// How many blocks the program holds or other streams still use.
    pub active: ByPool,
    /// How many free blocks are in a segment with blocks in use, so that they cannot be given back.
    pub inactive_split: ByPool,
    /// Bytes of the blocks that the program holds.
    pub allocated_bytes: ByPool,
    /// Bytes taken from the driver.
    pub reserved_bytes: ByPool,
    /// Bytes of active blocks.
    pub active_bytes: ByPool,
    /// Bytes of inactive split blocks.
    pub inactive_split_bytes: ByPool,
    /// Bytes that the program requested, of active blocks.
    pub requested_bytes: ByPool,
    /// Blocks at least as large as `max_split_size`.
    pub oversize_allocations: Statistic,
    /// Segments at least as large as `max_split_size`.
    pub oversize_segments: Statistic,
    /// How often the cache was emptied because the driver or the cap refused.
    pub alloc_retries: u64,
    /// How often even that did not help.
    pub ooms: u64,
    /// How often the allocator waited for all streams.
    pub sync_all_streams: u64,
    /// How often memory was taken from the driver.
    pub device_alloc: u64,
    /// How often memory was given back to it.
    pub device_free: u64,
}

impl Statistics {
    /// Counts a block that the program gets.
    pub(crate) fn count_allocated(&mut self, is_small: bool, size: u64, requested: u64, is_oversize: bool) {
        self.allocation.increase(is_small, 1);
        self.allocated_bytes.increase(is_small, size);
        self.active.increase(is_small, 1);
        self.active_bytes.increase(is_small, size);
        self.requested_bytes.increase(is_small, requested);
        if is_oversize {
            self.oversize_allocations.increase(1);
        }
    }

    /// Counts a block that the program frees; it may still be active.
    pub(crate) fn count_freed(&mut self, is_small: bool, size: u64, is_oversize: bool) {
        self.allocation.decrease(is_small, 1);
        self.allocated_bytes.decrease(is_small, size);
        if is_oversize {
            self.oversize_allocations.decrease(1);
        }
    }

    /// Counts a block that is not active any more.
    pub(crate) fn count_inactive(&mut self, is_small: bool, size: u64, requested: u64) {
        self.active.decrease(is_small, 1);
        self.active_bytes.decrease(is_small, size);
        self.requested_bytes.decrease(is_small, requested);
    }

    /// Adds to the inactive split blocks and their bytes.
    pub(crate) fn change_split(&mut self, is_small: bool, blocks: i64, bytes: i64) {
        self.inactive_split.change(is_small, blocks);
        self.inactive_split_bytes.change(is_small, bytes);
    }

    /// `torch.cuda.reset_peak_memory_stats`: every peak becomes the current value.
    pub fn reset_peaks(&mut self) {
        for (_, statistic) in self.by_pool_mut() {
            statistic.reset_peak();
        }
        self.oversize_allocations.reset_peak();
        self.oversize_segments.reset_peak();
    }

    /// The same current values with no history before them.
    pub(crate) fn as_beginning(&self) -> Statistics {
        let mut fresh = Statistics::default();
        for ((_, fresh), (_, old)) in fresh.by_pool_mut().into_iter().zip(self.by_pool()) {
            fresh.increase(true, old.small_pool.current);
            fresh.increase(false, old.large_pool.current);
        }
        fresh.oversize_allocations.increase(self.oversize_allocations.current);
        fresh.oversize_segments.increase(self.oversize_segments.current);
        fresh
    }

    /// The statistics by pool, with PyTorch's names, in the order of `memory_summary`.
    pub fn by_pool(&self) -> [(&'static str, &ByPool); 9] {
        [
            ("allocated_bytes", &self.allocated_bytes),
            ("active_bytes", &self.active_bytes),
            ("requested_bytes", &self.requested_bytes),
            ("reserved_bytes", &self.reserved_bytes),
            ("inactive_split_bytes", &self.inactive_split_bytes),
            ("allocation", &self.allocation),
            ("active", &self.active),
            ("segment", &self.segment),
            ("inactive_split", &self.inactive_split),
        ]
    }

    fn by_pool_mut(&mut self) -> [(&'static str, &mut ByPool); 9] {
        [
            ("allocated_bytes", &mut self.allocated_bytes),
            ("active_bytes", &mut self.active_bytes),
            ("requested_bytes", &mut self.requested_bytes),
            ("reserved_bytes", &mut self.reserved_bytes),
            ("inactive_split_bytes", &mut self.inactive_split_bytes),
            ("allocation", &mut self.allocation),
            ("active", &mut self.active),
            ("segment", &mut self.segment),
            ("inactive_split", &mut self.inactive_split),
        ]
    }

    /// All numbers with the keys of `torch.cuda.memory_stats`, except `max_split_size`.
    pub fn flat(&self) -> Vec<(String, u64)> {
        let mut rows = Vec::new();
        let mut push = |name: &str, statistic: &Statistic| {
            rows.push((format!("{name}.current"), statistic.current));
            rows.push((format!("{name}.peak"), statistic.peak));
            rows.push((format!("{name}.allocated"), statistic.allocated));
            rows.push((format!("{name}.freed"), statistic.freed()));
        };
        for (name, statistic) in self.by_pool() {
            push(&format!("{name}.all"), &statistic.all);
            push(&format!("{name}.small_pool"), &statistic.small_pool);
            push(&format!("{name}.large_pool"), &statistic.large_pool);
        }
        push("oversize_allocations", &self.oversize_allocations);
        push("oversize_segments", &self.oversize_segments);
        rows.extend([
            ("num_alloc_retries".into(), self.alloc_retries),
            ("num_ooms".into(), self.ooms),
            ("num_sync_all_streams".into(), self.sync_all_streams),
            ("num_device_alloc".into(), self.device_alloc),
            ("num_device_free".into(), self.device_free),
        ]);
        rows
    }
}
