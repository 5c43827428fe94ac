//! Whether an estimate fits on its GPU, in PyTorch's words where it dies, and what is not known of that GPU.

use serde::Serialize;
use vramfit_eager::autograd::Libraries;
use vramfit_graph::bind::Bound;
use vramfit_graph::dtype::Dtype;
use vramfit_graph::model::Precision;
use vramfit_training::Run;
use vramfit_training::judgement::Device;

use crate::out_of_memory::{DeviceMemory, message};
use crate::size::human;

/// Whether it fits.
#[derive(Clone, Debug, Serialize)]
pub struct Fit {
    /// The GPU, where one was asked for.
    pub gpu: Option<String>,
    /// Bytes there are: of the GPU, or `--vram`. The least of it where what CUDA sees is not known.
    pub capacity: u64,
    /// The most there may be.
    pub capacity_high: u64,
    /// `fits`, `too-close` or `does-not-fit`.
    pub verdict: &'static str,
    /// PyTorch's words where it dies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// Whether `runs`, all under the cap, fit.
pub fn fit(device: &Device<'_>, runs: &[Run]) -> Option<Fit> {
    let capacity = device.capacity()?;
    let verdict = device.verdict(runs)?.name();
    let message = runs.iter().find_map(|run| {
        let error = run.failure?.error;
        Some(message(&error, &memory(device, run, capacity.high, error.reserved)))
    });
    let gpu = device.is_asked.then(|| device.gpu.name.clone());
    Some(Fit { gpu, capacity: capacity.low, capacity_high: capacity.high, verdict, message })
}

/// What a GPU has, in words: `79.1 GiB`, or both ends where what CUDA sees of it is not known.
pub(crate) fn room(low: u64, high: u64) -> String {
    if low == high { human(low) } else { format!("{} to {}", human(low), human(high)) }
}

/// Where a bar's mark stands, which can only be in one place.
pub(crate) fn mark(low: u64, high: u64) -> String {
    match low == high {
        true => format!("The mark is at {}, which is what there is", human(low)),
        false => format!("The mark is at {}, the least that there is; it may be {}", human(low), human(high)),
    }
}

fn memory(device: &Device<'_>, run: &Run, total: u64, reserved: u64) -> DeviceMemory {
    if device.vram.is_some() {
        return DeviceMemory::default();
    }
    let process = reserved + device.context_bytes(run.libraries);
    DeviceMemory { device: 0, total: Some(total), free: Some(total.saturating_sub(process)), process: Some(process) }
}

/// What is not known of the GPU, and what to know when using it.
pub fn notes(device: &Device<'_>, bound: &Bound<'_>, libraries: Libraries) -> Vec<String> {
    let (name, compute) = (&device.gpu.name, device.gpu.compute);
    let mut notes = Vec::new();
    if !device.gpu.is_measured() {
        notes.push(format!(
            "not measured on this GPU ({name}): the CUDA context is taken from an H200, cuBLAS's workspaces from \
             PyTorch's code; `vramfit calibrate` measures both there"
        ));
    }
    if libraries.dnn > 0 && !device.is_measured(libraries) {
        notes.push(format!("cuDNN's workspaces are those of an H200; on the {name} it may choose others"));
    }
    if device.is_asked && device.gpu.seen_by_cuda.is_none() && device.vram.is_none() {
        let room = device.gpu.capacity();
        notes.push(format!(
            "what CUDA sees of the {name}'s memory is not recorded: from 91 % ({}) to all of it ({}); \"fits\" means in the \
             least of that. PyTorch names it in its out-of-memory error as \"total capacity\"",
            human(room.low),
            human(room.high)
        ));
    }
    let precision = bound.variant.precision;
    let is_brain = matches!(precision, Precision::Cast(Dtype::Bfloat16) | Precision::Autocast(Dtype::Bfloat16));
    if is_brain && !compute.has_bfloat16() {
        notes.push(format!("compute capability {compute} has no bfloat16: PyTorch emulates it, slowly"));
    }
    if !compute.runs_cuda_13() {
        let mut note = format!("torch 2.11's CUDA 13 wheels do not run on compute capability {compute}");
        if let Some(newest) = &device.gpu.newest {
            note += &format!(": use those of CUDA {}", newest.cuda);
            note += &newest.torch.as_ref().map_or_else(String::new, |torch| format!(", which end with torch {torch}"));
        }
        notes.push(note);
    }
    notes
}
