//! The simulated process's memory: a journal of requests for an allocator to answer later.
//!
//! No rule looks at addresses or at free memory, so the journal does not depend on the GPU's size. Where an allocation
//! fails, whoever answers the journal stops there.

mod storage;

use std::cell::RefCell;
use std::rc::Rc;

use vramfit_cudnn::convolution::PlanId;

pub use storage::Storage;

/// What memory is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Category {
    /// Weights and buffers.
    Parameters,
    /// `.grad` of weights.
    Gradients,
    /// The optimizer's state.
    Optimizer,
    /// Results of the forward pass that are still in use.
    Activations,
    /// Inputs and targets.
    Inputs,
    /// The model's outputs and the loss.
    Outputs,
    /// Everything short-lived.
    Temporary,
    /// Workspaces of cuBLAS, cuDNN and the like.
    Workspace,
    /// Buffers that ranks send and receive.
    Communication,
}

impl Category {
    /// How many there are.
    pub const COUNT: usize = 9;
}

/// The CUDA stream that memory is allocated on. A block is only used again on its own stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Stream {
    /// The one that computes.
    #[default]
    Compute,
    /// The stream of FSDP or DeepSpeed for all-gathers of weights.
    AllGather,
    /// The stream of FSDP or DeepSpeed for reduce-scatters of gradients.
    ReduceScatter,
    /// FSDP's stream for all-reduces of gradients over replicas, and DeepSpeed's for reducing them in stages 1 and 2.
    AllReduce,
}

impl Stream {
    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Stream::Compute => "compute",
            Stream::AllGather => "all-gather",
            Stream::ReduceScatter => "reduce-scatter",
            Stream::AllReduce => "all-reduce",
        }
    }
}

/// The origin of memory that no captured step asked for, such as weights and optimizer state.
pub const OUTSIDE_MODEL: u32 = u32::MAX;

/// The origin of what a loss allocates that was added to a model without one.
pub const ADDED_LOSS: u32 = OUTSIDE_MODEL - 1;

/// One request to the allocator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// An allocation.
    Allocate {
        /// Its number; allocations count from 0.
        id: u32,
        /// Requested bytes; 0 only for a workspace that is larger under another assumption.
        bytes: u64,
        /// The step of the captured pass that asked for it, or [`OUTSIDE_MODEL`] or [`ADDED_LOSS`].
        origin: u32,
        /// What it is for.
        category: Category,
        /// The stream it is on.
        stream: Stream,
        /// The cuDNN plan whose workspace it is; the program can fall back to a plan with a smaller one.
        plan: Option<PlanId>,
    },
    /// A free.
    Free {
        /// The number of the allocation.
        id: u32,
    },
}

/// A driver or library event beside the allocator, or a change of what memory counts as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SideEvent {
    /// How many requests came before it.
    pub at: usize,
    /// What happened.
    pub kind: SideEventKind,
}

/// What a [`SideEvent`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SideEventKind {
    /// Memory changes its category.
    CategoryChanged {
        /// The number of the allocation.
        id: u32,
        /// The new category.
        category: Category,
    },
    /// The context's local memory grows.
    LocalMemoryGrows,
    /// A library allocates so many bytes from the driver.
    LibraryAllocates(u64),
    /// The process returns so many bytes on the host to the operating system.
    HostFrees(u64),
    /// The process or a library pins so many bytes on the host.
    HostPins(u64),
    /// The script calls `torch.cuda.empty_cache()`.
    CacheEmptied,
}

/// The simulated process's memory.
#[derive(Debug)]
pub struct Memory {
    journal: Vec<Entry>,
    side_events: Vec<SideEvent>,
    origin: u32,
    category: Category,
    stream: Stream,
    next_id: u32,
    live: u32,
    is_muted: bool,
    is_closed: bool,
    host: Host,
}

/// What is known of the process's host memory.
#[derive(Clone, Copy, Debug)]
struct Host {
    /// The C library keeps blocks of up to so many bytes when they are freed.
    kept: u64,
    /// Whether a value was read, for which PyTorch pins a block that it keeps.
    has_read: bool,
}

impl Default for Host {
    /// The C library's threshold grows to the largest block freed so far; importing PyTorch and transformers leaves it between 3 and 4 MiB.
    fn default() -> Host {
        Host { kept: 4 << 20, has_read: false }
    }
}

/// The id of a storage for which nothing was allocated.
const NOTHING: u32 = u32::MAX;

/// The handle that every [`Storage`] keeps for its free.
pub type SharedMemory = Rc<RefCell<Memory>>;

impl Default for Memory {
    fn default() -> Memory {
        Memory::new()
    }
}

impl Memory {
    /// Memory with an empty journal.
    pub fn new() -> Memory {
        Memory::with_capacity(0)
    }

