//! The GPU that an answer is for: what the process takes on it beside PyTorch's memory, and what is left for PyTorch.

use vramfit_allocator::Settings;
use vramfit_catalogue::compute::Workspaces;
use vramfit_catalogue::gpu::Capacity;
use vramfit_catalogue::{ContextBytes, Gpu};
use vramfit_cudnn::convolution::{self, LiveAnswers};
use vramfit_eager::autograd::{CudnnSources, Libraries};
use vramfit_eager::machine::Machine;

use super::cause::Cause;
use crate::report::Run;

/// The GPU that was asked for, or the measured one that is used where none was.
#[derive(Clone, Copy, Debug)]
pub struct Device<'a> {
    /// The GPU.
    pub gpu: &'a Gpu,
    /// Whether it was asked for: only then its capacity counts.
    pub is_asked: bool,
    /// `--vram`: what PyTorch may reserve.
    pub vram: Option<u64>,
    /// An installed cuDNN that answers for it.
    pub cudnn: Option<&'static dyn LiveAnswers>,
}

/// By how many bytes a number may be smaller or larger.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Slack {
    pub below: u64,
    pub above: u64,
}

impl Slack {
    /// The same either way.
    pub(super) fn of(bytes: u64) -> Slack {
        Slack { below: bytes, above: bytes }
    }
}

/// What PyTorch takes from CUDA for a request of up to 10 MiB.
const SEGMENT: u64 = 20 << 20;
/// What it takes for one of up to 1 MiB.
const SMALL_SEGMENT: u64 = 2 << 20;

/// What the driver takes for the streams of FSDP or DeepSpeed, as measured on an H200 with CUDA 13.
pub const STREAMS: u64 = 70 << 20;

/// The least and the most that NCCL takes for a group of ranks, beside PyTorch's allocator. Its users report 544 and 688 MB on A100s with
/// NVLink (NVIDIA/nccl#964) and 1.6 GB (#864); the least is two channels with 4 MiB buffers for each protocol and direction.
pub const NCCL: (u64, u64) = (32 << 20, 1_600 << 20);

/// What a capacity is the capacity of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CapacityKind {
    /// The GPU's memory, which the CUDA context is part of.
    Gpu,
    /// What PyTorch may reserve (`--vram`); the CUDA context comes on top.
    Reserved,
}

