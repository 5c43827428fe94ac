//! A snapshot in the format of `torch.cuda.memory._dump_snapshot`.

use std::path::Path;

use serde::Serialize;
use serde_pickle::SerOptions;
use vramfit_trace::snapshot::{Action, Block, BlockState, Event, Segment, Snapshot, StackId};

use crate::failure::Failure;
use crate::whole_file;

#[derive(Serialize)]
struct SnapshotRow<'a> {
    segments: Vec<SegmentRow<'a>>,
    device_traces: Vec<Vec<EventRow<'a>>>,
    allocator_settings: AllocatorSettings,
    external_annotations: Vec<()>,
}

/// What `_snapshot` has of the allocator's settings; all are PyTorch's defaults here.
#[derive(Serialize)]
struct AllocatorSettings {
    expandable_segments: bool,
}

#[derive(Serialize)]
struct FrameRow<'a> {
    filename: &'a str,
    line: u32,
    name: &'a str,
}

#[derive(Serialize)]
struct EventRow<'a> {
    action: &'static str,
    addr: u64,
    size: u64,
    stream: u64,
    time_us: i64,
    segment_pool_id: (u64, u64),
    frames: Vec<FrameRow<'a>>,
}

#[derive(Serialize)]
struct SegmentRow<'a> {
    device: u32,
    address: u64,
    total_size: u64,
    allocated_size: u64,
    active_size: u64,
    requested_size: u64,
    stream: u64,
    segment_type: &'static str,
    segment_pool_id: (u64, u64),
    is_expandable: bool,
    frames: Vec<FrameRow<'a>>,
    blocks: Vec<BlockRow<'a>>,
}

#[derive(Serialize)]
struct BlockRow<'a> {
    address: u64,
    size: u64,
    requested_size: u64,
    state: &'static str,
    frames: Vec<FrameRow<'a>>,
}

/// Writes the snapshot of a simulated run.
pub fn write(path: &Path, snapshot: &Snapshot) -> Result<(), Failure> {
    let row = SnapshotRow {
        segments: snapshot.devices[0].segments.iter().map(|segment| segment_row(snapshot, segment)).collect(),
        device_traces: vec![snapshot.devices[0].events.iter().map(|event| event_row(snapshot, event)).collect()],
        allocator_settings: AllocatorSettings { expandable_segments: false },
        external_annotations: Vec::new(),
    };
    let failed =
        |error: &dyn std::fmt::Display| Failure::new(format!("{}: cannot write the snapshot: {error}", path.display()));
    let bytes = serde_pickle::to_vec(&row, SerOptions::new()).map_err(|error| failed(&error))?;
    whole_file::write(path, &bytes).map_err(|error| failed(&error))
}

fn frames(snapshot: &Snapshot, stack: StackId) -> Vec<FrameRow<'_>> {
    let row = |frame: vramfit_trace::snapshot::Frame| FrameRow {
        filename: snapshot.strings.get(frame.file),
        line: frame.line,
        name: snapshot.strings.get(frame.function),
    };
    snapshot.stacks.frames(stack).map(row).collect()
}

fn event_row<'a>(snapshot: &'a Snapshot, event: &Event) -> EventRow<'a> {
    let is_made = matches!(event.action, Action::Alloc | Action::SegmentAlloc | Action::SegmentMap);
    EventRow {
        action: event.action.name(),
        addr: event.address,
        size: event.size,
        stream: event.stream,
        time_us: event.time_us,
        segment_pool_id: (event.pool.0, event.pool.1),
        frames: if is_made { frames(snapshot, event.stack) } else { Vec::new() },
    }
}

fn segment_row<'a>(snapshot: &'a Snapshot, segment: &Segment) -> SegmentRow<'a> {
    let live = || segment.blocks.iter().filter(|block| block.state == BlockState::Allocated);
    let allocated = live().map(|block| block.size).sum();
    SegmentRow {
        device: 0,
        address: segment.address,
        total_size: segment.total_size,
        allocated_size: allocated,
        active_size: allocated,
        requested_size: live().map(|block| block.requested_size).sum(),
        stream: segment.stream,
        segment_type: if segment.is_small { "small" } else { "large" },
        segment_pool_id: (segment.pool.0, segment.pool.1),
        is_expandable: segment.is_expandable,
        frames: frames(snapshot, segment.stack),
        blocks: segment.blocks.iter().map(|block| block_row(snapshot, block)).collect(),
    }
}

fn block_row<'a>(snapshot: &'a Snapshot, block: &Block) -> BlockRow<'a> {
    BlockRow {
        address: block.address,
        size: block.size,
        requested_size: block.requested_size,
        state: if block.state == BlockState::Allocated { "active_allocated" } else { "inactive" },
        frames: frames(snapshot, block.stack),
    }
}