    /// An empty journal with room for so many requests.
    pub fn with_capacity(requests: usize) -> Memory {
        Memory {
            journal: Vec::with_capacity(requests),
            side_events: Vec::new(),
            origin: 0,
            category: Category::Parameters,
            stream: Stream::Compute,
            next_id: 0,
            live: 0,
            is_muted: false,
            is_closed: false,
            host: Host::default(),
        }
    }

    /// The requests so far.
    pub fn journal(&self) -> &[Entry] {
        &self.journal
    }

    /// The side events so far.
    pub fn side_events(&self) -> &[SideEvent] {
        &self.side_events
    }

    /// Removes and returns the requests from index `entry` on and the side events from index `side_event` on.
    pub fn split_off(&mut self, entry: usize, side_event: usize) -> (Vec<Entry>, Vec<SideEvent>) {
        (self.journal.split_off(entry), self.side_events.split_off(side_event))
    }

    /// Appends a request that no [`Storage`] belongs to.
    pub fn write(&mut self, entry: Entry) {
        self.journal.push(entry);
    }

    /// Makes room for so many more requests.
    pub fn reserve(&mut self, requests: usize) {
        self.journal.reserve_exact(requests);
    }

    /// Appends requests that no [`Storage`] belongs to.
    pub fn write_all(&mut self, entries: impl Iterator<Item = Entry>) {
        self.journal.extend(entries);
    }

    /// Appends side events.
    pub fn add_side_events(&mut self, side_events: impl Iterator<Item = SideEvent>) {
        self.side_events.extend(side_events);
    }

    /// Sets the id of the next allocation.
    pub fn set_next_id(&mut self, next_id: u32) {
        self.next_id = next_id;
    }

    /// Returns the journal and the side events; later frees are not recorded.
    pub fn close(&mut self) -> (Vec<Entry>, Vec<SideEvent>) {
        self.is_closed = true;
        (std::mem::take(&mut self.journal), std::mem::take(&mut self.side_events))
    }

    /// Records a side event after the requests so far.
    pub fn add_side_event(&mut self, kind: SideEventKind) {
        self.side_events.push(SideEvent { at: self.journal.len(), kind });
    }

    /// The host frees so many bytes, such as its copy of a tensor that has been moved.
    pub fn host_frees(&mut self, bytes: u64) {
        if bytes > self.host.kept {
            self.add_side_event(SideEventKind::HostFrees(bytes));
        }
    }

    /// The C library keeps freed blocks of up to so many bytes.
    pub fn host_keeps(&mut self, bytes: u64) {
        self.host.kept = bytes;
    }

    /// A value on the GPU is read: PyTorch copies it to a pinned block, which it uses again for the next.
    pub fn host_reads_value(&mut self) {
        if !std::mem::replace(&mut self.host.has_read, true) {
            self.add_side_event(SideEventKind::HostPins(8));
        }
    }

    /// The id of the next allocation.
    pub fn next_id(&self) -> u32 {
        self.next_id
    }

    /// How many allocations have not been freed.
    pub fn live(&self) -> u32 {
        self.live
    }

    /// Sets the origin of the next allocations: a step of the captured pass, [`OUTSIDE_MODEL`] or [`ADDED_LOSS`].
    pub fn set_origin(&mut self, origin: u32) {
        self.origin = origin;
    }

    /// The origin of the next allocations.
    pub fn origin(&self) -> u32 {
        self.origin
    }

    /// Sets the category of the next allocations.
    pub fn set_category(&mut self, category: Category) {
        self.category = category;
    }

    /// Sets the stream of the next allocations; returns the one before.
    pub fn set_stream(&mut self, stream: Stream) -> Stream {
        std::mem::replace(&mut self.stream, stream)
    }

    /// While muted nothing is allocated: calls only compute the layouts of their results.
    pub fn set_muted(&mut self, is_muted: bool) {
        self.is_muted = is_muted;
    }

    /// Whether calls allocate nothing.
    pub fn is_muted(&self) -> bool {
        self.is_muted
    }

    fn allocate(&mut self, bytes: u64) -> u32 {
        if bytes == 0 || self.is_muted {
            return NOTHING;
        }
        let id = self.next_id;
        self.next_id += 1;
        self.live += 1;
        let (origin, category, stream) = (self.origin, self.category, self.stream);
        self.journal.push(Entry::Allocate { id, bytes, origin, category, stream, plan: None });
        id
    }

    /// Allocates the workspace of a cuDNN plan and frees it with the next request.
    pub fn pass_through(&mut self, bytes: u64, plan: PlanId) {
        if self.is_muted {
            return;
        }
        let id = self.next_id;
        self.next_id += 1;
        let (origin, category, stream) = (self.origin, Category::Workspace, self.stream);
        self.journal.push(Entry::Allocate { id, bytes, origin, category, stream, plan: Some(plan) });
        self.journal.push(Entry::Free { id });
    }

    fn free(&mut self, id: u32) {
        if !self.is_closed {
            self.live -= 1;
            self.journal.push(Entry::Free { id });
        }
    }
}
