//! The highest peaks of a run.

use crate::report::{Phase, PhaseReport, Run};

/// The phase in which the most is allocated, and what would be the peak without it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TopPeaks {
    /// The phase with the highest peak.
    pub first: PhaseReport,
    /// The highest of the phases of another kind: what remains once the first is cut below it.
    pub second: Option<PhaseReport>,
}

impl TopPeaks {
    /// Building is not counted; `None` where the run fails while it is built. Of equal peaks the earliest counts.
    pub fn of(run: &Run) -> Option<TopPeaks> {
        let first = *run.peak()?;
        let others = run.phases.iter().filter(|phase| phase.phase != Phase::Build && phase.phase != first.phase);
        let second = others.rev().max_by_key(|phase| phase.peak.allocated).copied();
        Some(TopPeaks { first, second })
    }
}
