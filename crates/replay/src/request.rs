//! What a recorded program requested, without what its allocator answered.
//!
//! A recording's addresses and segments are the answers of one allocator under one setting. The requests are the same
//! under any.

use std::collections::HashMap;

use vramfit_allocator::MempoolId;
use vramfit_trace::snapshot::{Action, Device};
use vramfit_trace::start::Start;

use crate::convert::mempool;

/// The number of an allocation within [`Requests`], in order of first appearance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct AllocationId(pub u32);

/// One request to the allocator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    Allocate {
        id: AllocationId,
        size: u64,
        stream: u64,
        pool: MempoolId,
    },
    /// A free that completes at once.
    Free {
        id: AllocationId,
    },
    /// A free while other streams still use the memory.
    FreeLater {
        id: AllocationId,
    },
    /// The other streams are done with it.
    CompleteFree {
        id: AllocationId,
    },
    /// `torch.cuda.empty_cache()`.
    EmptyCache,
    /// An allocation that failed in the recording; how the program would have used it is not known.
    Refused {
        size: u64,
        stream: u64,
        pool: MempoolId,
    },
}

/// A program's requests in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Requests {
    pub list: Vec<Request>,
    /// The event that each request comes from, or [`BEFORE_FIRST_EVENT`].
    pub events: Vec<u32>,
    /// How many allocations there are.
    pub allocations: u32,
}

/// The event number of requests for memory that was in use before the first event.
pub const BEFORE_FIRST_EVENT: u32 = u32::MAX;

impl Requests {
    /// The requests behind a recording. What was active at the start is requested first, by address.
    pub fn of(device: &Device, start: &Start) -> Requests {
        let mut builder = Builder::default();
        for segment in &start.segments {
            for block in &segment.blocks {
                let pool = mempool(segment.pool);
                builder.allocate(BEFORE_FIRST_EVENT, block.address, block.requested, segment.stream, pool);
                if block.is_pending {
                    builder.free(BEFORE_FIRST_EVENT, block.address, false);
                }
            }
        }
        let mut classified_until = 0;
        for (index, event) in device.events.iter().enumerate() {
            let number = u32::try_from(index).unwrap_or(BEFORE_FIRST_EVENT);
            match event.action {
                Action::Alloc => {
                    builder.allocate(number, event.address, event.size, event.stream, mempool(event.pool));
                }
                Action::FreeRequested => {
                    let next = device.events.get(index + 1);
                    let is_done =
                        next.is_some_and(|next| next.action == Action::FreeCompleted && next.address == event.address);
                    builder.free(number, event.address, is_done);
                }
                Action::FreeCompleted => builder.complete(number, event.address),
                Action::SegmentFree | Action::SegmentUnmap if index >= classified_until => {
                    let releases = classify_releases(device, index);
                    classified_until = releases.end;
                    if releases.cause == ReleaseCause::EmptyCache {
                        builder.push(Request::EmptyCache, number);
                    }
                }
                Action::Oom => {
                    let pool = mempool(event.pool);
                    builder.push(Request::Refused { size: event.size, stream: event.stream, pool }, number);
                }
                _ => {}
            }
        }
        builder.requests
    }
}

/// Why memory went back to the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReleaseCause {
    /// The program called `empty_cache()`.
    EmptyCache,
    /// An allocation that the driver or the cap had refused made room.
    Allocation,
}

/// Consecutive releases with one cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Releases {
    pub cause: ReleaseCause,
    /// The first event after them.
    pub end: usize,
}

/// Why the releases that begin at the event `first` were made.
///
/// An allocation that releases memory always goes on to take a segment or to fail. Where a release is followed by
/// that, the call stacks decide: the allocation's own releases have its stack. Without stacks it counts as the
/// allocation's.
pub(crate) fn classify_releases(device: &Device, first: usize) -> Releases {
    let mut has_new_segment = false;
    for (index, event) in device.events.iter().enumerate().skip(first) {
        match event.action {
            Action::SegmentFree | Action::SegmentUnmap | Action::FreeCompleted => {}
            Action::SegmentAlloc | Action::SegmentMap => has_new_segment = true,
            Action::Alloc | Action::Oom => {
                let is_served_from_cache = event.action == Action::Alloc && !has_new_segment;
                let release = device.events[first].stack;
                let is_elsewhere = !release.is_none() && !event.stack.is_none() && release != event.stack;
                let is_by_program = is_served_from_cache || is_elsewhere;
                let cause = if is_by_program { ReleaseCause::EmptyCache } else { ReleaseCause::Allocation };
                return Releases { cause, end: index };
            }
            Action::FreeRequested | Action::Snapshot => {
                return Releases { cause: ReleaseCause::EmptyCache, end: index };
            }
        }
    }
    Releases { cause: ReleaseCause::EmptyCache, end: device.events.len() }
}

#[derive(Default)]
struct Builder {
    requests: Requests,
    live: HashMap<u64, AllocationId>,
    pending: HashMap<u64, AllocationId>,
}

impl Builder {
    fn push(&mut self, request: Request, event: u32) {
        self.requests.list.push(request);
        self.requests.events.push(event);
    }

    fn allocate(&mut self, event: u32, address: u64, size: u64, stream: u64, pool: MempoolId) {
        let id = AllocationId(self.requests.allocations);
        self.requests.allocations += 1;
        self.live.insert(address, id);
        self.push(Request::Allocate { id, size, stream, pool }, event);
    }

    fn free(&mut self, event: u32, address: u64, is_done: bool) {
        let Some(id) = self.live.remove(&address) else { return };
        if is_done {
            self.push(Request::Free { id }, event);
        } else {
            self.pending.insert(address, id);
            self.push(Request::FreeLater { id }, event);
        }
    }

    fn complete(&mut self, event: u32, address: u64) {
        if let Some(id) = self.pending.remove(&address) {
            self.push(Request::CompleteFree { id }, event);
        }
    }
}
