//! Whether an estimate fits on its GPU, in PyTorch's words where it does not.

use serde::Serialize;
use vramfit_training::answer::{CapacityKind, Device, Fit, Shortage};

use crate::names::VerdictName;
use crate::out_of_memory::{DeviceMemory, message};
use crate::size::human;

/// Whether it fits, and in what.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct FitReport {
    /// The GPU, where one was asked for.
    pub gpu: Option<String>,
    /// Bytes there are: of the GPU, or `--vram`. The lower bound where it is not recorded what CUDA sees of the GPU.
    pub capacity: u64,
    /// The upper bound of that.
    pub capacity_high: u64,
    /// The verdict over all simulations.
    pub verdict: VerdictName,
    /// PyTorch's error message where a simulation runs out of memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// What the expected run takes of the capacity.
    #[serde(skip)]
    pub needed: u64,
    /// What the capacity is the capacity of.
    #[serde(skip)]
    pub kind: CapacityKind,
}

impl FitReport {
    /// Of the engine's verdict on a GPU.
    pub fn new(device: &Device<'_>, fit: &Fit) -> FitReport {
        FitReport {
            gpu: device.is_asked.then(|| device.gpu.name.clone()),
            capacity: fit.capacity.low,
            capacity_high: fit.capacity.high,
            verdict: fit.verdict.into(),
            message: fit.shortage.as_ref().map(out_of_memory),
            needed: fit.needed,
            kind: fit.kind,
        }
    }

    /// What it is to fit in: `on the RTX 3060, which has 12.0 GiB for it`, or `in 3.00 GiB`.
    pub fn target(&self) -> String {
        match &self.gpu {
            Some(gpu) if self.kind == CapacityKind::Gpu => {
                format!("on the {gpu}, which has {} for it", room(self.capacity, self.capacity_high))
            }
            _ => format!("in {}", human(self.capacity)),
        }
    }
}

fn out_of_memory(shortage: &Shortage) -> String {
    let memory = shortage.gpu.map_or_else(DeviceMemory::default, |gpu| DeviceMemory {
        device: 0,
        total: Some(gpu.total),
        free: Some(gpu.free),
        process: Some(gpu.process),
    });
    message(&shortage.error, &memory)
}

/// What a GPU has: `79.1 GiB`, or both bounds where it is not recorded what CUDA sees of it.
pub(crate) fn room(low: u64, high: u64) -> String {
    if low == high { human(low) } else { format!("{} to {}", human(low), human(high)) }
}

/// What the mark on a bar means; it can only be at one of the bounds.
pub(crate) fn mark(low: u64, high: u64) -> String {
    match low == high {
        true => format!("The mark is at {}, which is what there is", human(low)),
        false => format!("The mark is at {}, the least that there is; it may be {}", human(low), human(high)),
    }
}
