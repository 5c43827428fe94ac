//! What a simulated run tells: its phases, its peaks, what no rule covered.

use vramfit_allocator::OutOfMemory;

use crate::forward::Missing;
use crate::memory::{Entry, Peak, SharedMemory};

/// A part of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Moving the model and the inputs to the GPU, and the optimizer's constructor.
    Build,
    /// The forward pass and the loss.
    Forward,
    /// The backward pass.
    Backward,
    /// The optimizer's step.
    Step,
    /// A forward pass in evaluation.
    Eval,
}

impl Phase {
    /// Its name in reports and measurements.
    pub fn name(self) -> &'static str {
        match self {
            Phase::Build => "build",
            Phase::Forward => "forward",
            Phase::Backward => "backward",
            Phase::Step => "step",
            Phase::Eval => "eval",
        }
    }
}

/// A phase's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PhaseReport {
    /// Which.
    pub phase: Phase,
    /// In which step; `None` while building.
    pub step: Option<u32>,
    /// Of which micro-batch, where the phase belongs to one.
    pub micro: Option<u32>,
    /// Allocated at its end.
    pub allocated: u64,
    /// The most within it.
    pub peak: Peak,
    /// Reserved at its end.
    pub reserved: u64,
    /// The most that was reserved within it.
    pub peak_reserved: u64,
    /// Where its requests begin in the journal.
    pub journal_start: usize,
}

/// What a simulated run gave.
#[derive(Clone, Debug)]
pub struct Run {
    /// The phases in order.
    pub phases: Vec<PhaseReport>,
    /// The most that was reserved after building.
    pub peak_reserved: u64,
    /// Operators without a rule, with how often they are called in one pass.
    pub missing: Missing,
    /// What was guessed for want of a recording, with how often in the whole run.
    pub guessed: Missing,
    /// The allocation that failed, if one did.
    pub failure: Option<OutOfMemory>,
    /// The requests, where they were asked for.
    pub journal: Vec<Entry>,
}

impl Run {
    /// The phase in which the most was allocated, building not counted: the first of equal ones.
    pub fn peak(&self) -> Option<&PhaseReport> {
        let mut best: Option<&PhaseReport> = None;
        for phase in self.phases.iter().filter(|phase| phase.phase != Phase::Build) {
            if best.is_none_or(|found| phase.peak.allocated > found.peak.allocated) {
                best = Some(phase);
            }
        }
        best
    }
}

/// Writes the phases down as they end.
pub(super) struct Reports {
    memory: SharedMemory,
    phases: Vec<PhaseReport>,
    journal_start: usize,
}

impl Reports {
    pub(super) fn new(memory: SharedMemory) -> Reports {
        Reports { memory, phases: Vec::new(), journal_start: 0 }
    }

    pub(super) fn end(&mut self, phase: Phase, step: Option<u32>, micro: Option<u32>) {
        let mut memory = self.memory.borrow_mut();
        let report = PhaseReport {
            phase,
            step,
            micro,
            allocated: memory.allocator().allocated_bytes(),
            peak: memory.peak(),
            reserved: memory.allocator().reserved_bytes(),
            peak_reserved: memory.allocator().statistics().reserved_bytes.all.peak,
            journal_start: self.journal_start,
        };
        self.journal_start = memory.journal().len();
        memory.reset_peak();
        drop(memory);
        self.phases.push(report);
    }

    pub(super) fn finish(self, missing: Missing, guessed: Missing) -> Run {
        let built = self.phases.iter().filter(|phase| phase.phase != Phase::Build);
        let peak_reserved = built.map(|phase| phase.peak_reserved).max().unwrap_or(0);
        let memory = self.memory.borrow();
        let (failure, journal) = (memory.failure(), memory.journal().to_vec());
        drop(memory);
        Run { phases: self.phases, peak_reserved, missing, guessed, failure, journal }
    }
}
