//! The steps after those that a run reports: answered until memory repeats, to see whether it grows.
//!
//! Which of several equal free blocks is used depends on the steps before, so memory may need more steps to repeat than a
//! run reports, and may grow in them.

use vramfit_eager::memory::Entry;

use super::answering::{Answering, Requests};
use super::steady_state::{MemoryLayout, SteadyState};
use crate::program::Mark;
use crate::report::{LaterPeaks, PhaseReport};

/// For how many steps the small pool is followed once the large pool is in a steady state: its blocks may take long to
/// return to their places, and it grows by 2 MiB at a time.
const SMALL_POOL_STEPS: usize = 2;

/// What is known of memory at the starts of the steps so far.
pub(super) struct History {
    layouts: Vec<MemoryLayout>,
    steady: Option<SteadyState>,
    /// How many steps only the small pool has been followed for.
    small_pool_steps: usize,
}

impl History {
    /// `layout` is that of the first step that is repeated.
    pub(super) fn new(layout: MemoryLayout) -> History {
        History { layouts: vec![layout], steady: None, small_pool_steps: 0 }
    }

    /// The layout of the last step whose requests were all answered.
    pub(super) fn last(&self) -> Option<&MemoryLayout> {
        self.layouts.last()
    }

    /// Adds the layout at the start of a step.
    pub(super) fn add(&mut self, layout: MemoryLayout) {
        self.layouts.push(layout);
    }

    /// Notes that memory has reached a steady state.
    pub(super) fn set_steady(&mut self, steady: Option<SteadyState>) {
        self.steady = steady;
    }

    pub(super) fn steady(&self) -> Option<SteadyState> {
        self.steady
    }

    /// Whether the step that begins with this layout goes as an earlier one did, and what follows as what followed that.
    fn repeats(&self, now: &MemoryLayout, answering: &Answering<'_>) -> Option<SteadyState> {
        let has =
            |is_equal: fn(&MemoryLayout, &MemoryLayout) -> bool| self.layouts.iter().any(|old| is_equal(old, now));
        if self.layouts.iter().any(|old| old.has_large_of(now) && old.has_small_of(now)) {
            return Some(SteadyState::BothPools);
        }
        if !answering.are_pools_apart() {
            return None;
        }
        match (self.steady.is_some() || has(MemoryLayout::has_large_of), has(MemoryLayout::has_small_of)) {
            (true, true) => Some(SteadyState::BothPools),
            (true, false) => Some(SteadyState::LargePool),
            _ => None,
        }
    }
}

/// A step after those that are reported.
pub(super) struct LaterStep<'p> {
    /// Its requests.
    pub entries: &'p [Entry],
    /// How many of them are frees before the first allocation.
    pub frees: usize,
    /// How many requests came before the step that it repeats.
    pub start: usize,
    /// Its phases.
    pub marks: Vec<Mark>,
}

impl Answering<'_> {
    /// Answers a later step as far as needed; false where memory repeats or a request failed. `layout` is that after the
    /// frees of the step.
    pub(super) fn answer_later(
        &mut self,
        history: &mut History,
        step: &LaterStep<'_>,
        requests: &mut Requests<'_>,
        layout: impl Fn(&Answering<'_>) -> MemoryLayout,
        renumber: impl Fn(u32) -> u32,
    ) -> bool {
        if history.steady == Some(SteadyState::BothPools) || history.small_pool_steps == SMALL_POOL_STEPS {
            return false;
        }
        if history.steady.is_some() {
            self.answer_small_pool(&step.entries[..step.frees], &renumber);
        } else if !self.answer_until(requests, step.start + step.frees, &renumber) {
            return false;
        }
        let now = layout(self);
        history.steady = history.repeats(&now, self);
        history.add(now);
        match history.steady {
            Some(SteadyState::BothPools) => false,
            Some(SteadyState::LargePool) => {
                history.small_pool_steps += 1;
                self.answer_small_pool(&step.entries[step.frees..], renumber);
                self.is_valid
            }
            None => {
                for mark in &step.marks {
                    let goes_on = self.answer_until(requests, mark.end, &renumber);
                    self.end_phase(mark);
                    if !goes_on {
                        return false;
                    }
                }
                true
            }
        }
    }
}

/// What the phases of later steps need beyond the reported ones.
pub(super) fn later_peaks(reported: &[PhaseReport], later: &[PhaseReport]) -> Option<LaterPeaks> {
    let highest =
        |phases: &[PhaseReport], number: fn(&PhaseReport) -> u64| phases.iter().map(number).max().unwrap_or(0);
    let numbers: [fn(&PhaseReport) -> u64; 2] = [|phase| phase.peak.allocated, |phase| phase.peak_reserved];
    let before = numbers.map(|number| highest(reported, number));
    let after = numbers.map(|number| highest(later, number));
    let grows = |phase: &&PhaseReport| phase.peak.allocated > before[0] || phase.peak_reserved > before[1];
    let step = later.iter().find(grows)?.step?;
    Some(LaterPeaks { step, allocated: after[0].max(before[0]), reserved: after[1].max(before[1]) })
}
