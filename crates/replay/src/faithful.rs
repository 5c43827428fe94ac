//! The faithful replay: the recorded requests, the recorded addresses from the driver, compared event by event.

use std::collections::HashMap;

use vramfit_allocator::size::SMALL_SEGMENT;
use vramfit_allocator::{Allocator, Block, BlockId, BlockUse, MempoolId, PendingFree, Segment, Settings, Statistics};
use vramfit_trace::snapshot::{Action, Device, Event};
use vramfit_trace::start::Start;

use crate::convert::mempool;
use crate::initial_layout::{Restored, restore};
use crate::mismatch::{Mismatch, MismatchKind, compare_layout};
use crate::recorded_driver::{RecordedDriver, RecordedMemory};
use crate::recorded_totals::recorded_totals;
use crate::request::{ReleaseCause, classify_releases};
use crate::totals::Totals;

/// How many mismatches are kept with their details; all are counted.
const KEPT_MISMATCHES: usize = 100;

/// What a faithful replay found.
#[derive(Clone, Debug)]
pub struct RecordedReplay {
    /// How many events there are.
    pub events: usize,
    /// How many differences.
    pub mismatches: u64,
    /// The first of them.
    pub first_mismatches: Vec<Mismatch>,
    /// The recording's numbers, derived from its own events and addresses.
    pub recorded: Totals,
    /// The replay's numbers.
    pub replayed: Totals,
    /// The statistics at the end.
    pub statistics: Statistics,
    /// The statistics at the peak of allocated bytes.
    pub statistics_at_peak: Statistics,
    /// The event at which allocated bytes reached their peak.
    pub peak_event: Option<usize>,
    /// Recorded out-of-memory errors, by event.
    pub ooms: Vec<usize>,
}

/// Replays `device` and compares.
pub fn replay_recorded(device: &Device, settings: &Settings) -> RecordedReplay {
    let start = Start::of(device);
    let mut replay = FaithfulReplay::new(device, settings, &start);
    while replay.advance().is_some() {}
    replay.finish(recorded_totals(device, settings, &start))
}

/// Memory that was released since the last allocation.
#[derive(Default)]
struct RecentReleases {
    /// Whether an allocation released it, rather than the program. Where it was all that could be released, PyTorch
    /// counts a retry; where not, it was garbage collection, or oversize blocks just large enough.
    are_by_allocation: bool,
    /// Whether it has segments of the small pool, which garbage collection never releases.
    have_small: bool,
    classified_until: usize,
}

impl RecentReleases {
    fn add(&mut self, device: &Device, index: usize) {
        if index >= self.classified_until {
            let releases = classify_releases(device, index);
            self.are_by_allocation = releases.cause == ReleaseCause::Allocation;
            self.have_small = false;
            self.classified_until = releases.end;
        }
        self.have_small |= device.events[index].size == SMALL_SEGMENT;
    }
}

/// A faithful replay that can be stopped and inspected after every event.
pub struct FaithfulReplay<'a> {
    device: &'a Device,
    next: usize,
    allocator: Allocator<RecordedDriver>,
    live: HashMap<u64, BlockId>,
    pending: HashMap<u64, PendingFree>,
    releases: RecentReleases,
    /// How often the recording shows that all of the cache was released before the driver was asked again.
    retries: u64,
    ooms: Vec<usize>,
    mismatches: u64,
    first_mismatches: Vec<Mismatch>,
    statistics_at_peak: Statistics,
    peak_event: Option<usize>,
}

