//! The same requests under other settings: what would have happened instead.

use vramfit_trace::request::{Request, Trace};

use super::Totals;
use crate::allocator::{Allocator, OutOfMemory, PendingFree};
use crate::block::BlockId;
use crate::driver::Driver;
use crate::statistics::Statistics;

/// What a what-if replay found.
#[derive(Clone, Debug)]
pub struct WhatIf {
    /// The numbers, up to the failure where there was one.
    pub totals: Totals,
    /// The first allocation that failed, after which the program would have died.
    pub failure: Option<Failure>,
    /// For each allocation that the recording shows as refused: whether it would have been served.
    pub refusals_served: Vec<bool>,
    /// The statistics at the end.
    pub statistics: Statistics,
    /// The statistics when the allocated peak was reached.
    pub statistics_at_peak: Statistics,
}

/// An allocation that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The request's place in the trace.
    pub request: usize,
    /// The event it comes from.
    pub event: u32,
    /// What PyTorch would tell of it.
    pub error: OutOfMemory,
}

/// Where an allocation of the trace is now.
#[derive(Clone, Copy)]
enum Place {
    Nowhere,
    Held(BlockId),
    Pending(PendingFree),
}

/// Feeds `trace` to `allocator`, until the end or until an allocation fails that the recording shows as served.
pub fn replay_under<D: Driver>(trace: &Trace, mut allocator: Allocator<D>) -> WhatIf {
    let mut places = vec![Place::Nowhere; trace.allocations as usize];
    let mut failure = None;
    let mut refusals_served = Vec::new();
    let mut at_peak = allocator.statistics().clone();
    for (index, request) in trace.requests.iter().enumerate() {
        match *request {
            Request::Allocate { id, size, stream, pool } => match allocator.allocate(size, stream, pool) {
                Ok(block) => places[id.0 as usize] = Place::Held(block),
                Err(error) => {
                    failure = Some(Failure { request: index, event: trace.events[index], error });
                    break;
                }
            },
            Request::Free { id } => {
                if let Place::Held(block) = std::mem::replace(&mut places[id.0 as usize], Place::Nowhere) {
                    allocator.free(block);
                }
            }
            Request::RequestFree { id } => {
                if let Place::Held(block) = places[id.0 as usize] {
                    places[id.0 as usize] = Place::Pending(allocator.request_free(block));
                }
            }
            Request::CompleteFree { id } => {
                if let Place::Pending(free) = std::mem::replace(&mut places[id.0 as usize], Place::Nowhere) {
                    allocator.complete_free(free);
                }
            }
            Request::EmptyCache => allocator.empty_cache(),
            Request::Refused { size, stream, pool } => {
                let served = allocator.allocate(size, stream, pool);
                refusals_served.push(served.is_ok());
                if let Ok(block) = served {
                    allocator.free(block);
                }
            }
        }
        let allocated = allocator.statistics().allocated_bytes.all;
        if allocated.current == allocated.peak && allocated.peak > at_peak.allocated_bytes.all.peak {
            at_peak = allocator.statistics().clone();
        }
        allocator.clear_changes();
    }
    let statistics = allocator.statistics().clone();
    WhatIf {
        totals: Totals {
            peak_allocated: statistics.allocated_bytes.all.peak,
            peak_reserved: statistics.reserved_bytes.all.peak,
            segments: allocator.segment_count() as u64,
        },
        failure,
        refusals_served,
        statistics,
        statistics_at_peak: at_peak,
    }
}
