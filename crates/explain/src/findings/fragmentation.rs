//! Fragmentation: memory that PyTorch has reserved and cannot use when it needs more.

use super::pinned::Pinned;
use super::settings::{Gain, changes, replay};
use super::{Context, Details, Finding};
use crate::history::{OUTSIDE, layouts_at};

/// Memory reserved but not held when the most was reserved.
#[derive(Clone, Debug)]
pub struct Fragmentation {
    /// The most bytes reserved.
    pub reserved: u64,
    /// Bytes held at that instant.
    pub allocated: u64,
    /// Where the rest lies, and who pins it.
    pub pinned: Pinned,
    /// The reserved peak of a replay under the recorded settings, with which the gains compare.
    pub replayed: u64,
    /// What other settings would have reserved, the least first.
    pub gains: Vec<Gain>,
}

/// Stranded bytes count as fragmentation from this part of the reserved ones on: at the reserved peak the allocator
/// has just asked for more although it had this much. And this part must never be needed later either: what the
/// program comes to use is a cache, not waste.
const SHARE: f64 = 0.2;
/// And from this many on: below, it is the grain of segments of 2 and 20 MiB.
const LEAST: u64 = 128 << 20;

/// Looks at the instant at which the most was reserved.
pub(super) fn find(context: &Context<'_>) -> Option<Finding> {
    let peak = context.reserved_peak;
    let stranded = peak.stranded();
    let (_, most_held) = context.history.peak_allocated();
    let never_needed = peak.reserved.saturating_sub(most_held);
    let wasted = stranded.min(never_needed);
    if peak.event == OUTSIDE || wasted < LEAST || (wasted as f64) < SHARE * peak.reserved as f64 {
        return None;
    }
    let layouts = layouts_at(context.device, context.settings, context.start, &[peak.event]);
    let pinned = Pinned::of(context, layouts.first()?, peak.event);
    let replayed = replay(context.device, context.settings, None).totals.peak_reserved;
    let mut gains: Vec<Gain> = changes(context.settings, false)
        .into_iter()
        .map(|change| Gain {
            peak_reserved: replay(context.device, &change.settings, None).totals.peak_reserved,
            text: change.text,
        })
        .collect();
    gains.sort_by_key(|gain| gain.peak_reserved);
    let allocation = context.history.made_by(peak.event);
    let stack = allocation.map_or_else(Default::default, |index| context.history.lifetimes[index].stack);
    Some(Finding {
        bytes: stranded,
        per_step: None,
        place: context.line_of(stack, peak.event),
        made_at: context.origins.get(stack).owner,
        stack,
        events: (peak.event, peak.event),
        allocations: Vec::new(),
        details: Details::Fragmentation(Fragmentation {
            reserved: peak.reserved,
            allocated: peak.allocated,
            pinned,
            replayed,
            gains,
        }),
    })
}
