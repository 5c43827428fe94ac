//! What `torch.cuda.memory._dump_snapshot` writes, as plain data.
//!
//! Nothing here interprets the numbers: a [`Snapshot`] has what PyTorch recorded, in PyTorch's own terms. Strings and call
//! stacks are interned, so that a recording of a million events stays small.

use std::fmt;

pub use crate::intern::{Frame, FrameId, StackId, Stacks, StringId, Strings};

/// A memory pool: `(0, 0)` is the default pool, others are private (CUDA graphs, `torch.cuda.MemPool`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PoolId(pub u64, pub u64);

impl PoolId {
    /// The pool that serves every allocation outside CUDA graph captures and `torch.cuda.use_mem_pool`.
    pub const DEFAULT: PoolId = PoolId(0, 0);
}

/// The kind of an event, as PyTorch names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Action {
    /// A tensor's storage got a block.
    Alloc,
    /// The program freed a block.
    FreeRequested,
    /// The block can be used again; later than `FreeRequested` only if other streams still used it.
    FreeCompleted,
    /// `cudaMalloc` returned a new segment.
    SegmentAlloc,
    /// A segment was released with `cudaFree`.
    SegmentFree,
    /// Pages of an expandable segment got physical memory.
    SegmentMap,
    /// Pages of an expandable segment lost their physical memory.
    SegmentUnmap,
    /// A snapshot was taken here.
    Snapshot,
    /// An allocation failed; the event's address is the free bytes on the device.
    Oom,
}

impl Action {
    /// All nine actions.
    pub const ALL: [Action; 9] = [
        Action::Alloc,
        Action::FreeRequested,
        Action::FreeCompleted,
        Action::SegmentAlloc,
        Action::SegmentFree,
        Action::SegmentMap,
        Action::SegmentUnmap,
        Action::Snapshot,
        Action::Oom,
    ];

    /// The name that PyTorch writes.
    pub fn name(self) -> &'static str {
        match self {
            Action::Alloc => "alloc",
            Action::FreeRequested => "free_requested",
            Action::FreeCompleted => "free_completed",
            Action::SegmentAlloc => "segment_alloc",
            Action::SegmentFree => "segment_free",
            Action::SegmentMap => "segment_map",
            Action::SegmentUnmap => "segment_unmap",
            Action::Snapshot => "snapshot",
            Action::Oom => "oom",
        }
    }

    /// The action with this name.
    pub fn from_name(name: &str) -> Option<Action> {
        Action::ALL.into_iter().find(|action| action.name() == name)
    }
}

impl fmt::Display for Action {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// One entry of a device's trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// What happened.
    pub action: Action,
    /// The address of the block or segment; for [`Action::Oom`] the free bytes on the device.
    pub address: u64,
    /// Bytes: as requested for `alloc` and the frees, the segment's or range's for the segment actions, the rounded
    /// request for `oom`.
    pub size: u64,
    /// The CUDA stream, 0 being the default stream.
    pub stream: u64,
    /// The memory pool; [`PoolId::DEFAULT`] if not recorded.
    pub pool: PoolId,
    /// Microseconds since the epoch, 0 if not recorded.
    pub time_us: i64,
    /// The call stack.
    pub stack: StackId,
    /// `compile_context` and `user_metadata`, joined; the empty string if not recorded.
    pub note: StringId,
}

/// The state of a block when the snapshot was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BlockState {
    /// The program holds it.
    Allocated,
    /// The program has freed it, but another stream still uses it.
    PendingFree,
    /// Free, in the cache.
    Free,
}

/// A block of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// Where it begins.
    pub address: u64,
    /// Its bytes, unsplit tail included.
    pub size: u64,
    /// The bytes requested; equal to `size` if not recorded.
    pub requested_size: u64,
    /// Its state.
    pub state: BlockState,
    /// The call stack of its allocation.
    pub stack: StackId,
}

/// A segment when the snapshot was taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Where it begins.
    pub address: u64,
    /// Its bytes.
    pub total_size: u64,
    /// The CUDA stream it belongs to.
    pub stream: u64,
    /// Whether it belongs to the small pool.
    pub is_small: bool,
    /// Whether it is a mapped range of an expandable segment.
    pub is_expandable: bool,
    /// The memory pool it belongs to.
    pub pool: PoolId,
    /// The call stack of its `cudaMalloc`.
    pub stack: StackId,
    /// Its blocks, in address order; they tile the segment.
    pub blocks: Vec<Block>,
}

/// The begin or end of a range that the program marked (`record_function`, profiler steps).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Annotation {
    /// The device it was recorded for.
    pub device: i64,
    /// `START`, `END` or another stage.
    pub stage: StringId,
    /// The name of the range.
    pub name: StringId,
    /// Microseconds since the epoch.
    pub time_us: i64,
}

/// A value of `allocator_settings`, as recorded.
#[derive(Clone, Debug, PartialEq)]
pub enum Setting {
    /// Python's `None`.
    None,
    /// A `bool`.
    Bool(bool),
    /// An `int`.
    Int(i64),
    /// A `float`.
    Float(f64),
    /// A `str`.
    Text(String),
    /// A `dict`, such as `roundup_power2_divisions`.
    Map(Vec<(String, Setting)>),
    /// A `list`.
    List(Vec<Setting>),
}

/// What was recorded for one GPU.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Device {
    /// The events in the order they happened.
    pub events: Vec<Event>,
    /// The segments at the end, by address.
    pub segments: Vec<Segment>,
}

/// A whole snapshot file.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// One entry per GPU, by ordinal; an unused GPU has neither events nor segments.
    pub devices: Vec<Device>,
    /// `allocator_settings`, by name.
    pub settings: Vec<(String, Setting)>,
    /// `external_annotations`.
    pub annotations: Vec<Annotation>,
    /// Trace entries that were left out because their action is unknown: its name, and how many.
    pub unknown_actions: Vec<(String, u64)>,
    /// The interned strings.
    pub strings: Strings,
    /// The interned call stacks.
    pub stacks: Stacks,
}