impl<'a> FaithfulReplay<'a> {
    /// A replay of `device` before its first event.
    pub fn new(device: &'a Device, settings: &Settings, start: &Start) -> FaithfulReplay<'a> {
        // The cap that decided the recorded releases is not recorded, so releases are input.
        let settings = Settings { cap: None, ..settings.clone() };
        let Restored { allocator, live, pending } = restore(settings, device, start);
        FaithfulReplay {
            device,
            next: 0,
            statistics_at_peak: allocator.statistics().clone(),
            allocator,
            live,
            pending,
            releases: RecentReleases::default(),
            retries: 0,
            ooms: Vec::new(),
            mismatches: 0,
            first_mismatches: Vec::new(),
            peak_event: None,
        }
    }

    /// Replays the next event; its index, or `None` after the last.
    pub fn advance(&mut self) -> Option<usize> {
        let index = self.next;
        let event = *self.device.events.get(index)?;
        self.next += 1;
        self.replay_event(index, &event);
        Some(index)
    }

    /// The segments as they are now.
    pub fn segments(&self) -> Vec<Segment> {
        self.allocator.segments()
    }

    /// The block that the program holds now for the allocation recorded at `address`.
    pub fn held_at(&self, address: u64) -> Option<&Block> {
        self.live.get(&address).map(|&id| self.allocator.block(id))
    }

    /// How many differences there are, those between the layouts now and at the recording's end included.
    pub fn count_mismatches(mut self) -> u64 {
        self.compare_layout();
        self.mismatches
    }

    /// The allocator's statistics, with the retries and failures of the recording: the recorded driver refuses nothing,
    /// so the allocator itself counts none.
    fn statistics(&self) -> Statistics {
        let ooms = self.ooms.len() as u64;
        Statistics { ooms, alloc_retries: self.retries, ..self.allocator.statistics().clone() }
    }

    /// Whether the default pools have a segment that is wholly free.
    fn has_releasable_segment(&self) -> bool {
        self.allocator.segments().iter().any(|segment| {
            let is_free = segment.blocks.iter().all(|block| block.usage == BlockUse::Free);
            is_free && segment.pool == MempoolId::DEFAULT && !segment.is_expandable
        })
    }

    fn replay_event(&mut self, index: usize, event: &Event) {
        let Event { address, size, stream, .. } = *event;
        match event.action {
            Action::SegmentAlloc | Action::SegmentMap => {
                self.allocator.driver().upcoming.push_back(RecordedMemory { address, size });
            }
            Action::SegmentFree => {
                self.releases.add(self.device, index);
                if !self.allocator.release_segment_at(address, size, stream) {
                    self.report(Some(index), MismatchKind::Release { address, size });
                }
            }
            Action::SegmentUnmap => {
                self.releases.add(self.device, index);
                if !self.allocator.unmap_at(address, size, stream) {
                    self.report(Some(index), MismatchKind::Release { address, size });
                }
            }
            Action::Alloc => self.allocate(index, event),
            Action::FreeRequested => self.free(index, event),
            Action::FreeCompleted => {
                if let Some(free) = self.pending.remove(&address) {
                    self.allocator.complete_free(free);
                }
            }
            Action::Oom => {
                self.retries += 1;
                self.releases.are_by_allocation = false;
                self.ooms.push(index);
            }
            Action::Snapshot => {}
        }
    }

    fn allocate(&mut self, index: usize, event: &Event) {
        let has_released = std::mem::take(&mut self.releases.are_by_allocation);
        let may_be_garbage = self.allocator.settings().garbage_collection_threshold > 0.0 && !self.releases.have_small;
        if has_released && !may_be_garbage && !self.has_releasable_segment() {
            self.retries += 1;
        }
        let invented = self.allocator.driver().invented;
        // A recorded driver refuses nothing and there is no cap, so an allocation always succeeds.
        let Ok(id) = self.allocator.allocate(event.size, event.stream, mempool(event.pool)) else { return };
        if self.allocator.driver().invented > invented {
            self.report(Some(index), MismatchKind::ExtraSegment);
        }
        while let Some(RecordedMemory { address, size }) = self.allocator.driver().upcoming.pop_front() {
            self.report(Some(index), MismatchKind::MissingSegment { address, size });
        }
        let replayed = self.allocator.block(id).address;
        if replayed != event.address {
            self.report(Some(index), MismatchKind::Address { recorded: event.address, replayed });
        }
        self.live.insert(event.address, id);
        let allocated = self.allocator.statistics().allocated_bytes.all;
        if allocated.current == allocated.peak && allocated.peak > self.statistics_at_peak.allocated_bytes.all.peak {
            self.statistics_at_peak = self.statistics();
            self.peak_event = Some(index);
        }
        self.allocator.clear_changes();
    }

    fn free(&mut self, index: usize, event: &Event) {
        let Some(id) = self.live.remove(&event.address) else {
            self.report(Some(index), MismatchKind::UnknownFree { address: event.address });
            return;
        };
        let next = self.device.events.get(index + 1);
        if next.is_some_and(|next| next.action == Action::FreeCompleted && next.address == event.address) {
            self.allocator.free(id);
        } else {
            self.pending.insert(event.address, self.allocator.request_free(id));
        }
    }

    fn compare_layout(&mut self) {
        for kind in compare_layout(self.device, &self.allocator) {
            self.report(None, kind);
        }
    }

    fn report(&mut self, event: Option<usize>, kind: MismatchKind) {
        self.mismatches += 1;
        if self.first_mismatches.len() < KEPT_MISMATCHES {
            self.first_mismatches.push(Mismatch { event, kind });
        }
    }

    fn finish(mut self, recorded: Totals) -> RecordedReplay {
        self.compare_layout();
        let statistics = self.statistics();
        let replayed = Totals {
            peak_allocated: statistics.allocated_bytes.all.peak,
            peak_reserved: statistics.reserved_bytes.all.peak,
            segments: self.allocator.segment_count() as u64,
        };
        RecordedReplay {
            events: self.device.events.len(),
            mismatches: self.mismatches,
            first_mismatches: self.first_mismatches,
            recorded,
            replayed,
            statistics,
            statistics_at_peak: self.statistics_at_peak,
            peak_event: self.peak_event,
            ooms: self.ooms,
        }
    }
}
