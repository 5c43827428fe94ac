//! CUDA as a recording remembers it: it answers with the recorded addresses, in the recorded order.

use std::collections::VecDeque;

use vramfit_allocator::Driver;

/// Where segments are put that the recording does not have: no GPU's address space reaches there.
const INVENTED_ADDRESSES: u64 = 1 << 60;
/// Address space of an expandable segment; a snapshot does not tell the GPU's size.
const ADDRESS_SPACE: u64 = 1 << 44;

/// Memory a recording shows as coming from the driver, not yet asked for by the allocator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gain {
    pub address: u64,
    pub size: u64,
}

/// A driver that gives what was recorded.
#[derive(Clone, Debug)]
pub(crate) struct RecordedDriver {
    /// What the recording shows before the next allocation.
    pub gains: VecDeque<Gain>,
    /// How often the allocator asked for memory that the recording does not show.
    pub invented: u64,
    next_invented: u64,
}

impl RecordedDriver {
    pub fn new() -> RecordedDriver {
        RecordedDriver { gains: VecDeque::new(), invented: 0, next_invented: INVENTED_ADDRESSES }
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
        match self.gains.front() {
            Some(gain) if gain.size == size => self.gains.pop_front().map(|gain| gain.address),
            _ => Some(self.invent(size)),
        }
    }

    fn free(&mut self, _address: u64, _size: u64) {}

    fn reserve_addresses(&mut self, _page: u64) -> (u64, u64) {
        match self.gains.front() {
            Some(gain) => (gain.address, ADDRESS_SPACE),
            None => (self.invent(ADDRESS_SPACE), ADDRESS_SPACE),
        }
    }

    fn map(&mut self, address: u64, size: u64) -> bool {
        if self.gains.front() == Some(&Gain { address, size }) {
            self.gains.pop_front();
        } else {
            self.invented += 1;
        }
        true
    }

    fn unmap(&mut self, _address: u64, _size: u64) {}
}
