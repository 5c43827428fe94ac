//! What the allocator needs from CUDA: memory, and addresses for it.

use crate::address_space::{self, AddressSpace};

/// CUDA, as far as the allocator sees it.
pub trait Driver {
    /// `cudaMalloc`: the address of a new segment, or `None` if there is no memory.
    fn allocate(&mut self, size: u64) -> Option<u64>;

    /// `cudaFree`.
    fn free(&mut self, address: u64, size: u64);

    /// `cuMemAddressReserve`: address and size of the address space for an expandable segment.
    fn reserve_addresses(&mut self, page: u64) -> (u64, u64);

    /// `cuMemCreate` and `cuMemMap`: puts memory behind a range of an expandable segment; false if there is none.
    fn map(&mut self, address: u64, size: u64) -> bool;

    /// `cuMemUnmap`.
    fn unmap(&mut self, address: u64, size: u64);
}

/// A GPU of `capacity` bytes that assigns addresses in CUDA's order.
#[derive(Clone, Debug)]
pub struct SimulatedDriver {
    capacity: u64,
    used: u64,
    space: AddressSpace,
    host: u64,
    /// Free bytes of the last slab of small pinned blocks.
    slab: u64,
    /// Where segments go instead, whatever else uses addresses.
    sequence: Option<Sequence>,
}

/// Addresses in an order of their own, far enough apart for any segment.
#[derive(Clone, Copy, Debug)]
struct Sequence {
    next: u64,
    step: u64,
}

impl Sequence {
    /// How many addresses there are.
    const COUNT: u64 = 1 << 20;
    /// The distance between neighbours.
    const DISTANCE: u64 = HIGHEST_ADDRESS / Sequence::COUNT;

    fn take(&mut self) -> u64 {
        // Odd steps reach every address before one comes again.
        self.next = (self.next + self.step) % Sequence::COUNT;
        self.next * Sequence::DISTANCE
    }
}

/// Segments begin at multiples of this.
const GRANULARITY: u64 = 2 << 20;
/// All segments are below this address.
const HIGHEST_ADDRESS: u64 = 1 << 62;
/// Address space of an expandable segment where the GPU's size is not known.
const ADDRESS_SPACE: u64 = 1 << 40;

/// What a CUDA context holds at first, observed on an H200 (driver 580): two adjacent chunks. The first has 2 MiB free at
/// its end, after the local memory of kernels; the second has 24 MiB free at its end.
mod context {
    const MIB: u64 = 1 << 20;
    pub const BEGIN: u64 = 1 << 60;
    pub const LOCAL_MEMORY: u64 = 414 * MIB;
    pub const FIRST_CHUNK: u64 = 416 * MIB;
    pub const SECOND_CHUNK: u64 = 96 * MIB;
    pub const SECOND_HOLE: u64 = 24 * MIB;
    /// Local memory once it has grown.
    pub const GROWN_LOCAL_MEMORY: u64 = 506 * MIB;
}
/// Pinned host memory is in CUDA's address space too: smaller blocks share slabs of this size.
const SLAB: u64 = 2 << 20;
/// Pinned blocks begin at multiples of this.
const PINNED_GRANULARITY: u64 = 512;
/// Host memory is above CUDA's, because it was mapped first.
const HIGHEST_HOST_ADDRESS: u64 = 1 << 61;

impl SimulatedDriver {
    /// CUDA takes address space from the operating system in multiples of this.
    pub const CHUNK: u64 = address_space::CHUNK;

    /// A GPU of `capacity` bytes, in a process in which nothing else uses addresses.
    pub fn new(capacity: u64) -> SimulatedDriver {
        SimulatedDriver {
            capacity,
            used: 0,
            space: AddressSpace::new(HIGHEST_ADDRESS, false),
            host: HIGHEST_HOST_ADDRESS,
            slab: 0,
            sequence: None,
        }
    }

    /// A GPU with unlimited memory that gives every segment a higher address than the one before.
    pub fn ascending() -> SimulatedDriver {
        SimulatedDriver { sequence: Some(Sequence { next: 0, step: 1 }), ..SimulatedDriver::unlimited() }
    }

