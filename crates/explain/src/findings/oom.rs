//! Out of memory: what was asked for, what there was, and what would have let it through.

use vramfit_allocator::size::segment_size;
use vramfit_replay::{BEFORE_FIRST_EVENT, WhatIf};
use vramfit_trace::snapshot::{Action, Event};

use super::pinned::Pinned;
use super::settings::{Attempt, changes, replay};
use super::{Context, Details, Finding};
use crate::history::{layouts_at, number};

/// An allocation that failed.
#[derive(Clone, Debug)]
pub struct OutOfMemory {
    /// Bytes of the block that could not be had.
    pub asked: u64,
    /// Bytes that were asked of the driver for it.
    pub segment: u64,
    /// Free bytes on the device, as recorded; `None` where the failure was not recorded but follows from a cap.
    pub device_free: Option<u64>,
    /// Bytes held.
    pub allocated: u64,
    /// Bytes reserved.
    pub reserved: u64,
    /// Where the reserved but free bytes lie, and who pins them.
    pub pinned: Pinned,
    /// Why it failed.
    pub cause: Cause,
    /// How many allocations failed in the recording.
    pub count: usize,
    /// How much PyTorch could reserve.
    pub limit: Limit,
    /// Whether a replay under the recorded settings fails there too; only then do the attempts tell anything.
    pub is_reproduced: bool,
    /// Whether other settings would have let it through.
    pub attempts: Vec<Attempt>,
}

impl OutOfMemory {
    /// Bytes that would be left under the least limit, were all that is held and asked for packed without a gap: no
    /// setting can leave more. 0 where it would not even fit.
    pub fn spare(&self) -> u64 {
        self.limit.least.saturating_sub(self.allocated.saturating_add(self.asked))
    }
}

/// Why an allocation failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// What is held and what is asked for are together more than there is.
    TooMuch,
    /// Enough bytes are free, but in pieces.
    Fragmented,
}

/// How much PyTorch could reserve: what is known of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// At least this: it was reserved at some time.
    pub least: u64,
    /// At most this: one more segment was refused.
    pub most: u64,
    /// Whether the user gave it.
    pub is_given: bool,
}

/// The failure that ended the run: the last recorded one, or the one a given cap would have caused.
pub(super) fn find(context: &Context<'_>) -> Option<Finding> {
    let events = &context.device.events;
    let recorded = events.iter().rposition(|event| event.action == Action::Oom);
    match recorded {
        Some(index) => Some(recorded_failure(context, index)),
        None => predicted_failure(context),
    }
}

fn recorded_failure(context: &Context<'_>, index: usize) -> Finding {
    let events = &context.device.events;
    let event = events[index];
    let segment = segment_size(event.size, context.settings);
    let allocated = context.history.allocated[index];
    let reserved = context.history.reserved[index];
    let limit = context.vram.map_or_else(
        || bracket(context, &event, reserved, segment),
        |vram| Limit { least: vram, most: vram, is_given: true },
    );
    let refusal = events[..index].iter().filter(|event| event.action == Action::Oom).count();
    let is_served = |what_if: &WhatIf| {
        let is_reached =
            what_if.failure.is_none_or(|failure| failure.event != BEFORE_FIRST_EVENT && failure.event as usize > index);
        is_reached && what_if.refusals.get(refusal) == Some(&None)
    };
    let is_reproduced = !is_served(&replay(context.device, context.settings, Some(limit.least)));
    let attempts = changes(context.settings, true)
        .into_iter()
        .map(|change| {
            let serves = |cap: u64| is_served(&replay(context.device, &change.settings, Some(cap)));
            let is_served = serves(limit.least);
            let is_perhaps_served = is_served || (limit.most > limit.least && serves(limit.most));
            Attempt { is_served, is_perhaps_served, text: change.text }
        })
        .collect();
    let pinned = pinned(context, number(index));
    let free = reserved.saturating_sub(allocated);
    let origin = context.origins.get(event.stack);
    Finding {
        bytes: event.size,
        per_step: None,
        place: context.line_of(event.stack, number(index)),
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

/// What the refusal says about the limit: what was reserved at any time was allowed, one more segment was not. Where
/// the device had less left than the segment, that is the limit itself.
fn bracket(context: &Context<'_>, event: &Event, reserved: u64, segment: u64) -> Limit {
    let (_, peak) = context.history.peak_reserved();
    let device_free = event.address;
    let most = reserved.saturating_add(segment).saturating_sub(1);
    if device_free < segment {
        let limit = peak.max(reserved.saturating_add(device_free));
        return Limit { least: limit, most: limit.max(most.min(limit)), is_given: false };
    }
    Limit { least: peak, most: most.max(peak), is_given: false }
}

fn pinned(context: &Context<'_>, event: u32) -> Pinned {
    let layouts = layouts_at(context.device, context.settings, context.start, &[event]);
    layouts.first().map_or_else(Pinned::default, |layout| Pinned::of(context, layout, event))
}

/// What a cap the user gave would have done to a run that went well.
fn predicted_failure(context: &Context<'_>) -> Option<Finding> {
    let vram = context.vram?;
    let what_if = replay(context.device, context.settings, Some(vram));
    let failure = what_if.failure?;
    let error = failure.error;
    let attempts = changes(context.settings, true)
        .into_iter()
        .map(|change| {
            let is_served = replay(context.device, &change.settings, Some(vram)).failure.is_none();
            Attempt { is_served, is_perhaps_served: is_served, text: change.text }
        })
        .collect();
    let is_before = failure.event == BEFORE_FIRST_EVENT;
    let index = if is_before { 0 } else { failure.event };
    let stack = context.device.events.get(index as usize).filter(|_| !is_before).map(|event| event.stack);
    let stack = stack.unwrap_or_default();
    let origin = context.origins.get(stack);
    Some(Finding {
        bytes: error.block,
        per_step: None,
        place: context.line_of(stack, index),
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
