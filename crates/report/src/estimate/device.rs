//! The GPU behind an estimate: what the process takes on it beside PyTorch's memory, and whether all of it fits.

use serde::Serialize;
use vramfit_catalogue::gpu::Capacity;
use vramfit_catalogue::{Context, Gpu};
use vramfit_graph::bind::Bound;
use vramfit_graph::dtype::Dtype;
use vramfit_graph::model::Precision;
use vramfit_step::ops::Libraries;
use vramfit_step::training::Run;

use crate::out_of_memory::{DeviceMemory, message};

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

/// Whether it fits.
#[derive(Clone, Debug, Serialize)]
pub struct Fit {
    /// The GPU, where one was asked for.
    pub gpu: Option<String>,
    /// Bytes there are: of the GPU, or `--vram`.
    pub capacity: u64,
    /// `fits`, `too-close` or `does-not-fit`.
    pub verdict: &'static str,
    /// PyTorch's words where it dies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
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

    /// Whether `runs`, all under the cap, fit.
    pub fn fit(&self, runs: &[Run]) -> Option<Fit> {
        let gpu = self.is_asked.then(|| self.gpu.name.clone());
        let capacity = match self.vram {
            Some(bytes) => Capacity { low: bytes, high: bytes },
            None if self.is_asked => self.gpu.capacity(),
            None => return None,
        };
        let taken = |run: &Run| match self.vram {
            Some(_) => run.peak_reserved,
            None => run.peak_reserved + self.context_bytes(run.libraries),
        };
        let failed = runs.iter().filter(|run| run.failure.is_some()).count();
        let is_sure = runs.iter().all(|run| taken(run) <= capacity.low);
        let verdict = match failed {
            0 if is_sure => "fits",
            count if count == runs.len() => "does-not-fit",
            _ => "too-close",
        };
        let message = runs.iter().find_map(|run| {
            let error = run.failure?.error;
            Some(message(&error, &self.memory(run, capacity.high, error.reserved)))
        });
        Some(Fit { gpu, capacity: capacity.low, verdict, message })
    }

    fn memory(&self, run: &Run, total: u64, reserved: u64) -> DeviceMemory {
        if self.vram.is_some() {
            return DeviceMemory::default();
        }
        let process = reserved + self.context_bytes(run.libraries);
        DeviceMemory {
            device: 0,
            total: Some(total),
            free: Some(total.saturating_sub(process)),
            process: Some(process),
        }
    }

    /// Whether everything this answer needs to know of the GPU has been measured on one.
    pub fn is_measured(&self, libraries: Libraries) -> bool {
        // cuDNN chooses its workspaces by GPU; its rules come from the GPU of the table that was measured.
        let is_calibrated = self.gpu.seen_by_cuda_source.as_deref() == Some("calibrated");
        self.gpu.is_measured() && !(is_calibrated && libraries.dnn > 0)
    }

    /// What is not known of the GPU, and what to know when using it.
    pub fn notes(&self, bound: &Bound<'_>, libraries: Libraries) -> Vec<String> {
        let (name, compute) = (&self.gpu.name, self.gpu.compute);
        let mut notes = Vec::new();
        if !self.gpu.is_measured() {
            notes.push(format!(
                "not measured on this GPU ({name}): the CUDA context is taken from an H200, cuBLAS's workspaces from \
                 PyTorch's code; `vramfit calibrate` measures both there"
            ));
        }
        if libraries.dnn > 0 && !self.is_measured(libraries) {
            notes.push(format!("cuDNN's workspaces are those of an H200; on the {name} it may choose others"));
        }
        if self.is_asked && self.gpu.seen_by_cuda.is_none() && self.vram.is_none() {
            notes.push(format!(
                "what CUDA sees of the {name}'s memory is not recorded: it lies between 91 % and all of it"
            ));
        }
        let precision = bound.variant.precision;
        let is_brain = matches!(precision, Precision::Cast(Dtype::Bfloat16) | Precision::Autocast(Dtype::Bfloat16));
        if is_brain && !compute.has_bfloat16() {
            notes.push(format!("compute capability {compute} has no bfloat16: PyTorch emulates it, slowly"));
        }
        if !compute.runs_cuda_13() {
            let newest = compute.newest();
            notes.push(format!(
                "torch 2.11's CUDA 13 wheels do not run on compute capability {compute}: use those of CUDA {}, which end \
                 with torch {}",
                newest.cuda,
                newest.torch.unwrap_or("2.14")
            ));
        }
        notes
    }
}
