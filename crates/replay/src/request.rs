//! Requests: what a program asked of the allocator, free of what the allocator answered.
//!
//! This is where a recorded run and a simulated step meet. A recording's addresses and segments are the answers of one
//! allocator under one setting; the requests underneath are the same under any.

use std::collections::HashMap;

use vramfit_allocator::MempoolId;
use vramfit_trace::snapshot::{Action, Device};
use vramfit_trace::start::Start;

use crate::convert::mempool;

/// The number of an allocation within a [`Trace`], counted from 0 in order of first appearance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AllocationId(pub u32);

/// One thing a program asks of the allocator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// Memory is asked for.
    Allocate {
        /// Its number.
        id: AllocationId,
        /// Bytes asked for.
        size: u64,
        /// The stream.
        stream: u64,
        /// The pool.
        pool: MempoolId,
    },
    /// Memory is let go of, and nothing else uses it.
    Free {
        /// Its number.
        id: AllocationId,
    },
    /// Memory is let go of while other streams still use it.
    RequestFree {
        /// Its number.
        id: AllocationId,
    },
    /// The other streams are done with it.
    CompleteFree {
        /// Its number.
        id: AllocationId,
    },
    /// `torch.cuda.empty_cache()`.
    EmptyCache,
    /// Memory was asked for and refused; what the program would have done with it is not known.
    Refused {
        /// Bytes of the block that could not be had.
        size: u64,
        /// The stream.
        stream: u64,
        /// The pool.
        pool: MempoolId,
    },
}

/// A program's requests in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    /// The requests.
    pub requests: Vec<Request>,
    /// For each request the event of the recording it comes from; `u32::MAX` for what lay there before the first one.
    pub events: Vec<u32>,
    /// How many allocations there are.
    pub allocations: u32,
}

/// Stands in [`Trace::events`] for "before the first event".
pub const BEFORE_FIRST_EVENT: u32 = u32::MAX;

impl Trace {
    /// The requests behind a recording. What was active at the start is asked for first, by address.
    pub fn of(device: &Device, start: &Start) -> Trace {
        let mut builder = Builder::default();
        for segment in &start.segments {
            for block in &segment.blocks {
                builder.allocate(
                    BEFORE_FIRST_EVENT,
                    block.address,
                    block.requested,
                    segment.stream,
                    mempool(segment.pool),
                );
                if block.is_pending {
                    builder.free(BEFORE_FIRST_EVENT, block.address, false);
                }
            }
        }
        let mut judged_until = 0;
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
                Action::SegmentFree | Action::SegmentUnmap if index >= judged_until => {
                    let (is_by_program, end) = judge_release(device, index);
                    judged_until = end;
                    if is_by_program {
                        builder.push(Request::EmptyCache, number);
                    }
                }
                Action::Oom => {
                    let refused =
                        Request::Refused { size: event.size, stream: event.stream, pool: mempool(event.pool) };
                    builder.push(refused, number);
                }
                _ => {}
            }
        }
        builder.trace
    }
}

/// Whether the run of releases that begins at `first` was asked for by the program (`empty_cache`) rather than made by
/// an allocation that the driver had refused; and where the run ends.
///
/// An allocation that releases always goes on to take a segment or to fail. Where a release is followed by that, the
/// call stacks tell: the allocation's own releases carry its stack. Without stacks it counts as the allocation's.
pub fn judge_release(device: &Device, first: usize) -> (bool, usize) {
    let mut has_gained = false;
    for (index, event) in device.events.iter().enumerate().skip(first) {
        match event.action {
            Action::SegmentFree | Action::SegmentUnmap | Action::FreeCompleted => {}
            Action::SegmentAlloc | Action::SegmentMap => has_gained = true,
            Action::Alloc | Action::Oom => {
                let is_served_from_cache = event.action == Action::Alloc && !has_gained;
                let release = device.events[first].stack;
                let is_elsewhere = !release.is_none() && !event.stack.is_none() && release != event.stack;
                return (is_served_from_cache || is_elsewhere, index);
            }
            Action::FreeRequested | Action::Snapshot => return (true, index),
        }
    }
    (true, device.events.len())
}

#[derive(Default)]
struct Builder {
    trace: Trace,
    live: HashMap<u64, AllocationId>,
    pending: HashMap<u64, AllocationId>,
}

impl Builder {
    fn push(&mut self, request: Request, event: u32) {
        self.trace.requests.push(request);
        self.trace.events.push(event);
    }

    fn allocate(&mut self, event: u32, address: u64, size: u64, stream: u64, pool: MempoolId) {
        let id = AllocationId(self.trace.allocations);
        self.trace.allocations += 1;
        self.live.insert(address, id);
        self.push(Request::Allocate { id, size, stream, pool }, event);
    }

    fn free(&mut self, event: u32, address: u64, is_done: bool) {
        let Some(id) = self.live.remove(&address) else { return };
        if is_done {
            self.push(Request::Free { id }, event);
        } else {
            self.pending.insert(address, id);
            self.push(Request::RequestFree { id }, event);
        }
    }

    fn complete(&mut self, event: u32, address: u64) {
        if let Some(id) = self.pending.remove(&address) {
            self.push(Request::CompleteFree { id }, event);
        }
    }
}
