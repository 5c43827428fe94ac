//! What the allocator asks of CUDA: memory, and addresses for it.

use crate::address_space::{self, AddressSpace};

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
#[derive(Clone, Debug)]
pub struct SimulatedDriver {
    capacity: u64,
    used: u64,
    space: AddressSpace,
    host: u64,
}

/// Segments begin at multiples of this.
const GRANULARITY: u64 = 2 << 20;
/// All segments lie below.
const HIGHEST_ADDRESS: u64 = 1 << 62;
/// Address space for an expandable segment where the GPU's size is not known.
const ADDRESS_SPACE: u64 = 1 << 40;

/// What a CUDA context holds at first, as seen on an H200 (driver 580): two chunks side by side, with 2 MiB free at the
/// end of the first, behind the memory that local variables of kernels go to, and 24 MiB at the end of the second.
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
/// The C library gives blocks above this size back to the operating system when they are freed: its threshold grows to
/// the largest block freed so far, and importing PyTorch and transformers leaves it between 3 and 4 MiB.
const KEPT_BLOCK: u64 = 4 << 20;
/// Host memory lies above what CUDA has: it was there first.
const HIGHEST_HOST_ADDRESS: u64 = 1 << 61;

impl SimulatedDriver {
    /// CUDA takes address space from the operating system in multiples of this.
    pub const CHUNK: u64 = address_space::CHUNK;

    /// A GPU of `capacity` bytes, and a process in which nothing else takes addresses.
    pub fn new(capacity: u64) -> SimulatedDriver {
        SimulatedDriver {
            capacity,
            used: 0,
            space: AddressSpace::new(HIGHEST_ADDRESS, false),
            host: HIGHEST_HOST_ADDRESS,
        }
    }

    /// A GPU that never refuses.
    pub fn unlimited() -> SimulatedDriver {
        SimulatedDriver::new(u64::MAX)
    }

    /// A GPU of `capacity` bytes, as a new process sees it: the context and libraries take addresses too.
    pub fn in_process(capacity: u64) -> SimulatedDriver {
        use context::{BEGIN, FIRST_CHUNK, LOCAL_MEMORY, SECOND_CHUNK, SECOND_HOLE};
        let mut space = AddressSpace::new(BEGIN, true);
        let second = BEGIN + FIRST_CHUNK;
        space.add_chunk(BEGIN, FIRST_CHUNK, &[(BEGIN + LOCAL_MEMORY, FIRST_CHUNK - LOCAL_MEMORY)]);
        space.add_chunk(second, SECOND_CHUNK, &[(second + SECOND_CHUNK - SECOND_HOLE, SECOND_HOLE)]);
        SimulatedDriver { space, ..SimulatedDriver::new(capacity) }
    }

    /// The first kernel that needs it makes local memory grow: the old one goes once the new one is there.
    pub fn grow_local_memory(&mut self) {
        self.space.place(context::GROWN_LOCAL_MEMORY);
        self.space.free(context::BEGIN, context::LOCAL_MEMORY);
    }

    /// A library takes memory that PyTorch's allocator knows nothing of, and keeps it.
    pub fn library_takes(&mut self, bytes: u64) {
        self.space.place(bytes.next_multiple_of(GRANULARITY));
    }

    /// The program frees a tensor in host memory: where it was large, its addresses are there for CUDA to take.
    pub fn host_frees(&mut self, bytes: u64) {
        if SimulatedDriver::minds_host_free(bytes) {
            self.host = self.host.saturating_sub(bytes);
            self.space.open_gap(self.host, bytes);
        }
    }

    /// Whether a tensor in host memory is so large that it matters when it is freed.
    pub fn minds_host_free(bytes: u64) -> bool {
        bytes > KEPT_BLOCK
    }

    /// Tells of address space that is free to use: a recording shows that segments have lain there. What is known
    /// already stays as it is.
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
        if !self.take(size) {
            return None;
        }
        let address = self.space.place(size.checked_next_multiple_of(GRANULARITY)?);
        if address.is_none() {
            self.used -= size;
        }
        address
    }

    fn free(&mut self, address: u64, size: u64) {
        self.used -= size;
        self.space.free(address, size.next_multiple_of(GRANULARITY));
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
        self.used -= size;
    }
}
