//! Synthetic programs, recorded as PyTorch would: the allocator serves them on a simulated GPU, and what it does becomes a
//! snapshot.

mod training;

use std::collections::HashMap;

use vramfit_allocator::{
    Allocator, Block, BlockId, BlockUse, MempoolId, SegmentAction, SegmentChange, Settings, SimulatedDriver,
};
use vramfit_trace::snapshot::{
    Action, Block as RecordedBlock, BlockState, Device, Event, Frame, PoolId, Segment, Snapshot, StackId, StringId,
};

pub use training::{Kept, Training};

/// Memory that a synthetic program holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Held(u32);

/// A frame: file, line, function.
pub type FrameSpec<'a> = (&'a str, u32, &'a str);

/// A running program on a simulated GPU.
pub struct Program {
    allocator: Allocator<SimulatedDriver>,
    snapshot: Snapshot,
    events: Vec<Event>,
    held: HashMap<Held, (BlockId, StackId)>,
    next: u32,
    time_us: i64,
    /// Free bytes on the device, as recorded with an out-of-memory event.
    pub device_free: u64,
}

impl Program {
    /// A program on a GPU with unlimited memory, under PyTorch's default settings.
    pub fn new() -> Program {
        Program::under(Settings::default())
    }

    /// A program under `settings`, cap included.
    pub fn under(settings: Settings) -> Program {
        Program {
            allocator: Allocator::new(settings, SimulatedDriver::unlimited()),
            snapshot: Snapshot::default(),
            events: Vec::new(),
            held: HashMap::new(),
            next: 0,
            time_us: 1_700_000_000_000_000,
            device_free: 100 << 30,
        }
    }

    /// The stack of `frames`, innermost first.
    pub fn stack(&mut self, frames: &[FrameSpec<'_>]) -> StackId {
        let ids: Vec<_> = frames
            .iter()
            .map(|&(file, line, function)| {
                let file = self.snapshot.strings.intern(file);
                let function = self.snapshot.strings.intern(function);
                self.snapshot.stacks.intern_frame(Frame { file, line, function })
            })
            .collect();
        self.snapshot.stacks.intern_stack(&ids)
    }

    /// Allocates memory.
    ///
    /// # Panics
    /// If the program has reached its cap; see [`Program::try_allocate`].
    pub fn allocate(&mut self, size: u64, stack: StackId) -> Held {
        self.try_allocate(size, stack).expect("a program without a cap gets what it requests")
    }

    /// Allocates memory; a failure is recorded.
    pub fn try_allocate(&mut self, size: u64, stack: StackId) -> Option<Held> {
        let served = self.allocator.allocate(size, 0, MempoolId::DEFAULT);
        for change in self.allocator.take_changes() {
            self.record_segment(change, stack);
        }
        match served {
            Ok(id) => {
                self.record(Action::Alloc, self.allocator.block(id).address, size, stack);
                let held = Held(self.next);
                self.next += 1;
                self.held.insert(held, (id, stack));
                Some(held)
            }
            Err(error) => {
                self.record(Action::Oom, self.device_free, error.block, stack);
                None
            }
        }
    }

    /// Frees memory.
    pub fn free(&mut self, held: Held) {
        if let Some((id, _)) = self.held.remove(&held) {
            let Block { address, requested, .. } = *self.allocator.block(id);
            self.record(Action::FreeRequested, address, requested, StackId::NONE);
            self.allocator.free(id);
            self.record(Action::FreeCompleted, address, requested, StackId::NONE);
        }
    }

    /// Frees several allocations.
    pub fn free_all(&mut self, held: impl IntoIterator<Item = Held>) {
        for held in held {
            self.free(held);
        }
    }

    /// `torch.cuda.empty_cache()`.
    pub fn empty_cache(&mut self) {
        self.allocator.empty_cache();
        for change in self.allocator.take_changes() {
            self.record_segment(change, StackId::NONE);
        }
    }

    /// Drops the events so far, as if recording were enabled only now.
    pub fn start_recording(&mut self) {
        self.events.clear();
    }

    fn record_segment(&mut self, change: SegmentChange, stack: StackId) {
        let action = match change.action {
            SegmentAction::Allocate => Action::SegmentAlloc,
            SegmentAction::Free => Action::SegmentFree,
            SegmentAction::Map => Action::SegmentMap,
            SegmentAction::Unmap => Action::SegmentUnmap,
        };
        self.record(action, change.address, change.size, stack);
    }

    fn record(&mut self, action: Action, address: u64, size: u64, stack: StackId) {
        self.time_us += 25;
        let (stream, pool, note) = (0, PoolId::DEFAULT, StringId(0));
        self.events.push(Event { action, address, size, stream, pool, time_us: self.time_us, stack, note });
    }

    /// What `_dump_snapshot` would write now.
    pub fn snapshot(mut self) -> Snapshot {
        let stacks: HashMap<u64, StackId> =
            self.held.values().map(|&(id, stack)| (self.allocator.block(id).address, stack)).collect();
        let segments = self.allocator.segments().into_iter().map(|segment| Segment {
            address: segment.address,
            total_size: segment.size,
            stream: 0,
            is_small: segment.is_small,
            is_expandable: segment.is_expandable,
            pool: PoolId::DEFAULT,
            stack: StackId::NONE,
            blocks: segment.blocks.iter().map(|block| recorded(block, &stacks)).collect(),
        });
        self.snapshot.devices = vec![Device { events: self.events, segments: segments.collect() }];
        self.snapshot
    }
}

impl Default for Program {
    fn default() -> Self {
        Program::new()
    }
}

fn recorded(block: &Block, stacks: &HashMap<u64, StackId>) -> RecordedBlock {
    let state = match block.usage {
        BlockUse::Allocated => BlockState::Allocated,
        BlockUse::Pending => BlockState::PendingFree,
        _ => BlockState::Free,
    };
    let stack = stacks.get(&block.address).copied().filter(|_| state == BlockState::Allocated).unwrap_or_default();
    RecordedBlock { address: block.address, size: block.size, requested_size: block.requested, state, stack }
}
