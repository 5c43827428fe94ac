//! Out of memory: what was requested, what there was, and which settings would have avoided it.

use vramfit_allocator::size::segment_size;
use vramfit_replay::{BEFORE_FIRST_EVENT, WhatIf};
use vramfit_trace::snapshot::{Action, Event};

use super::pinned::Pinned;
use super::settings::{Attempt, changes, replay};
use super::{Details, Evidence, Finding};
use crate::history::{layouts_at, number};

/// An allocation that failed.
#[derive(Clone, Debug)]
pub struct OutOfMemory {
    /// Bytes of the block that could not be allocated.
    pub asked: u64,
    /// Bytes requested from the driver for it.
    pub segment: u64,
    /// Free bytes on the device, as recorded; `None` if the failure was not recorded but follows from a cap.
    pub device_free: Option<u64>,
    /// Bytes held.
    pub allocated: u64,
    /// Bytes reserved.
    pub reserved: u64,
    /// Where the reserved but free bytes are, and who pins them.
    pub pinned: Pinned,
    /// Why it failed.
    pub cause: Cause,
    /// How many allocations failed in the recording.
    pub count: usize,
    /// How much PyTorch could reserve.
    pub limit: Limit,
    /// Whether a replay under the recorded settings fails there too; only then do the attempts mean anything.
    pub is_reproduced: bool,
    /// Whether the allocation would have succeeded under other settings.
    pub attempts: Vec<Attempt>,
}

impl OutOfMemory {
    /// Bytes that would be left under the lower bound of the limit if all that is held and requested were packed without a
    /// gap: no setting can leave more. 0 if it would not even fit.
    pub fn spare(&self) -> u64 {
        self.limit.least.saturating_sub(self.allocated.saturating_add(self.asked))
    }
}

/// Why an allocation failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// What is held and what is requested are together more than there is.
    TooMuch,
    /// Enough bytes are free, but in pieces.
    Fragmented,
}

/// How much PyTorch could reserve, as far as known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// The lower bound: it was reserved at some time.
    pub least: u64,
    /// The upper bound: one more segment was refused.
    pub most: u64,
    /// Whether the user gave it.
    pub is_given: bool,
}

/// The failure that ended the run: the last recorded one, or the one a given cap would have caused.
pub(super) fn find(evidence: &Evidence<'_>) -> Option<Finding> {
    let events = &evidence.device.events;
    let recorded = events.iter().rposition(|event| event.action == Action::Oom);
    match recorded {
        Some(index) => Some(recorded_failure(evidence, index)),
        None => predicted_failure(evidence),
    }
}

fn recorded_failure(evidence: &Evidence<'_>, index: usize) -> Finding {
    let events = &evidence.device.events;
    let event = events[index];
    let segment = segment_size(event.size, evidence.settings);
    let allocated = evidence.history.allocated[index];
    let reserved = evidence.history.reserved[index];
    let limit = evidence.vram.map_or_else(
        || bracket(evidence, &event, reserved, segment),
        |vram| Limit { least: vram, most: vram, is_given: true },
    );
    let refusal = events[..index].iter().filter(|event| event.action == Action::Oom).count();
    let is_served = |what_if: &WhatIf| {
        let is_reached =
            what_if.failure.is_none_or(|failure| failure.event != BEFORE_FIRST_EVENT && failure.event as usize > index);
        is_reached && what_if.refusals.get(refusal) == Some(&None)
    };
    let is_reproduced = !is_served(&replay(evidence.device, evidence.settings, Some(limit.least)));
    let attempts = changes(evidence.settings, true)
        .into_iter()
        .map(|change| {
            let serves = |cap: u64| is_served(&replay(evidence.device, &change.settings, Some(cap)));
            let is_served = serves(limit.least);
            let is_perhaps_served = is_served || (limit.most > limit.least && serves(limit.most));
            Attempt { is_served, is_perhaps_served, text: change.text }
        })
        .collect();
    let pinned = pinned(evidence, number(index));
    let free = reserved.saturating_sub(allocated);
    let origin = evidence.origins.get(event.stack);
    Finding {
        bytes: event.size,
        per_step: None,
        place: evidence.line_of(event.stack, number(index)),
        made_at: origin.owner,
        stack: event.stack,
        events: (number(index), number(index)),
        allocations: Vec::new(),
        details: Details::Oom(OutOfMemory {
            asked: event.size,
            segment,
            device_free: Some(event.address),
            allocated,
            reserved,
            pinned,
            cause: if free >= event.size { Cause::Fragmented } else { Cause::TooMuch },
            count: events.iter().filter(|event| event.action == Action::Oom).count(),
            limit,
            is_reproduced,
            attempts,
        }),
    }
}

/// What the failure says about the limit: what was reserved at any time was allowed, one more segment was not. If the
/// device had less left than the segment, that is the limit itself.
fn bracket(evidence: &Evidence<'_>, event: &Event, reserved: u64, segment: u64) -> Limit {
    let (_, peak) = evidence.history.peak_reserved();
    let device_free = event.address;
    let most = reserved.saturating_add(segment).saturating_sub(1);
    if device_free < segment {
        let limit = peak.max(reserved.saturating_add(device_free));
        return Limit { least: limit, most: limit.max(most.min(limit)), is_given: false };
    }
    Limit { least: peak, most: most.max(peak), is_given: false }
}

fn pinned(evidence: &Evidence<'_>, event: u32) -> Pinned {
    let layouts = layouts_at(evidence.device, evidence.settings, evidence.start, &[event]);
    layouts.first().map_or_else(Pinned::default, |layout| Pinned::of(evidence, layout, event))
}

/// What a cap given by the user would have done to a run that did not fail.
fn predicted_failure(evidence: &Evidence<'_>) -> Option<Finding> {
    let vram = evidence.vram?;
    let what_if = replay(evidence.device, evidence.settings, Some(vram));
    let failure = what_if.failure?;
    let error = failure.error;
    let attempts = changes(evidence.settings, true)
        .into_iter()
        .map(|change| {
            let is_served = replay(evidence.device, &change.settings, Some(vram)).failure.is_none();
            Attempt { is_served, is_perhaps_served: is_served, text: change.text }
        })
        .collect();
    let is_before = failure.event == BEFORE_FIRST_EVENT;
    let index = if is_before { 0 } else { failure.event };
    let stack = evidence.device.events.get(index as usize).filter(|_| !is_before).map(|event| event.stack);
    let stack = stack.unwrap_or_default();
    let origin = evidence.origins.get(stack);
    Some(Finding {
        bytes: error.block,
        per_step: None,
        place: evidence.line_of(stack, index),
        made_at: origin.owner,
        stack,
        events: (index, index),
        allocations: Vec::new(),
        details: Details::Oom(OutOfMemory {
            asked: error.block,
            segment: error.segment,
            device_free: None,
            allocated: error.allocated,
            reserved: error.reserved,
            pinned: Pinned::default(),
            cause: if error.reserved.saturating_sub(error.allocated) >= error.block {
                Cause::Fragmented
            } else {
                Cause::TooMuch
            },
            count: 0,
            limit: Limit { least: vram, most: vram, is_given: true },
            is_reproduced: true,
            attempts,
        }),
    })
}
