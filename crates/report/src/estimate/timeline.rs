//! Allocated memory in the course of a simulated run, thinned out for a drawing.

use serde::Serialize;
use vramfit_eager::memory::Entry;
use vramfit_training::Run;
use vramfit_training::answer::Answer;

use crate::names::PhaseName;

/// Allocated bytes over a run's requests.
#[derive(Debug, Serialize)]
pub struct Timeline {
    /// The most that is allocated in each of equally many requests, in order.
    allocated: Vec<u64>,
    /// The phases, with the share of the requests that have been made when they end.
    phases: Vec<TimelinePhase>,
    /// The share of the requests that have been made at the peak; null for a run without one.
    peak: Option<f64>,
}

/// A phase of a timeline.
#[derive(Debug, Serialize)]
struct TimelinePhase {
    /// The step, from 0; null while the model is built.
    step: Option<u32>,
    /// The phase.
    phase: PhaseName,
    /// The share of the requests that have been made at its end.
    end: f64,
}

impl Timeline {
    /// The expected run in at most so many points.
    pub fn new(answer: &Answer, points: usize) -> Timeline {
        let run = &answer.expected;
        let count = run.journal.len();
        let share = |instant: u32| f64::from(instant) / (count.max(1) as f64);
        let mut allocated = vec![0; points.min(count).max(1)];
        let last = allocated.len() - 1;
        for (index, bytes) in levels(run).into_iter().enumerate() {
            let point = &mut allocated[(index * (last + 1) / count.max(1)).min(last)];
            *point = bytes.max(*point);
        }
        let phase = |phase: &vramfit_training::PhaseReport| TimelinePhase {
            step: phase.step,
            phase: phase.phase.into(),
            end: share(phase.end.min(count as u32)),
        };
        Timeline {
            allocated,
            phases: run.phases.iter().map(phase).collect(),
            peak: answer.peaks.map(|peaks| share(peaks.first.peak.instant)),
        }
    }
}

/// Allocated bytes after each request.
fn levels(run: &Run) -> Vec<u64> {
    // The last label of an allocation has its block. Ids are counted from 0.
    let mut blocks = vec![0; run.labels.iter().map(|label| label.id as usize + 1).max().unwrap_or(0)];
    run.labels.iter().for_each(|label| blocks[label.id as usize] = label.block);
    let block = |id: u32| blocks.get(id as usize).copied().unwrap_or(0);
    let mut allocated = 0_u64;
    let level = |entry: &Entry| {
        match *entry {
            Entry::Allocate { id, .. } => allocated += block(id),
            Entry::Free { id } => allocated = allocated.saturating_sub(block(id)),
        }
        allocated
    };
    run.journal.iter().map(level).collect()
}
