//! The same requests under other settings: what would have happened instead.

use vramfit_allocator::{Allocator, BlockId, OutOfMemory, PendingFree, Settings, SimulatedDriver, Statistics};
use vramfit_trace::snapshot::{Action, Device};
use vramfit_trace::start::Start;

use crate::request::{BEFORE_FIRST_EVENT, Request, Trace};
use crate::totals::Totals;

/// What a what-if replay found.
#[derive(Clone, Debug)]
pub struct WhatIf {
    /// The numbers, up to the failure where there was one.
    pub totals: Totals,
    /// The first allocation that failed, after which the program would have died.
    pub failure: Option<Failure>,
    /// For each allocation that the recording shows as refused: the error it would have raised here too, or `None`
    /// where it would have been served.
    pub refusals: Vec<Option<OutOfMemory>>,
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

/// What the requests behind `device`'s recording would have done under `settings`, on a GPU of `capacity` bytes.
///
/// Which of two blocks of one size is taken depends on their addresses, so new segments are put where the recording
/// shows that CUDA had room at the time.
pub fn replay_with(device: &Device, settings: Settings, capacity: u64) -> WhatIf {
    let trace = Trace::of(device, &Start::of(device));
    let mut rooms = rooms(device).into_iter().peekable();
    let allocator = Allocator::new(settings, SimulatedDriver::new(capacity));
    replay_requests(&trace, allocator, |driver, event| {
        while let Some(room) = rooms.next_if(|room| event != BEFORE_FIRST_EVENT && room.event <= event) {
            driver.reveal(room.begin, room.end);
        }
    })
}

/// Address space that a recording shows to be free from an event on.
struct Room {
    event: u32,
    begin: u64,
    end: u64,
}

/// The rooms a recording shows. Where segments lie side by side, the room reaches from the one being allocated to the
/// end of the row: CUDA fills a hole from below, and takes new address space from above.
fn rooms(device: &Device) -> Vec<Room> {
    let gains: Vec<(u32, u64, u64)> = device
        .events
        .iter()
        .enumerate()
        .filter(|(_, event)| event.action == Action::SegmentAlloc)
        .map(|(index, event)| (index as u32, event.address, event.address.saturating_add(event.size)))
        .collect();
    let mut ranges: Vec<(u64, u64)> = gains.iter().map(|&(_, begin, end)| (begin, end)).collect();
    ranges.sort_unstable();
    let mut rows: Vec<(u64, u64)> = Vec::new();
    for (begin, end) in ranges {
        match rows.last_mut() {
            Some(row) if begin <= row.1 => row.1 = row.1.max(end),
            _ => rows.push((begin, end)),
        }
    }
    let room = |(event, begin, end): (u32, u64, u64)| {
        let row = rows.partition_point(|row| row.0 <= begin).checked_sub(1).map(|index| rows[index]);
        let end = row.map_or(end, |row| row.1);
        let next = rows.get(rows.partition_point(|row| row.0 <= begin)).map_or(u64::MAX, |row| row.0);
        Room { event, begin, end: end.next_multiple_of(SimulatedDriver::CHUNK).min(next) }
    };
    gains.into_iter().map(room).collect()
}

/// Feeds `trace` to `allocator`, until the end or until an allocation fails that the recording shows as served.
/// `reveal` prepares the driver for each request, by the event that the request comes from.
fn replay_requests(
    trace: &Trace,
    mut allocator: Allocator<SimulatedDriver>,
    mut reveal: impl FnMut(&mut SimulatedDriver, u32),
) -> WhatIf {
    let mut places = vec![Place::Nowhere; trace.allocations as usize];
    let mut failure = None;
    let mut refusals = Vec::new();
    let mut at_peak = allocator.statistics().clone();
    for (index, request) in trace.requests.iter().enumerate() {
        reveal(allocator.driver(), trace.events[index]);
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
                refusals.push(served.err());
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
        refusals,
        statistics,
        statistics_at_peak: at_peak,
    }
}
