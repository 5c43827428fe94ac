//! CUDA as a recording shows it: the recorded addresses, in the recorded order.

use std::collections::VecDeque;

use vramfit_allocator::Driver;

/// Where memory is put that the recording does not have: no GPU's address space reaches there.
const INVENTED_ADDRESSES: u64 = 1 << 60;
/// Address space of an expandable segment; a snapshot does not record the GPU's size.
const ADDRESS_SPACE: u64 = 1 << 44;

/// Memory that the driver returned in the recording: a segment, or pages of an expandable one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordedMemory {
    pub address: u64,
    pub size: u64,
}

/// A driver that returns what was recorded.
#[derive(Clone, Debug)]
pub(crate) struct RecordedDriver {
    /// What the recording shows and the allocator has not requested yet.
    pub upcoming: VecDeque<RecordedMemory>,
    /// How often the allocator requested memory that the recording does not show.
    pub invented: u64,
    next_invented: u64,
}

impl RecordedDriver {
    pub fn new() -> RecordedDriver {
        RecordedDriver { upcoming: VecDeque::new(), invented: 0, next_invented: INVENTED_ADDRESSES }
    }

    fn invent(&mut self, span: u64) -> u64 {
        self.invented += 1;
        let address = self.next_invented;
        self.next_invented = self.next_invented.saturating_add(span.next_multiple_of(2 << 20));
        address
    }
}

impl Driver for RecordedDriver {
    fn allocate(&mut self, size: u64) -> Option<u64> {
        match self.upcoming.front() {
            Some(memory) if memory.size == size => self.upcoming.pop_front().map(|memory| memory.address),
            _ => Some(self.invent(size)),
        }
    }

    fn free(&mut self, _address: u64, _size: u64) {}

    fn reserve_addresses(&mut self, _page: u64) -> (u64, u64) {
        match self.upcoming.front() {
            Some(memory) => (memory.address, ADDRESS_SPACE),
            None => (self.invent(ADDRESS_SPACE), ADDRESS_SPACE),
        }
    }

    fn map(&mut self, address: u64, size: u64) -> bool {
        if self.upcoming.front() == Some(&RecordedMemory { address, size }) {
            self.upcoming.pop_front();
        } else {
            self.invented += 1;
        }
        true
    }

    fn unmap(&mut self, _address: u64, _size: u64) {}
}
