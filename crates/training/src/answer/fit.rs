//! Whether a training fits on a GPU: what it needs, what there is, and how it fails where it does not.

use vramfit_allocator::OutOfMemory;
use vramfit_catalogue::gpu::Capacity;

use super::device::{CapacityKind, Device};
use super::runs::Runs;
use crate::report::{Failure, Phase, Run};

/// Whether a training fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Every simulation fits in the least that the GPU may have beside the largest context: under every order of addresses, with the expected
    /// requests, with their bounds (less at one moment may mean more at another) and with mixtures of them.
    Fits,
    /// It depends on what is not known.
    TooClose,
    /// Every simulation runs out of memory.
    DoesNotFit,
}

impl Verdict {
    /// Its name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Fits => "fits",
            Verdict::TooClose => "too-close",
            Verdict::DoesNotFit => "does-not-fit",
        }
    }
}

/// What a training needs beside what there is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fit {
    /// The verdict over all simulations.
    pub verdict: Verdict,
    /// What the expected run takes of the capacity, with the expected context: without a cap where it runs out of
    /// memory under it.
    pub needed: u64,
    /// How much more than there is the expected run would have to reserve; `None` where it does not run out of memory.
    pub short: Option<u64>,
    /// Bytes of the capacity that every simulation leaves free; `None` where not every one fits.
    pub margin: Option<u64>,
    /// What there is, as far as it is known.
    pub capacity: Capacity,
    /// Whether that is the GPU's memory or what PyTorch may reserve.
    pub kind: CapacityKind,
    /// How the first simulation that fails does so.
    pub shortage: Option<Shortage>,
}

/// An allocation that failed, with what PyTorch says about the GPU then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shortage {
    /// The allocator's own numbers.
    pub error: OutOfMemory,
    /// The captured step that asked for it, as in [`vramfit_eager::memory::Entry::Allocate`].
    pub origin: u32,
    /// The phase in which it failed.
    pub phase: Phase,
    /// The step; `None` while building.
    pub step: Option<u32>,
    /// The micro-batch, where the phase belongs to one.
    pub micro: Option<u32>,
    /// The GPU's; `None` under a cap that has nothing to do with the GPU.
    pub gpu: Option<GpuMemory>,
}

/// A GPU's memory when an allocation fails, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GpuMemory {
    /// What CUDA sees of it.
    pub total: u64,
    /// What no process uses.
    pub free: u64,
    /// What this process uses, its CUDA context included.
    pub process: u64,
}

/// Whether a run fits under its cap where cuBLAS's workspaces are smaller than assumed.
fn may_fit(device: &Device<'_>, unlimited: &Runs) -> bool {
    unlimited.iter().any(|run| {
        let least = run.lasting_peak_reserved().saturating_sub(device.reserved_slack(run.libraries).below);
        run.failure.is_none() && device.cap(run.libraries).is_some_and(|cap| least <= cap)
    })
}

impl Fit {
    /// Of runs that are all under the cap, and of the same without one where some run out of memory; `None` where no
    /// capacity is known.
    pub(super) fn of(device: &Device<'_>, runs: &Runs, unlimited: Option<&Runs>) -> Option<Fit> {
        let capacity = device.capacity()?;
        let fits = |run: &Run| run.failure.is_none() && device.taken(run) <= capacity.low;
        let verdict = if runs.iter().all(fits) {
            Verdict::Fits
        } else if runs.iter().all(|run| run.failure.is_some()) && !unlimited.is_some_and(|runs| may_fit(device, runs)) {
            Verdict::DoesNotFit
        } else {
            Verdict::TooClose
        };
        let most = runs.iter().map(|run| device.taken(run)).max().unwrap_or(0);
        let margin = (verdict == Verdict::Fits).then(|| capacity.low - most);
        let kind = device.capacity_kind();
        let shortage = runs.iter().find_map(|run| {
            let Failure { error, origin } = run.failure?;
            let (phase, step, micro) =
                run.phases.last().map_or((Phase::Build, None, None), |last| (last.phase, last.step, last.micro));
            // The cap it fails under leaves room for the smallest context.
            let process = error.reserved + device.context_bytes(run.libraries).low;
            let (total, free) = (capacity.high, capacity.high.saturating_sub(process));
            let gpu = (kind == CapacityKind::Gpu).then_some(GpuMemory { total, free, process });
            Some(Shortage { error, origin, phase, step, micro, gpu })
        });
        let expected = &runs.expected;
        let (needed, short) = match (expected.failure, unlimited.map(|unlimited| &unlimited.expected)) {
            (Some(failure), Some(unlimited)) => {
                let needed = device.needed(unlimited) + (unlimited.lasting_peak_reserved() - unlimited.peak_reserved);
                // `per_process_memory_fraction` may be a lower cap than the capacity.
                let over_cap = failure.error.cap.map_or(0, |cap| unlimited.lasting_peak_reserved().saturating_sub(cap));
                (needed, Some(needed.saturating_sub(capacity.high).max(over_cap)))
            }
            _ => (device.needed(expected), None),
        };
        Some(Fit { verdict, needed, short, margin, capacity, kind, shortage })
    }
}
