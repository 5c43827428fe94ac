//! Whether a training fits on a GPU: what it needs, what there is, and how it fails where it does not.

use vramfit_allocator::OutOfMemory;
use vramfit_catalogue::gpu::Capacity;

use super::device::{CapacityKind, Device};
use super::runs::Runs;
use crate::report::Run;

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
    /// What the expected run takes of the capacity, with the expected context.
    pub needed: u64,
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

impl Fit {
    /// Of runs that are all under the cap; `None` where no capacity is known.
    pub(super) fn of(device: &Device<'_>, runs: &Runs) -> Option<Fit> {
        let capacity = device.capacity()?;
        let fits = |run: &Run| run.failure.is_none() && device.taken(run) <= capacity.low;
        let verdict = if runs.iter().all(fits) {
            Verdict::Fits
        } else if runs.iter().all(|run| run.failure.is_some()) {
            Verdict::DoesNotFit
        } else {
            Verdict::TooClose
        };
        let kind = device.capacity_kind();
        let shortage = runs.iter().find_map(|run| {
            let error = run.failure?.error;
            // The cap it fails under leaves room for the smallest context.
            let process = error.reserved + device.context_bytes(run.libraries).low;
            let (total, free) = (capacity.high, capacity.high.saturating_sub(process));
            Some(Shortage { error, gpu: (kind == CapacityKind::Gpu).then_some(GpuMemory { total, free, process }) })
        });
        Some(Fit { verdict, needed: device.needed(&runs.expected), capacity, kind, shortage })
    }
}
