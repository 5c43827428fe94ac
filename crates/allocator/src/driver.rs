//! What the allocator asks of CUDA: memory, and addresses for it.

use std::collections::BTreeMap;

/// CUDA, as far as the allocator sees it.
pub trait Driver {
    /// `cudaMalloc`: the address of a new segment, or a refusal.
    fn allocate(&mut self, size: u64) -> Option<u64>;

    /// `cudaFree`.
    fn free(&mut self, address: u64, size: u64);

    /// `cuMemAddressReserve`: where an expandable segment begins, and for how many bytes it has address space.
    fn reserve_addresses(&mut self, page: u64) -> (u64, u64);

    /// `cuMemCreate` and `cuMemMap`: puts memory behind a range of an expandable segment; false is a refusal.
    fn map(&mut self, address: u64, size: u64) -> bool;

    /// `cuMemUnmap`.
    fn unmap(&mut self, address: u64, size: u64);
}

/// A GPU that exists only as numbers: `capacity` bytes, addresses given out from low to high.
///
/// A freed range is given out again, the lowest that fits first, so that addresses stay in the order in which a real
/// driver hands them out as far as best fit can tell.
#[derive(Clone, Debug)]
pub struct SimulatedDriver {
    capacity: u64,
    used: u64,
    next: u64,
    holes: BTreeMap<u64, u64>,
}

/// Address space is cut in pieces of this size.
const GRANULARITY: u64 = 2 << 20;
/// Where the first segment lies.
const FIRST_ADDRESS: u64 = 0x7000_0000_0000;
/// Address space for an expandable segment where the GPU's size is not known.
const ADDRESS_SPACE: u64 = 1 << 40;

impl SimulatedDriver {
    /// A GPU of `capacity` bytes.
    pub fn new(capacity: u64) -> SimulatedDriver {
        SimulatedDriver { capacity, used: 0, next: FIRST_ADDRESS, holes: BTreeMap::new() }
    }

    /// A GPU that never refuses.
    pub fn unlimited() -> SimulatedDriver {
        SimulatedDriver::new(u64::MAX)
    }

    fn take(&mut self, size: u64) -> bool {
        match self.used.checked_add(size) {
            Some(used) if used <= self.capacity => {
                self.used = used;
                true
            }
            _ => false,
        }
    }

    fn place(&mut self, span: u64) -> Option<u64> {
        let hole = self.holes.iter().find(|&(_, &size)| size >= span).map(|(&address, &size)| (address, size));
        if let Some((address, size)) = hole {
            self.holes.remove(&address);
            if size > span {
                self.holes.insert(address + span, size - span);
            }
            return Some(address);
        }
        let address = self.next;
        self.next = address.checked_add(span)?;
        Some(address)
    }
}

impl Driver for SimulatedDriver {
    fn allocate(&mut self, size: u64) -> Option<u64> {
        if !self.take(size) {
            return None;
        }
        let address = self.place(size.checked_next_multiple_of(GRANULARITY)?);
        if address.is_none() {
            self.used -= size;
        }
        address
    }

    fn free(&mut self, address: u64, size: u64) {
        self.used -= size;
        let mut begin = address;
        let mut span = size.next_multiple_of(GRANULARITY);
        if let Some((&before, &before_span)) = self.holes.range(..begin).next_back()
            && before + before_span == begin
        {
            self.holes.remove(&before);
            begin = before;
            span += before_span;
        }
        if let Some(after_span) = self.holes.remove(&(begin + span)) {
            span += after_span;
        }
        self.holes.insert(begin, span);
    }

    fn reserve_addresses(&mut self, page: u64) -> (u64, u64) {
        let wanted = if self.capacity < ADDRESS_SPACE { self.capacity + self.capacity / 8 } else { ADDRESS_SPACE };
        let span = wanted.next_multiple_of(page.max(1));
        let address = self.next;
        self.next = self.next.saturating_add(span.next_multiple_of(GRANULARITY));
        (address, span)
    }

    fn map(&mut self, _address: u64, size: u64) -> bool {
        self.take(size)
    }

    fn unmap(&mut self, _address: u64, size: u64) {
        self.used -= size;
    }
}
