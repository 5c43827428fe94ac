//! What the program was doing at every allocation, and the spans of one activity at one call site.

use vramfit_trace::snapshot::FrameId;

use crate::history::{History, OUTSIDE};
use crate::origin::{Activity, Origin, Origins, SiteId};

/// Consecutive allocations of one activity at one call site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// What the program was doing.
    pub activity: Activity,
    /// The call site; [`SiteId::NONE`] in autograd.
    pub site: SiteId,
    /// The first allocation, counted among those made by events.
    pub first: u32,
    /// The first allocation after it.
    pub end: u32,
    /// The event of the first allocation.
    pub first_event: u32,
    /// The event of the first allocation after it; [`OUTSIDE`] for the last span. Frees in between belong to it.
    pub end_event: u32,
    /// The user's line in which it began. A backward pass has one too: `backward()` makes the first gradient itself.
    pub line: Option<FrameId>,
}

impl Span {
    /// Whether it contains `event`.
    pub fn contains(&self, event: u32) -> bool {
        (self.first_event..self.end_event).contains(&event)
    }
}

/// The activities of a program over time.
#[derive(Clone, Debug, Default)]
pub struct Phases {
    /// What the program was doing, for each allocation made by an event.
    pub activities: Vec<Activity>,
    /// The spans, in order; they tile the allocations.
    pub spans: Vec<Span>,
}

impl Phases {
    /// Follows the allocations of `history`.
    pub fn of(history: &History, origins: &Origins) -> Phases {
        let mut phases = Phases::default();
        let mut current = (Activity::Other, SiteId::NONE);
        for (index, lifetime) in history.births().iter().enumerate() {
            let origin = origins.get(lifetime.stack);
            if let Some(activity) = origin.activity {
                let has_site = activity != Activity::Backward;
                current = (activity, if has_site { origin.site } else { SiteId::NONE });
            }
            phases.activities.push(current.0);
            phases.extend(current, &origin, index, lifetime.birth);
        }
        phases
    }

    fn extend(&mut self, (activity, site): (Activity, SiteId), origin: &Origin, index: usize, event: u32) {
        let number = crate::history::number(index);
        match self.spans.last_mut() {
            Some(last) if (last.activity, last.site) == (activity, site) => last.end = number + 1,
            last => {
                if let Some(last) = last {
                    last.end_event = event;
                }
                self.spans.push(Span {
                    activity,
                    site,
                    first: number,
                    end: number + 1,
                    first_event: event,
                    end_event: OUTSIDE,
                    line: origin.caller,
                });
            }
        }
    }

    /// The span that contains `event`.
    pub fn span_at(&self, event: u32) -> Option<&Span> {
        self.span_index_at(event).map(|index| &self.spans[index])
    }

    /// The number of the span that contains `event`.
    pub fn span_index_at(&self, event: u32) -> Option<usize> {
        let after = self.spans.partition_point(|span| span.first_event <= event);
        after.checked_sub(1).filter(|&index| event != OUTSIDE && event < self.spans[index].end_event)
    }

    /// Whether `event` is in a backward pass.
    pub fn is_backward_at(&self, event: u32) -> bool {
        self.span_at(event).is_some_and(|span| span.activity == Activity::Backward)
    }
}
