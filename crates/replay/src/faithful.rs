//! The faithful replay: same requests, same addresses from the driver, compared event by event.

use std::collections::HashMap;

use vramfit_allocator::size::SMALL_SEGMENT;
use vramfit_allocator::{Allocator, Block, BlockId, MempoolId, PendingFree, Segment, Settings, Statistics, Use};
use vramfit_trace::snapshot::{Action, Device, Event};
use vramfit_trace::start::Start;

use crate::convert::mempool;
use crate::initial_layout::{Restored, restore};
use crate::mismatch::{Mismatch, MismatchKind, compare_layout};
use crate::recorded_driver::{Gain, RecordedDriver};
use crate::request::judge_release;
use crate::totals::Totals;

/// How many mismatches are kept with their details; all are counted.
const KEPT_MISMATCHES: usize = 100;

/// What a faithful replay found.
#[derive(Clone, Debug)]
pub struct RecordedReplay {
    /// How many events there were.
    pub events: usize,
    /// How many differences.
    pub mismatches: u64,
    /// The first of them.
    pub first_mismatches: Vec<Mismatch>,
    /// The recording's numbers: reserved bytes and segments from its own segment events; the allocated peak with the
    /// blocks' sizes as the replay, fed with the recorded addresses, gives them.
    pub recorded: Totals,
    /// The replay's numbers.
    pub replayed: Totals,
    /// The statistics at the end.
    pub statistics: Statistics,
    /// The statistics when the allocated peak was reached.
    pub statistics_at_peak: Statistics,
    /// The event at which the allocated peak was reached.
    pub peak_event: Option<usize>,
    /// Recorded out-of-memory errors, by event.
    pub ooms: Vec<usize>,
}

/// Replays `device` and compares.
pub fn replay_recorded(device: &Device, settings: &Settings) -> RecordedReplay {
    let mut replay = FaithfulReplay::new(device, settings, &Start::of(device));
    while replay.advance().is_some() {}
    replay.finish()
}

/// Memory given back since the last allocation.
#[derive(Default)]
struct Releases {
    /// Whether an allocation gave it back, rather than the program. Where it was all that could be given back, PyTorch
    /// counts a retry; where not, it was garbage collection or made room just large enough.
    are_by_allocation: bool,
    /// Whether segments of the small pool are among it, which garbage collection never takes.
    have_small: bool,
    judged_until: usize,
}

impl Releases {
    fn note(&mut self, device: &Device, index: usize) {
        if index >= self.judged_until {
            let (is_by_program, end) = judge_release(device, index);
            self.are_by_allocation = !is_by_program;
            self.have_small = false;
            self.judged_until = end;
        }
        self.have_small |= device.events[index].size == SMALL_SEGMENT;
    }
}

/// A faithful replay under way, for those who want to look at every instant.
pub struct FaithfulReplay<'a> {
    device: &'a Device,
    next: usize,
    allocator: Allocator<RecordedDriver>,
    live: HashMap<u64, BlockId>,
    pending: HashMap<u64, PendingFree>,
    recorded_reserved: u64,
    recorded_peak_reserved: u64,
    /// How often the recording shows that the whole cache was given back before the driver was asked again.
    recorded_retries: u64,
    releases: Releases,
    result: RecordedReplay,
}

