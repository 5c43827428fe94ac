//! The GPU behind an answer: what the process takes on it beside PyTorch's memory, and whether all of it fits.

use vramfit_allocator::Settings;
use vramfit_catalogue::gpu::Capacity;
use vramfit_catalogue::{Context, Gpu};

use crate::report::Run;
use vramfit_eager::autograd::Libraries;

/// The GPU that was asked for, or the measured one that stands for any.
#[derive(Clone, Copy, Debug)]
pub struct Device<'a> {
    /// The GPU.
    pub gpu: &'a Gpu,
    /// Its context, or that of a measured GPU where it has none.
    pub context: Context,
    /// Whether it was asked for: only then its capacity counts.
    pub is_asked: bool,
    /// `--vram`: what PyTorch may reserve.
    pub vram: Option<u64>,
}

/// Whether a run fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Under every order of addresses, with what is expected, with the least and the most that is taken for possible (less
    /// at one moment may mean more at another) and with mixtures of them, by the least that the GPU may have.
    Fits,
    /// It depends on what is not known.
    TooClose,
    /// It dies in any case.
    DoesNotFit,
}

impl Verdict {
    /// Its name in the contract.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Fits => "fits",
            Verdict::TooClose => "too-close",
            Verdict::DoesNotFit => "does-not-fit",
        }
    }
}

impl Device<'_> {
    /// What the process takes beside what PyTorch reserves.
    pub fn context_bytes(&self, libraries: Libraries) -> u64 {
        self.context.bytes(libraries.blas, libraries.dnn)
    }

    /// The most that PyTorch may reserve, if anything is known: `--vram`, or what the GPU leaves beside the context.
    pub fn cap(&self, libraries: Libraries) -> Option<u64> {
        let left = || self.gpu.capacity().high.saturating_sub(self.context_bytes(libraries));
        self.vram.or_else(|| self.is_asked.then(left))
    }

    /// What there is: `--vram`, or the GPU's memory; `None` where neither was asked for.
    pub fn capacity(&self) -> Option<Capacity> {
        match self.vram {
            Some(bytes) => Some(Capacity { low: bytes, high: bytes }),
            None => self.is_asked.then(|| self.gpu.capacity()),
        }
    }

    /// What a run takes of that.
    pub fn taken(&self, run: &Run) -> u64 {
        match self.vram {
            Some(_) => run.peak_reserved,
            None => run.peak_reserved + self.context_bytes(run.libraries),
        }
    }

    /// The allocator's settings on this GPU.
    pub fn settings(&self, settings: Settings) -> Settings {
        let settings = Settings { cap: self.vram, ..settings };
        if self.is_asked { settings.on_device(self.gpu.capacity().high) } else { settings }
    }

    /// Whether `runs`, all under the cap, fit; `None` where no capacity is known.
    pub fn verdict(&self, runs: &[Run]) -> Option<Verdict> {
        let capacity = self.capacity()?;
        let fits = |run: &Run| run.failure.is_none() && self.taken(run) <= capacity.low;
        if runs.iter().all(fits) {
            return Some(Verdict::Fits);
        }
        let is_hopeless = runs.iter().all(|run| run.failure.is_some());
        Some(if is_hopeless { Verdict::DoesNotFit } else { Verdict::TooClose })
    }

    /// Whether everything an answer needs to know of the GPU has been measured on one.
    pub fn is_measured(&self, libraries: Libraries) -> bool {
        // cuDNN chooses its workspaces by GPU; its rules come from the GPU of the table that was measured.
        let is_calibrated = self.gpu.seen_by_cuda_source.as_deref() == Some("calibrated");
        self.gpu.is_measured() && !(is_calibrated && libraries.dnn > 0)
    }
}
