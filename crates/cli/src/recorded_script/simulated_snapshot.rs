//! A simulated run as a snapshot, as PyTorch would have recorded it.

use std::collections::BTreeMap;

use vramfit_allocator::SegmentAction;
use vramfit_eager::memory::Entry;
use vramfit_graph::bind::{Bound, BoundStep};
use vramfit_graph::model::{Calls, RecordedScript};
use vramfit_trace::snapshot::{
    Action, Block, BlockState, Device, Event, Frame, FrameId, PoolId, Segment, Snapshot, StackId, StringId,
};
use vramfit_training::{Phase, Run};

/// Requests above this come from the large pool.
const LARGEST_SMALL: u64 = 1 << 20;

/// The frames of PyTorch that show what a script's line calls.
const MODULE: (&str, &str) = ("site-packages/torch/nn/modules/module.py", "_call_impl");
const OPTIMIZER: (&str, &str) = ("site-packages/torch/optim/optimizer.py", "wrapper");
/// The same for the buffers of `DistributedDataParallel`.
const REPLICA: (&str, &str) = ("site-packages/torch/nn/parallel/distributed.py", "_pre_forward");

/// A live allocation.
#[derive(Clone, Copy)]
struct Live {
    requested: u64,
    block: u64,
    address: u64,
    stack: StackId,
}

/// The expected run of a recorded script, which kept its journal.
pub fn simulated_snapshot(bound: &Bound<'_>, script: &RecordedScript, run: &Run) -> Snapshot {
    let mut snapshot = Snapshot::default();
    let no_note = snapshot.strings.intern("");
    let no_stack = snapshot.stacks.intern_stack(&[]);
    let mut stacks: BTreeMap<u32, StackId> = BTreeMap::new();
    let mut blocks: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
    for label in &run.labels {
        blocks.entry(label.id).or_insert((label.address, label.block));
    }
    let mut events: Vec<Event> = Vec::with_capacity(run.journal.len() * 2);
    let mut live: BTreeMap<u32, Live> = BTreeMap::new();
    let mut segments: BTreeMap<u64, (u64, bool)> = BTreeMap::new();
    let mut changes = run.segments.iter().peekable();
    let mut phases = run.phases.iter().peekable();
    for (index, entry) in run.journal.iter().enumerate() {
        let instant = index as u32 + 1;
        while phases.next_if(|phase| phase.end < instant).is_some() {}
        // Autograd's threads have no Python frames.
        let is_backward = phases.peek().is_some_and(|phase| phase.phase == Phase::Backward);
        let event = |action, address, size, stack| Event {
            action,
            address,
            size,
            stream: 0,
            pool: PoolId::DEFAULT,
            time_us: i64::from(instant),
            stack,
            note: no_note,
        };
        let stack = match entry {
            Entry::Allocate { origin, .. } if !is_backward => *stacks
                .entry(*origin)
                .or_insert_with(|| stack_of(&mut snapshot, bound, script, *origin).unwrap_or(no_stack)),
            _ => no_stack,
        };
        while let Some((_, change)) = changes.next_if(|(at, _)| *at <= instant) {
            let action = match change.action {
                SegmentAction::Allocate => Action::SegmentAlloc,
                SegmentAction::Free => Action::SegmentFree,
                SegmentAction::Map => Action::SegmentMap,
                SegmentAction::Unmap => Action::SegmentUnmap,
            };
            if matches!(action, Action::SegmentAlloc | Action::SegmentMap) {
                let is_small = matches!(entry, Entry::Allocate { bytes, .. } if *bytes <= LARGEST_SMALL);
                segments.insert(change.address, (change.size, is_small));
            } else {
                segments.remove(&change.address);
            }
            events.push(event(action, change.address, change.size, stack));
        }
        match *entry {
            Entry::Allocate { id, bytes, .. } => {
                let Some(&(address, block)) = blocks.get(&id).filter(|_| bytes > 0) else { continue };
                // Where cuDNN's workspace was refused, PyTorch took a plan with a smaller one, and the run went on.
                let requested = bytes.min(block);
                live.insert(id, Live { requested, block, address, stack });
                events.push(event(Action::Alloc, address, requested, stack));
            }
            Entry::Free { id } => {
                let Some(Live { requested, address, .. }) = live.remove(&id) else { continue };
                events.push(event(Action::FreeRequested, address, requested, no_stack));
                events.push(event(Action::FreeCompleted, address, requested, no_stack));
            }
        }
    }
    let mut by_address: BTreeMap<u64, Live> = live.into_values().map(|live| (live.address, live)).collect();
    let segments = segments.into_iter().map(|(address, (size, is_small))| {
        let after = by_address.split_off(&(address + size));
        let inside = std::mem::replace(&mut by_address, after);
        segment((address, size, is_small), inside.into_values().filter(|live| live.address >= address), no_stack)
    });
    let segments = segments.collect();
    snapshot.devices.push(Device { events, segments });
    snapshot
}

/// A segment at the end, with free blocks between the live ones.
fn segment(
    (address, size, is_small): (u64, u64, bool),
    live: impl Iterator<Item = Live>,
    no_stack: StackId,
) -> Segment {
    let mut blocks = Vec::new();
    let mut at = address;
    let free = |from: u64, to: u64| Block {
        address: from,
        size: to - from,
        requested_size: 0,
        state: BlockState::Free,
        stack: no_stack,
    };
    for Live { requested, block, address, stack } in live {
        if address > at {
            blocks.push(free(at, address));
        }
        blocks.push(Block { address, size: block, requested_size: requested, state: BlockState::Allocated, stack });
        at = address + block;
    }
    if at < address + size {
        blocks.push(free(at, address + size));
    }
    Segment {
        address,
        total_size: size,
        stream: 0,
        is_small,
        is_expandable: false,
        pool: PoolId::DEFAULT,
        stack: no_stack,
        blocks,
    }
}

/// The call stack of a recorded call, the innermost frame first.
fn stack_of(snapshot: &mut Snapshot, bound: &Bound<'_>, script: &RecordedScript, step: u32) -> Option<StackId> {
    let BoundStep::Call(call) = bound.steps.get(step as usize)? else { return None };
    let mut frames: Vec<FrameId> = Vec::new();
    let mut next = Some(call.source?);
    let calls = script.callers.get(call.source? as usize).map(|caller| caller.calls);
    match calls {
        Some(Calls::Module) => frames.push(frame(snapshot, MODULE.0, 1, MODULE.1)),
        Some(Calls::Optimizer) => frames.push(frame(snapshot, OPTIMIZER.0, 1, OPTIMIZER.1)),
        Some(Calls::Replica) => frames.push(frame(snapshot, REPLICA.0, 1, REPLICA.1)),
        _ => {}
    }
    while let Some(source) = next {
        let line = bound.model.sources.get(source as usize)?;
        frames.push(frame(snapshot, &line.file, line.line, &line.function));
        let caller = script.callers.get(source as usize)?;
        if caller.is_in_module && caller.source.is_some() {
            frames.push(frame(snapshot, MODULE.0, 1, MODULE.1));
        }
        next = caller.source;
    }
    Some(snapshot.stacks.intern_stack(&frames))
}

fn frame(snapshot: &mut Snapshot, file: &str, line: u32, function: &str) -> FrameId {
    let file: StringId = snapshot.strings.intern(file);
    let function = snapshot.strings.intern(function);
    snapshot.stacks.intern_frame(Frame { file, line, function })
}