impl<'a> FaithfulReplay<'a> {
    /// A replay of `device` before its first event.
    pub fn new(device: &'a Device, settings: &Settings, start: &Start) -> FaithfulReplay<'a> {
        // What the recording shows was decided by a cap that it does not tell; its releases are input here.
        let settings = Settings { cap: None, ..settings.clone() };
        let Restored { allocator, live, pending } = restore(settings, device, start);
        let totals = Totals::default();
        let statistics = allocator.statistics().clone();
        let result = RecordedReplay {
            events: device.events.len(),
            mismatches: 0,
            first_mismatches: Vec::new(),
            recorded: totals,
            replayed: totals,
            statistics: statistics.clone(),
            statistics_at_peak: statistics,
            peak_event: None,
            ooms: Vec::new(),
        };
        let reserved = start.reserved();
        FaithfulReplay {
            device,
            next: 0,
            allocator,
            live,
            pending,
            recorded_reserved: reserved,
            recorded_peak_reserved: reserved,
            recorded_retries: 0,
            releases: Releases::default(),
            result,
        }
    }

    /// Replays the next event; its index, or `None` after the last.
    pub fn advance(&mut self) -> Option<usize> {
        let index = self.next;
        if index >= self.device.events.len() {
            return None;
        }
        self.next += 1;
        self.step(index);
        Some(index)
    }

    /// The allocator's statistics, with the retries and failures of the recording: the recorded driver refuses nothing,
    /// so the allocator itself counts none.
    fn statistics(&self) -> Statistics {
        let ooms = self.result.ooms.len() as u64;
        Statistics { ooms, alloc_retries: self.recorded_retries, ..self.allocator.statistics().clone() }
    }

    /// Whether the default pools hold a segment that is wholly free.
    fn has_releasable_segment(&self) -> bool {
        self.allocator.segments().iter().any(|segment| {
            let is_free = segment.blocks.iter().all(|block| block.usage == Use::Free);
            is_free && segment.pool == MempoolId::DEFAULT && !segment.is_expandable
        })
    }

    /// The segments as they are now.
    pub fn segments(&self) -> Vec<Segment> {
        self.allocator.segments()
    }

    /// The block that the program holds at a recorded address now.
    pub fn held_at(&self, address: u64) -> Option<&Block> {
        self.live.get(&address).map(|&id| self.allocator.block(id))
    }

    fn step(&mut self, index: usize) {
        let event = self.device.events[index];
        match event.action {
            Action::SegmentAlloc | Action::SegmentMap => {
                self.recorded_reserved = self.recorded_reserved.saturating_add(event.size);
                self.recorded_peak_reserved = self.recorded_peak_reserved.max(self.recorded_reserved);
                self.allocator.driver().gains.push_back(Gain { address: event.address, size: event.size });
            }
            Action::SegmentFree => {
                self.recorded_reserved = self.recorded_reserved.saturating_sub(event.size);
                self.releases.note(self.device, index);
                if !self.allocator.release_segment_at(event.address, event.size, event.stream) {
                    self.report(index, MismatchKind::Release { address: event.address, size: event.size });
                }
            }
            Action::SegmentUnmap => {
                self.recorded_reserved = self.recorded_reserved.saturating_sub(event.size);
                self.releases.note(self.device, index);
                if !self.allocator.unmap_at(event.address, event.size, event.stream) {
                    self.report(index, MismatchKind::Release { address: event.address, size: event.size });
                }
            }
            Action::Alloc => self.allocate(index, &event),
            Action::FreeRequested => self.free(index, &event),
            Action::FreeCompleted => {
                if let Some(free) = self.pending.remove(&event.address) {
                    self.allocator.complete_free(free);
                }
            }
            Action::Oom => {
                self.recorded_retries += 1;
                self.releases.are_by_allocation = false;
                self.result.ooms.push(index);
            }
            Action::Snapshot => {}
        }
    }

    fn allocate(&mut self, index: usize, event: &Event) {
        let releases = std::mem::take(&mut self.releases.are_by_allocation);
        let may_be_garbage = self.allocator.settings().garbage_collection_threshold > 0.0 && !self.releases.have_small;
        if releases && !may_be_garbage && !self.has_releasable_segment() {
            self.recorded_retries += 1;
        }
        let invented = self.allocator.driver().invented;
        // A recorded driver refuses nothing and there is no cap, so an allocation always succeeds.
        let Ok(id) = self.allocator.allocate(event.size, event.stream, mempool(event.pool)) else { return };
        if self.allocator.driver().invented > invented {
            self.report(index, MismatchKind::ExtraSegment);
        }
        while let Some(gain) = self.allocator.driver().gains.pop_front() {
            self.report(index, MismatchKind::MissingSegment { address: gain.address, size: gain.size });
        }
        let replayed = self.allocator.block(id).address;
        if replayed != event.address {
            self.report(index, MismatchKind::Address { recorded: event.address, replayed });
        }
        self.live.insert(event.address, id);
        let allocated = self.allocator.statistics().allocated_bytes.all;
        if allocated.current == allocated.peak
            && allocated.peak > self.result.statistics_at_peak.allocated_bytes.all.peak
        {
            self.result.statistics_at_peak = self.statistics();
            self.result.peak_event = Some(index);
        }
        self.allocator.clear_changes();
    }

    fn free(&mut self, index: usize, event: &Event) {
        let Some(id) = self.live.remove(&event.address) else {
            self.report(index, MismatchKind::UnknownFree { address: event.address });
            return;
        };
        let next = self.device.events.get(index + 1);
        if next.is_some_and(|next| next.action == Action::FreeCompleted && next.address == event.address) {
            self.allocator.free(id);
        } else {
            self.pending.insert(event.address, self.allocator.request_free(id));
        }
    }

    fn report(&mut self, index: usize, kind: MismatchKind) {
        self.keep(Mismatch { event: Some(index), kind });
    }

    fn keep(&mut self, mismatch: Mismatch) {
        self.result.mismatches += 1;
        if self.result.first_mismatches.len() < KEPT_MISMATCHES {
            self.result.first_mismatches.push(mismatch);
        }
    }

    /// What the whole replay found.
    pub fn finish(mut self) -> RecordedReplay {
        for mismatch in compare_layout(self.device, &self.allocator) {
            self.keep(mismatch);
        }
        let statistics = self.statistics();
        self.result.replayed = Totals {
            peak_allocated: statistics.allocated_bytes.all.peak,
            peak_reserved: statistics.reserved_bytes.all.peak,
            segments: self.allocator.segment_count() as u64,
        };
        self.result.recorded = Totals {
            peak_allocated: statistics.allocated_bytes.all.peak,
            peak_reserved: self.recorded_peak_reserved,
            segments: self.device.segments.len() as u64,
        };
        self.result.statistics = statistics;
        self.result
    }
}
