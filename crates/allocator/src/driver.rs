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

/// A GPU that exists only as numbers: `capacity` bytes, and addresses in the order in which CUDA gives them out.
///
/// Seen in recordings on Linux: address space is taken in chunks of 32 MiB, each new chunk below all older ones; a
/// segment goes into the lowest hole of a chunk that holds it, and only where there is none into a new chunk. The order
/// of addresses decides which of two cached blocks of one size is taken first. (Where libraries have left holes in a
/// process's address space, real addresses stray from this.)
#[derive(Clone, Debug)]
pub struct SimulatedDriver {
    capacity: u64,
    used: u64,
    lowest: u64,
    known: BTreeMap<u64, u64>,
    holes: BTreeMap<u64, u64>,
}

/// Address space is taken in pieces of this size.
pub(crate) const CHUNK: u64 = 32 << 20;
/// Segments begin at multiples of this.
const GRANULARITY: u64 = 2 << 20;
/// All segments lie below.
const HIGHEST_ADDRESS: u64 = 1 << 62;
/// Address space for an expandable segment where the GPU's size is not known.
const ADDRESS_SPACE: u64 = 1 << 40;

impl SimulatedDriver {
    /// A GPU of `capacity` bytes.
    pub fn new(capacity: u64) -> SimulatedDriver {
        SimulatedDriver { capacity, used: 0, lowest: HIGHEST_ADDRESS, known: BTreeMap::new(), holes: BTreeMap::new() }
    }

    /// A GPU that never refuses.
    pub fn unlimited() -> SimulatedDriver {
        SimulatedDriver::new(u64::MAX)
    }

    /// Tells of address space that is free to use: a recording shows that segments have lain there. What is known
    /// already stays as it is.
    pub fn reveal(&mut self, begin: u64, end: u64) {
        if self.known.is_empty() {
            self.lowest = begin;
        }
        let mut cursor = begin;
        while cursor < end {
            let around = self.known.range(..=cursor).next_back().map(|(_, &known_end)| known_end);
            if let Some(known_end) = around.filter(|&known_end| known_end > cursor) {
                cursor = known_end;
                continue;
            }
            let next = self.known.range(cursor..).next().map_or(end, |(&next, _)| next.min(end));
            self.know(cursor, next);
            self.add_hole(cursor, next - cursor);
            cursor = next;
        }
        self.lowest = self.lowest.min(begin);
    }

    fn know(&mut self, begin: u64, end: u64) {
        self.known.insert(begin, end);
    }

    fn add_hole(&mut self, address: u64, size: u64) {
        let mut begin = address;
        let mut span = size;
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

    fn take(&mut self, size: u64) -> bool {
        match self.used.checked_add(size) {
            Some(used) if used <= self.capacity => {
                self.used = used;
                true
            }
            _ => false,
        }
    }

    /// The lowest hole that holds `span` bytes, or a new chunk below all others.
    fn place(&mut self, span: u64) -> Option<u64> {
        let hole = self.holes.iter().find(|&(_, &size)| size >= span).map(|(&address, &size)| (address, size));
        let (address, size) = match hole {
            Some(hole) => hole,
            None => {
                let chunk = span.checked_next_multiple_of(CHUNK)?;
                self.lowest = (self.lowest / CHUNK * CHUNK).checked_sub(chunk)?;
                self.know(self.lowest, self.lowest + chunk);
                (self.lowest, chunk)
            }
        };
        self.holes.remove(&address);
        if size > span {
            self.holes.insert(address + span, size - span);
        }
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
        self.add_hole(address, size.next_multiple_of(GRANULARITY));
    }

    fn reserve_addresses(&mut self, page: u64) -> (u64, u64) {
        let wanted = if self.capacity < ADDRESS_SPACE { self.capacity + self.capacity / 8 } else { ADDRESS_SPACE };
        let span = wanted.next_multiple_of(page.max(1));
        self.lowest = self.lowest.saturating_sub(span.next_multiple_of(CHUNK));
        self.know(self.lowest, self.lowest + span);
        (self.lowest, span)
    }

    fn map(&mut self, _address: u64, size: u64) -> bool {
        self.take(size)
    }

    fn unmap(&mut self, _address: u64, size: u64) {
        self.used -= size;
    }
}
