//! The same requests under other settings: what would have happened instead.

use vramfit_allocator::{Allocator, BlockId, OutOfMemory, PendingFree, Settings, SimulatedDriver, Statistics};
use vramfit_trace::snapshot::{Action, Device};
use vramfit_trace::start::Start;

use crate::request::{BEFORE_FIRST_EVENT, Request, Requests};
use crate::totals::Totals;

/// What a what-if replay found.
#[derive(Clone, Debug)]
pub struct WhatIf {
    /// The numbers, up to the failure if there was one.
    pub totals: Totals,
    /// The first allocation that failed, where the program would have stopped.
    pub failure: Option<Failure>,
    /// For each allocation that failed in the recording: the error it would raise here too, or `None` if it would
    /// succeed.
    pub refusals: Vec<Option<OutOfMemory>>,
    /// The statistics at the end.
    pub statistics: Statistics,
    /// The statistics at the peak of allocated bytes.
    pub statistics_at_peak: Statistics,
}

/// An allocation that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The event it comes from, or [`BEFORE_FIRST_EVENT`].
    pub event: u32,
    /// What PyTorch's message would say.
    pub error: OutOfMemory,
}

/// What became of an allocation.
#[derive(Clone, Copy)]
enum AllocationState {
    Absent,
    Held(BlockId),
    Pending(PendingFree),
}

/// What the requests of `device`'s recording would have done under `settings`, on a GPU of `capacity` bytes.
///
/// Addresses decide between free blocks of one size, so new segments are put where the recording shows that CUDA had
/// address space at the time.
pub fn replay_with(device: &Device, settings: Settings, capacity: u64) -> WhatIf {
    let requests = Requests::of(device, &Start::of(device));
    let mut rooms = rooms(device).into_iter().peekable();
    let allocator = Allocator::new(settings, SimulatedDriver::new(capacity));
    replay_requests(&requests, allocator, |driver, event| {
        while let Some(room) = rooms.next_if(|room| event != BEFORE_FIRST_EVENT && room.event <= event) {
            driver.reveal(room.begin, room.end);
        }
    })
}

/// Address space that was free from an event on.
struct Room {
    event: u32,
    begin: u64,
    end: u64,
}

/// The free address space that a recording shows. Where segments are adjacent, it reaches from the one being allocated
/// to the end of the row: CUDA fills a hole from below, and takes new address space from above.
fn rooms(device: &Device) -> Vec<Room> {
    let new_segments: Vec<(u32, u64, u64)> = device
        .events
        .iter()
        .enumerate()
        .filter(|(_, event)| event.action == Action::SegmentAlloc)
        .map(|(index, event)| (index as u32, event.address, event.address.saturating_add(event.size)))
        .collect();
    let mut ranges: Vec<(u64, u64)> = new_segments.iter().map(|&(_, begin, end)| (begin, end)).collect();
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
    new_segments.into_iter().map(room).collect()
}

/// Feeds `requests` to `allocator`, to the end or to an allocation that fails here and not in the recording.
/// `prepare` is called before each request, with the driver and the event that the request comes from.
fn replay_requests(
    requests: &Requests,
    mut allocator: Allocator<SimulatedDriver>,
    mut prepare: impl FnMut(&mut SimulatedDriver, u32),
) -> WhatIf {
    let mut states = vec![AllocationState::Absent; requests.allocations as usize];
    let mut failure = None;
    let mut refusals = Vec::new();
    let mut at_peak = allocator.statistics().clone();
    for (index, request) in requests.list.iter().enumerate() {
        prepare(allocator.driver(), requests.events[index]);
        match *request {
            Request::Allocate { id, size, stream, pool } => match allocator.allocate(size, stream, pool) {
                Ok(block) => states[id.0 as usize] = AllocationState::Held(block),
                Err(error) => {
                    failure = Some(Failure { event: requests.events[index], error });
                    break;
                }
            },
            Request::Free { id } => {
                if let AllocationState::Held(block) =
                    std::mem::replace(&mut states[id.0 as usize], AllocationState::Absent)
                {
                    allocator.free(block);
                }
            }
            Request::FreeLater { id } => {
                if let AllocationState::Held(block) = states[id.0 as usize] {
                    states[id.0 as usize] = AllocationState::Pending(allocator.request_free(block));
                }
            }
            Request::CompleteFree { id } => {
                if let AllocationState::Pending(free) =
                    std::mem::replace(&mut states[id.0 as usize], AllocationState::Absent)
                {
                    allocator.complete_free(free);
                }
            }
            Request::EmptyCache => allocator.empty_cache(),
            Request::Refused { size, stream, pool } => {
                let result = allocator.allocate(size, stream, pool);
                refusals.push(result.err());
                if let Ok(block) = result {
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