impl Device<'_> {
    /// The properties of the GPU that a step's requests depend on.
    pub fn machine(&self) -> Machine {
        Machine { cudnn: self.cudnn, ..self.gpu.into() }
    }

    /// What the process takes beside what PyTorch reserves and NCCL takes.
    pub fn context_bytes(&self, libraries: Libraries) -> ContextBytes {
        let ContextBytes { low, expected, high } = self.gpu.context_bytes(libraries.blas_handles(), libraries.dnn);
        let streams = if libraries.has_streams { STREAMS } else { 0 };
        // The streams were measured on an H200: elsewhere they may take nothing, or twice as much.
        let (least, most) = if self.gpu.is_measured() { (streams, streams) } else { (0, 2 * streams) };
        ContextBytes { low: low + least, expected: expected + streams, high: high + most }
    }

    /// The most that is beside what PyTorch reserves: the largest context, and the most that NCCL takes.
    pub fn most_beside(&self, libraries: Libraries) -> u64 {
        self.context_bytes(libraries).high + u64::from(libraries.communicators) * NCCL.1
    }

    /// What the process of a run takes at its peak, as nvidia-smi shows it, with the expected context.
    pub fn used(&self, run: &Run) -> u64 {
        run.peak_reserved + self.context_bytes(run.libraries).expected
    }

    /// The upper bound of what PyTorch may reserve, if any is known: `--vram`, or what the GPU leaves beside the
    /// smallest context.
    pub fn cap(&self, libraries: Libraries) -> Option<u64> {
        let left = || self.gpu.capacity().high.saturating_sub(self.context_bytes(libraries).low);
        self.vram.or_else(|| self.is_asked.then(left))
    }

    /// What there is: `--vram`, or the GPU's memory; `None` where neither was asked for.
    pub fn capacity(&self) -> Option<Capacity> {
        match self.vram {
            Some(bytes) => Some(Capacity { low: bytes, high: bytes }),
            None => self.is_asked.then(|| self.gpu.capacity()),
        }
    }

    /// What [`Device::capacity`] is the capacity of.
    pub fn capacity_kind(&self) -> CapacityKind {
        if self.vram.is_some() { CapacityKind::Reserved } else { CapacityKind::Gpu }
    }

    /// What a run is expected to take of the capacity.
    pub(super) fn needed(&self, run: &Run) -> u64 {
        match self.capacity_kind() {
            CapacityKind::Reserved => run.peak_reserved,
            CapacityKind::Gpu => self.used(run),
        }
    }

    /// What a run takes of the capacity at most: with the largest context, and over all its steps.
    pub fn taken(&self, run: &Run) -> u64 {
        self.taken_with(run.lasting_peak_reserved(), run.libraries)
    }

    /// What reserving so much takes of the capacity at most.
    pub fn taken_with(&self, reserved: u64, libraries: Libraries) -> u64 {
        match self.capacity_kind() {
            CapacityKind::Reserved => reserved + self.reserved_slack(libraries).above,
            CapacityKind::Gpu => reserved + self.reserved_slack(libraries).above + self.most_beside(libraries),
        }
    }

    /// What cuBLAS's workspaces may take less or more than assumed, of allocated memory, where they were not measured: PyTorch's
    /// versions differ in which GPUs get the large one, and in whether cuBLASLt has its own.
    pub(super) fn allocated_slack(&self, libraries: Libraries) -> Slack {
        let Workspaces { blas, blas_lt } = self.gpu.workspaces();
        let below = (blas - Workspaces::SMALLEST.blas.min(blas)) + blas_lt - Workspaces::SMALLEST.blas_lt;
        self.slack(libraries, Slack { below, above: Workspaces::LARGEST.blas.saturating_sub(blas) })
    }

    /// The same of reserved memory, where a workspace may have taken a segment of its own, or may find one.
    pub(super) fn reserved_slack(&self, libraries: Libraries) -> Slack {
        let blas = self.gpu.workspaces().blas;
        let own = if blas > Workspaces::SMALLEST.blas { blas.max(SEGMENT) } else { 0 };
        let above = if blas < Workspaces::LARGEST.blas { Workspaces::LARGEST.blas } else { 0 };
        self.slack(libraries, Slack { below: own + SMALL_SEGMENT, above })
    }

    fn slack(&self, libraries: Libraries, of_one: Slack) -> Slack {
        let threads = if self.gpu.is_measured() { 0 } else { u64::from(libraries.blas) };
        Slack { below: threads * of_one.below, above: threads * of_one.above }
    }

    /// The allocator's settings on this GPU.
    pub fn settings(&self, settings: Settings) -> Settings {
        let settings = Settings { cap: self.vram, ..settings };
        if self.is_asked { settings.on_device(self.gpu.capacity().high) } else { settings }
    }

    /// What was not measured on this GPU and a run depends on.
    pub(super) fn unmeasured(&self, run: &Run) -> impl Iterator<Item = Cause> + use<> {
        let is_measured = self.gpu.is_measured();
        // A calibration measures everything but cuDNN's choice of workspaces.
        let is_calibrated = self.gpu.seen_by_cuda_source.as_deref() == Some("calibrated");
        let gpu = (!is_measured).then_some(Cause::GpuNotMeasured);
        let CudnnSources { is_asked, is_tabulated, is_guessed, is_assumed } = run.cudnn_sources;
        let is_from_another_gpu = (is_guessed || is_assumed) && (!is_measured || is_calibrated);
        let cudnn = [(is_from_another_gpu, Cause::CudnnNotMeasured), (is_asked, Cause::CudnnAsked)];
        let tabulated = convolution::shipped_version().filter(|_| is_tabulated);
        let tabulated = tabulated.map(|version| Cause::CudnnTabulated { version: version.to_string() });
        gpu.into_iter().chain(cudnn.into_iter().filter_map(|(holds, cause)| holds.then_some(cause))).chain(tabulated)
    }
}
