//! Training steps: where one begins and ends.
//!
//! The program's own marks come first (`annotated`). Without them, stacks distinguish forward from backward. Each backward
//! pass makes a step, whose beginning is found by comparing what precedes it from step to step (`by_phase`). A recording
//! with stacks but no backward pass has calls of a model (`by_call`). Without stacks, only the repetition of sizes is
//! left (`by_period`).

pub mod annotated;
mod by_call;
mod by_period;
mod by_phase;
pub mod period;

use vramfit_trace::snapshot::{FrameId, Snapshot};

use crate::history::{History, OUTSIDE};
use crate::origin::{Activity, Origins};
use crate::phases::Phases;

/// One training step, or one iteration of a loop without training.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Its first event.
    pub first: u32,
    /// The first event after it.
    pub end: u32,
}

/// What the steps were derived from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basis {
    /// The program's own marks.
    Annotations,
    /// Forward and backward passes.
    Phases,
    /// Calls of a model; there is no backward pass.
    Calls,
    /// The repetition of the requests.
    Period,
}

/// The steps of a recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Steps {
    /// The steps in order. There may be something else between two of them, such as an evaluation.
    pub list: Vec<Step>,
    /// What they were derived from.
    pub basis: Basis,
    /// Whether a backward pass was seen in them; always false without frames.
    pub is_training: bool,
    /// Backward passes a step.
    pub passes: usize,
    /// The first event of a step in which the recording ends; it is not in the list.
    pub unfinished: Option<u32>,
}

impl Steps {
    /// Finds the steps of a recording.
    pub fn of(snapshot: &Snapshot, number: usize, history: &History, origins: &Origins, phases: &Phases) -> Steps {
        let is_training = phases.spans.iter().any(|span| span.activity == Activity::Backward);
        let steps = |list, basis| Steps { list, basis, is_training, passes: 1, unfinished: None };
        let marked = annotated::steps(snapshot, number, &snapshot.devices[number].events);
        if marked.len() >= 2 {
            return steps(marked, Basis::Annotations);
        }
        if is_training {
            let optimizer = annotated::optimizer_events(snapshot, number, &snapshot.devices[number].events);
            let function_of = |id: FrameId| {
                let frame = snapshot.stacks.frame(id);
                (frame.file, frame.function)
            };
            let is_same_function = |a: FrameId, b: FrameId| function_of(a) == function_of(b);
            let by_phase::Found { list, passes, unfinished } =
                by_phase::steps(history, phases, &optimizer, &is_same_function);
            return Steps { list, basis: Basis::Phases, is_training, passes, unfinished };
        }
        if origins.has_frames {
            return steps(by_call::steps(history, phases), Basis::Calls);
        }
        let marked = annotated::optimizer_steps(snapshot, number, &snapshot.devices[number].events);
        if marked.len() >= 2 {
            return steps(marked, Basis::Annotations);
        }
        steps(by_period::steps(history), Basis::Period)
    }

    /// The number of the step that contains `event`, the unfinished one included.
    pub fn number_at(&self, event: u32) -> Option<usize> {
        let is_unfinished = event != OUTSIDE && self.unfinished.is_some_and(|first| event >= first);
        if is_unfinished { Some(self.list.len()) } else { self.at(event) }
    }

    /// The number of the step that contains `event`.
    pub fn at(&self, event: u32) -> Option<usize> {
        if event == OUTSIDE {
            return None;
        }
        let after = self.list.partition_point(|step| step.first <= event);
        after.checked_sub(1).filter(|&index| event < self.list[index].end)
    }

    /// The number of the step that contains `event`, or of the next one if it is between two.
    pub fn begun_by(&self, event: u32) -> usize {
        match event {
            OUTSIDE => self.list.len(),
            _ => self.list.partition_point(|step| step.end <= event),
        }
    }
}
