//! Fragmentation: memory that PyTorch has reserved and cannot use when it needs more.

use super::pinned::Pinned;
use super::settings::{Gain, changes, replay};
use super::{Details, Evidence, Finding};
use crate::history::{OUTSIDE, layouts_at};

/// Memory reserved but not held at the reserved peak.
#[derive(Clone, Debug)]
pub struct Fragmentation {
    /// Bytes reserved at the peak.
    pub reserved: u64,
    /// Bytes held at that event.
    pub allocated: u64,
    /// Where the rest is, and who pins it.
    pub pinned: Pinned,
    /// The reserved peak of a replay under the recorded settings, to compare the gains with.
    pub replayed: u64,
    /// What other settings would have reserved, the lowest first.
    pub gains: Vec<Gain>,
}

/// Free bytes beside live blocks count as fragmentation from this share of the reserved ones on: at the reserved peak the allocator has
/// just requested more although it had this much. And this share must never be needed later either: what the program
/// comes to use is a cache, not waste.
const SHARE: f64 = 0.15;
/// And from this many bytes on: below, it is what any run leaves in segments of 2 and 20 MiB.
const LEAST: u64 = 256 << 20;

/// Fragmentation at the reserved peak.
pub(super) fn find(evidence: &Evidence<'_>) -> Option<Finding> {
    let peak = evidence.reserved_peak;
    let (_, peak_held) = evidence.history.peak_allocated();
    let never_needed = peak.reserved.saturating_sub(peak_held);
    // Segments that are free as a whole are a cache: the allocator gives them back when it needs the memory elsewhere.
    let wasted = peak.pinned.min(never_needed);
    // An expandable segment gives back its free pages one by one.
    if evidence.settings.expandable_segments {
        return None;
    }
    if peak.event == OUTSIDE || wasted < LEAST || (wasted as f64) < SHARE * peak.reserved as f64 {
        return None;
    }
    let layouts = layouts_at(evidence.device, evidence.settings, evidence.start, &[peak.event]);
    let pinned = Pinned::of(evidence, layouts.first()?, peak.event);
    let replayed = replay(evidence.device, evidence.settings, None).totals.peak_reserved;
    let mut gains: Vec<Gain> = changes(evidence.settings, false)
        .into_iter()
        .map(|change| Gain {
            peak_reserved: replay(evidence.device, &change.settings, None).totals.peak_reserved,
            text: change.text,
        })
        .collect();
    gains.sort_by_key(|gain| gain.peak_reserved);
    let allocation = evidence.history.made_by(peak.event);
    let stack = allocation.map_or_else(Default::default, |index| evidence.history.lifetimes[index].stack);
    Some(Finding {
        bytes: peak.pinned,
        per_step: None,
        place: evidence.line_of(stack, peak.event),
        made_at: evidence.origins.get(stack).owner,
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
