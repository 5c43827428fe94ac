//! A recording's identifiers as the allocator's.

use vramfit_allocator::{MempoolId, SegmentAction, SegmentChange};
use vramfit_trace::snapshot::{Action, Event, PoolId};

pub(crate) fn mempool(PoolId(first, second): PoolId) -> MempoolId {
    MempoolId(first, second)
}

/// The segment change that an event records; `None` for events within segments.
pub(crate) fn segment_change(event: &Event) -> Option<SegmentChange> {
    let action = match event.action {
        Action::SegmentAlloc => SegmentAction::Allocate,
        Action::SegmentFree => SegmentAction::Free,
        Action::SegmentMap => SegmentAction::Map,
        Action::SegmentUnmap => SegmentAction::Unmap,
        Action::Alloc | Action::FreeRequested | Action::FreeCompleted | Action::Snapshot | Action::Oom => return None,
    };
    Some(SegmentChange { action, address: event.address, size: event.size, stream: event.stream })
}
