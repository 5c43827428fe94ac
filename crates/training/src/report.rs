//! The result of a simulated run: its phases, peaks and requests.

use vramfit_allocator::{OutOfMemory, SegmentChange};

use vramfit_eager::autograd::{CudnnSources, Guessed, Libraries};
use vramfit_eager::forward::Missing;
use vramfit_eager::memory::{Category, Entry};

/// A phase of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// The model and the inputs move to the GPU; the optimizer is constructed.
    Build,
    /// The forward pass and the loss.
    Forward,
    /// The backward pass.
    Backward,
    /// The optimizer's step.
    Step,
    /// A forward pass of an evaluation.
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

/// Live bytes at an instant, by category.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// Requested bytes, by [`Category`].
    pub requested: [u64; Category::COUNT],
    /// Bytes of blocks beyond the requested ones.
    pub rounding: u64,
    /// The sum of the squares of what each block has beyond the request, in sectors of 512 bytes.
    pub squared_rounding: u128,
}

/// The peak of live bytes within a phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Peak {
    /// Bytes of blocks.
    pub allocated: u64,
    /// The live bytes by category.
    pub account: Account,
    /// The captured step that reached the peak, as in [`Entry::Allocate`].
    pub origin: u32,
    /// How many requests had been made, the one that reached the peak included.
    pub instant: u32,
}

/// The category of an allocation from an instant on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label {
    /// How many requests had been made, the allocation included.
    pub instant: u32,
    /// The number of the allocation.
    pub id: u32,
    /// Bytes of its block.
    pub block: u64,
    /// Its address.
    pub address: u64,
    /// What it is for.
    pub category: Category,
}

/// The numbers of one phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PhaseReport {
    /// Which phase.
    pub phase: Phase,
    /// Which step; `None` while building.
    pub step: Option<u32>,
    /// Which micro-batch, where the phase belongs to one.
    pub micro: Option<u32>,
    /// Allocated at its end.
    pub allocated: u64,
    /// The peak of live bytes within it.
    pub peak: Peak,
    /// Reserved at its end.
    pub reserved: u64,
    /// The peak of reserved bytes within it.
    pub peak_reserved: u64,
    /// How many requests had been made when it ended.
    pub end: u32,
}

/// The result of a simulated run.
#[derive(Clone, Debug)]
pub struct Run {
    /// The phases in order; if an allocation failed, it failed in the last one.
    pub phases: Vec<PhaseReport>,
    /// The peak of reserved bytes after building.
    pub peak_reserved: u64,
    /// What later steps need, if more: only where a run was followed further.
    pub later: Option<LaterPeaks>,
    /// Bytes of optimizer states in managed memory, which the allocator does not see.
    pub managed: u64,
    /// Operators without a rule, with the steps of a pass that call them.
    pub missing: Missing,
    /// Workspaces that were estimated from similar recordings, with how often in the simulated steps.
    pub guessed: Guessed,
    /// Where the workspaces of cuDNN came from.
    pub cudnn_sources: CudnnSources,
    /// The libraries that the process has loaded.
    pub libraries: Libraries,
    /// The allocation that failed, if one did.
    pub failure: Option<Failure>,
    /// The requests; empty unless the journal was kept.
    pub journal: Vec<Entry>,
    /// The categories of the allocations in the journal.
    pub labels: Vec<Label>,
    /// Segments that were allocated and freed, each with the number of requests up to it, that one included.
    pub segments: Vec<(u32, SegmentChange)>,
}

/// The peaks of a training over all steps, where steps after the reported ones need more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaterPeaks {
    /// The first step that needs more.
    pub step: u32,
    /// The peak of allocated bytes over all steps.
    pub allocated: u64,
    /// The peak of reserved bytes over all steps.
    pub reserved: u64,
}

/// An allocation that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What PyTorch reports.
    pub error: OutOfMemory,
    /// The captured step that asked for it, as in [`Entry::Allocate`].
    pub origin: u32,
}

impl Run {
    /// The peak of reserved bytes over all steps, those after the reported ones included.
    pub fn lasting_peak_reserved(&self) -> u64 {
        self.later.map_or(self.peak_reserved, |later| later.reserved)
    }

    /// The phase with the highest peak of live bytes, building excluded: the first of equal ones.
    pub fn peak(&self) -> Option<&PhaseReport> {
        let mut best: Option<&PhaseReport> = None;
        for phase in self.phases.iter().filter(|phase| phase.phase != Phase::Build) {
            if best.is_none_or(|found| phase.peak.allocated > found.peak.allocated) {
                best = Some(phase);
            }
        }
        best
    }

    /// The peaks of allocated and reserved bytes before the first update: what there is where no update is ever done.
    pub fn peaks_before_updates(&self) -> (u64, u64) {
        let before = self.phases.iter().take_while(|phase| phase.phase != Phase::Step);
        before.fold((0, 0), |(allocated, reserved), phase| {
            (allocated.max(phase.peak.allocated), reserved.max(phase.peak_reserved))
        })
    }
}
