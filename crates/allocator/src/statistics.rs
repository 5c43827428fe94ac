//! The numbers of `torch.cuda.memory_stats`.

/// One number with its history.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistic {
    /// Now.
    pub current: u64,
    /// The most it has been.
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

/// A statistic over all pools and by pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ByPool {
    /// Both pools together.
    pub all: Statistic,
    /// Blocks of at most 1 MiB.
    pub small_pool: Statistic,
    /// The others.
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
            0 => {}
            1.. => self.increase(is_small, amount.unsigned_abs()),
            _ => self.decrease(is_small, amount.unsigned_abs()),
        }
    }

    fn reset_peak(&mut self) {
        self.all.reset_peak();
        self.small_pool.reset_peak();
        self.large_pool.reset_peak();
    }
}

/// Everything `torch.cuda.memory_stats` reports of one device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// How many blocks the program holds.
    pub allocation: ByPool,
    /// How many segments came from `cudaMalloc`; pages of expandable segments do not count.
    pub segment: ByPool,
    /// How many blocks the program holds or other streams still use.
    pub active: ByPool,
    /// How many cached blocks are parts of a segment that is in use, and so cannot be given back.
    pub inactive_split: ByPool,
    /// The blocks' bytes that the program holds.
    pub allocated_bytes: ByPool,
    /// Bytes taken from the driver.
    pub reserved_bytes: ByPool,
    /// Bytes of active blocks.
    pub active_bytes: ByPool,
    /// Bytes of inactive split blocks.
    pub inactive_split_bytes: ByPool,
    /// Bytes as the program asked for them, of active blocks.
    pub requested_bytes: ByPool,
    /// Blocks at least as large as `max_split_size`.
    pub oversize_allocations: Statistic,
    /// Segments at least as large as `max_split_size`.
    pub oversize_segments: Statistic,
    /// How often the cache was emptied because the driver had refused.
    pub alloc_retries: u64,
    /// How often even that did not help.
    pub ooms: u64,
    /// How often all streams were waited for.
    pub sync_all_streams: u64,
    /// How often memory was taken from the driver.
    pub device_alloc: u64,
    /// How often memory was given back to it.
    pub device_free: u64,
}

impl Statistics {
    /// The program gets a block: all that is counted where `is_brief`.
    #[inline]
    pub(crate) fn hand_out_briefly(&mut self, size: u64) {
        self.allocated_bytes.all.increase(size);
    }

    /// The program lets go of a block: all that is counted where `is_brief`.
    #[inline]
    pub(crate) fn let_go_briefly(&mut self, size: u64) {
        self.allocated_bytes.all.decrease(size);
    }

    /// The program gets a block.
    pub(crate) fn hand_out(&mut self, is_small: bool, size: u64, requested: u64, is_oversize: bool) {
        self.allocation.increase(is_small, 1);
        self.allocated_bytes.increase(is_small, size);
        self.active.increase(is_small, 1);
        self.active_bytes.increase(is_small, size);
        self.requested_bytes.increase(is_small, requested);
        if is_oversize {
            self.oversize_allocations.increase(1);
        }
    }

    /// The program lets go of a block.
    pub(crate) fn let_go(&mut self, is_small: bool, size: u64, is_oversize: bool) {
        self.allocation.decrease(is_small, 1);
        self.allocated_bytes.decrease(is_small, size);
        if is_oversize {
            self.oversize_allocations.decrease(1);
        }
    }

    /// A block comes back to the cache.
    pub(crate) fn come_back(&mut self, is_small: bool, size: u64, requested: u64) {
        self.active.decrease(is_small, 1);
        self.active_bytes.decrease(is_small, size);
        self.requested_bytes.decrease(is_small, requested);
    }

    /// There are so many cached parts of segments more, and so many bytes in them.
    pub(crate) fn change_split(&mut self, is_small: bool, blocks: i64, bytes: i64) {
        self.inactive_split.change(is_small, blocks);
        self.inactive_split_bytes.change(is_small, bytes);
    }

    /// As `torch.cuda.reset_peak_memory_stats`: every peak becomes the current value.
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

    /// The statistics that are kept by pool, with PyTorch's names, in `memory_summary`'s order.
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

    /// All numbers under the flat keys of `torch.cuda.memory_stats`, `max_split_size` aside.
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
