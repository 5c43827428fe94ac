//! What `torch.cuda.memory._dump_snapshot` writes, as plain data.
//!
//! Nothing here interprets the numbers: a [`Snapshot`] says what PyTorch recorded, in PyTorch's own terms. Strings and
//! call stacks are interned, so that a recording of a million events stays small.

use std::fmt;

pub use crate::intern::{Stacks, Strings};

/// A number that names an interned string in [`Strings`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StringId(pub u32);

/// A number that names an interned call stack in [`Stacks`]. [`StackId::NONE`] stands for "no frames were recorded".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StackId(pub u32);

impl StackId {
    /// The empty stack: the event was recorded without frames.
    pub const NONE: StackId = StackId(0);

    /// Whether no frames were recorded.
    pub fn is_none(self) -> bool {
        self == StackId::NONE
    }
}

/// A number that names an interned frame in [`Stacks`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FrameId(pub u32);

/// One frame of a call stack: where the program was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Frame {
    /// The source file as recorded; `??` for native code without debug information.
    pub file: StringId,
    /// The line in that file, 0 where unknown.
    pub line: u32,
    /// The function's name.
    pub function: StringId,
}

/// The identity of a memory pool: `(0, 0)` is the default pool, anything else a private one (CUDA graphs, `MemPool`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PoolId(pub u64, pub u64);

impl PoolId {
    /// The pool that serves every allocation outside CUDA graph captures and `torch.cuda.use_mem_pool`.
    pub const DEFAULT: PoolId = PoolId(0, 0);
}

/// What happened, in PyTorch's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Action {
    /// A tensor's storage got a block.
    Alloc,
    /// The program let go of a block.
    FreeRequested,
    /// The block went back into the cache; later than `FreeRequested` only where other streams still used it.
    FreeCompleted,
    /// `cudaMalloc` gave a new segment.
    SegmentAlloc,
    /// `cudaFree` took a segment back.
    SegmentFree,
    /// An expandable segment got physical memory.
    SegmentMap,
    /// An expandable segment gave physical memory back.
    SegmentUnmap,
    /// A snapshot was taken here.
    Snapshot,
    /// An allocation failed for good; the event's address field holds the free bytes on the device.
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

    /// The word PyTorch writes for this action.
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

    /// The action PyTorch calls `name`.
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
    /// The address it happened to; for [`Action::Oom`] the free bytes on the device.
    pub address: u64,
    /// Bytes: as requested for `alloc` and the frees, the segment's or range's for the segment actions, the rounded
    /// request for `oom`.
    pub size: u64,
    /// The CUDA stream, 0 being the default stream.
    pub stream: u64,
    /// The memory pool; [`PoolId::DEFAULT`] in recordings that do not say.
    pub pool: PoolId,
    /// Microseconds since the epoch, 0 where not recorded.
    pub time_us: i64,
    /// Where the program was.
    pub stack: StackId,
    /// `compile_context` or `user_metadata` where recorded, joined; the empty string otherwise.
    pub note: StringId,
}

/// What a block was doing when the snapshot was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BlockState {
    /// In use.
    Allocated,
    /// Let go of by the program, but another stream has still to be done with it.
    PendingFree,
    /// In the cache.
    Free,
}

/// A piece of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// Where it begins.
    pub address: u64,
    /// How many bytes it spans, tail included.
    pub size: u64,
    /// How many bytes were asked for; equal to `size` where not recorded.
    pub requested_size: u64,
    /// What it was doing.
    pub state: BlockState,
    /// Where it was allocated.
    pub stack: StackId,
}

/// A segment as it lay when the snapshot was taken, in address order within a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Where it begins.
    pub address: u64,
    /// How many bytes it spans.
    pub total_size: u64,
    /// The CUDA stream it belongs to.
    pub stream: u64,
    /// Whether it belongs to the small pool.
    pub is_small: bool,
    /// Whether it is a mapped range of an expandable segment.
    pub is_expandable: bool,
    /// The memory pool it belongs to.
    pub pool: PoolId,
    /// Where `cudaMalloc` was called.
    pub stack: StackId,
    /// Its blocks, in address order; they tile the segment.
    pub blocks: Vec<Block>,
}

/// A named stretch or instant that the program marked (`record_function`, profiler steps).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Annotation {
    /// The device it was recorded for.
    pub device: i64,
    /// `START`, `END` or another stage word.
    pub stage: StringId,
    /// What the program called it.
    pub name: StringId,
    /// Microseconds since the epoch.
    pub time_us: i64,
}

/// A value of `allocator_settings`, as recorded.
#[derive(Clone, Debug, PartialEq)]
pub enum Setting {
    /// Python's `None`.
    None,
    /// A truth value.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A real number.
    Float(f64),
    /// A text.
    Text(String),
    /// A dictionary, such as `roundup_power2_divisions`.
    Map(Vec<(String, Setting)>),
    /// A list.
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
    /// One entry a GPU, by ordinal; a GPU that was not used has neither events nor segments.
    pub devices: Vec<Device>,
    /// `allocator_settings`, by name.
    pub settings: Vec<(String, Setting)>,
    /// `external_annotations`.
    pub annotations: Vec<Annotation>,
    /// Trace entries that were left out because their action is none of the nine: the word, and how many.
    pub unknown_actions: Vec<(String, u64)>,
    /// The strings that the rest names.
    pub strings: Strings,
    /// The call stacks that the rest names.
    pub stacks: Stacks,
}