    /// A GPU with unlimited memory whose addresses are in no order: another one for each `seed`.
    pub fn scattered(seed: u64) -> SimulatedDriver {
        let step = (2 * seed + 1).wrapping_mul(0x9E37_79B9) | 1;
        SimulatedDriver { sequence: Some(Sequence { next: seed, step }), ..SimulatedDriver::unlimited() }
    }

    /// A GPU with unlimited memory.
    pub fn unlimited() -> SimulatedDriver {
        SimulatedDriver::new(u64::MAX)
    }

    /// A GPU of `capacity` bytes as a new process sees it: the CUDA context uses addresses too.
    pub fn in_process(capacity: u64) -> SimulatedDriver {
        use context::{BEGIN, FIRST_CHUNK, LOCAL_MEMORY, SECOND_CHUNK, SECOND_HOLE};
        let mut space = AddressSpace::new(BEGIN, true);
        // The upper one is older.
        let second = BEGIN + FIRST_CHUNK;
        space.add_chunk(second, SECOND_CHUNK, &[(second + SECOND_CHUNK - SECOND_HOLE, SECOND_HOLE)]);
        space.add_chunk(BEGIN, FIRST_CHUNK, &[(BEGIN + LOCAL_MEMORY, FIRST_CHUNK - LOCAL_MEMORY)]);
        SimulatedDriver { space, ..SimulatedDriver::new(capacity) }
    }

    /// The first kernel that needs more local memory makes CUDA allocate a larger one, and then free the old one.
    pub fn grow_local_memory(&mut self) {
        self.space.place(context::GROWN_LOCAL_MEMORY);
        self.space.free(context::BEGIN, context::LOCAL_MEMORY);
    }

    /// A library takes memory beside PyTorch's allocator, and keeps it.
    pub fn library_takes(&mut self, bytes: u64) {
        self.space.place(bytes.next_multiple_of(GRANULARITY));
    }

    /// `cudaHostAlloc`: the program or a library pins host memory, and keeps it.
    pub fn pins_host_memory(&mut self, bytes: u64) {
        let bytes = bytes.next_multiple_of(PINNED_GRANULARITY);
        if bytes <= self.slab {
            self.slab -= bytes;
            return;
        }
        self.slab = SLAB.checked_sub(bytes).unwrap_or(self.slab);
        self.space.place(bytes.next_multiple_of(GRANULARITY));
    }

    /// The C library returns a block of host memory to the operating system: CUDA can use its addresses.
    pub fn host_frees(&mut self, bytes: u64) {
        self.host = self.host.saturating_sub(bytes);
        self.space.open_gap(self.host, bytes);
    }

    /// Adds free address space, where a recording shows that segments were. What is known already does not change.
    pub fn reveal(&mut self, begin: u64, end: u64) {
        self.space.reveal(begin, end);
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
}

impl Driver for SimulatedDriver {
    fn allocate(&mut self, size: u64) -> Option<u64> {
        let span = size.checked_next_multiple_of(GRANULARITY)?;
        if !self.take(size) {
            return None;
        }
        let address = match &mut self.sequence {
            Some(sequence) => Some(sequence.take()),
            None => self.space.place(span),
        };
        if address.is_none() {
            self.used -= size;
        }
        address
    }

    fn free(&mut self, address: u64, size: u64) {
        self.used = self.used.saturating_sub(size);
        if self.sequence.is_none() {
            self.space.free(address, size.next_multiple_of(GRANULARITY));
        }
    }

    fn reserve_addresses(&mut self, page: u64) -> (u64, u64) {
        let wanted = if self.capacity < ADDRESS_SPACE { self.capacity + self.capacity / 8 } else { ADDRESS_SPACE };
        let span = wanted.next_multiple_of(page.max(1));
        (self.space.reserve(span), span)
    }

    fn map(&mut self, _address: u64, size: u64) -> bool {
        self.take(size)
    }

    fn unmap(&mut self, _address: u64, size: u64) {
        self.used = self.used.saturating_sub(size);
    }
}
