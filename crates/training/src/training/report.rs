//! What a simulated run tells: its phases, its peaks, what no rule covered.

use vramfit_allocator::{OutOfMemory, SegmentChange};

use vramfit_eager::autograd::{Guessed, Libraries};
use vramfit_eager::forward::Missing;
use vramfit_eager::memory::{Category, Entry};

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

/// What is held at an instant, by category: bytes of blocks, and how much of that is rounding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// Bytes asked for, by [`Category`].
    pub requested: [u64; Category::COUNT],
    /// Bytes of blocks beyond what was asked for.
    pub rounding: u64,
}

/// The most that was allocated within a phase, and when.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Peak {
    /// Bytes of blocks.
    pub allocated: u64,
    /// What they were for.
    pub account: Account,
    /// What the program was doing.
    pub place: u32,
    /// How many requests there had been, the allocation that made the peak counted.
    pub instant: u32,
}

/// What a piece of memory is for, from an instant on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label {
    /// How many requests there had been, the allocation itself counted.
    pub instant: u32,
    /// The memory's number.
    pub id: u32,
    /// Bytes of its block.
    pub block: u64,
    /// Where it lies.
    pub address: u64,
    /// What it is for.
    pub category: Category,
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
    /// How many requests there had been when it ended.
    pub end: u32,
}

/// What a simulated run gave.
#[derive(Clone, Debug)]
pub struct Run {
    /// The phases in order; where an allocation failed, the last is the one it failed in.
    pub phases: Vec<PhaseReport>,
    /// The most that was reserved after building.
    pub peak_reserved: u64,
    /// Operators without a rule, with the steps that call them in one pass.
    pub missing: Missing,
    /// What was guessed from similar recordings, with how often in the steps that were simulated.
    pub guessed: Guessed,
    /// What the process has loaded.
    pub libraries: Libraries,
    /// The allocation that failed, if one did.
    pub failure: Option<Failure>,
    /// The requests, where they were asked for.
    pub journal: Vec<Entry>,
    /// What the memory of those requests was for.
    pub labels: Vec<Label>,
    /// Segments that came and went, each with the number of requests up to it, that one counted.
    pub segments: Vec<(u32, SegmentChange)>,
}

/// An allocation that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What PyTorch says of it.
    pub error: OutOfMemory,
    /// What the program was doing.
    pub place: u32,
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
