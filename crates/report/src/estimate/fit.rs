//! Whether an estimate fits on its GPU, in PyTorch's words where it does not.

use serde::Serialize;
use vramfit_eager::memory::ADDED_LOSS;
use vramfit_training::Phase;
use vramfit_training::answer::{CapacityKind, Device, Fit, Shortage};

use super::locations::Locations;
use crate::names::{PhaseName, VerdictName};
use crate::out_of_memory::{DeviceMemory, message};
use crate::size::{human, number};

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
    /// Bytes of the capacity that every simulation leaves free; absent where not every one fits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub margin: Option<u64>,
    /// PyTorch's error message where a simulation runs out of memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// What the expected run takes of the capacity; what it would take where it runs out of memory.
    pub needed: u64,
    /// How much is missing; absent where the expected run does not run out of memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub short: Option<u64>,
    /// Where the first simulation that runs out of memory does so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dies_in: Option<DeathReport>,
    /// What the capacity is the capacity of.
    #[serde(skip)]
    pub kind: CapacityKind,
}

/// Where an allocation fails.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct DeathReport {
    /// The step, from 0; null while the model is built.
    step: Option<u32>,
    /// The phase.
    phase: PhaseName,
    /// The micro-batch, from 0, for a forward or backward pass.
    #[serde(skip_serializing_if = "Option::is_none")]
    micro: Option<u32>,
    /// The dotted path of the module that runs.
    module: Option<String>,
    /// The ATen operator that runs.
    op: Option<String>,
    /// The line of the model's code, as `file:line in function`.
    source: Option<String>,
}

impl DeathReport {
    fn new(shortage: &Shortage, locations: &Locations<'_>) -> DeathReport {
        let Shortage { origin, phase, step, micro, .. } = *shortage;
        // Requests of other phases have no step of the captured pass, or that of what they were made for.
        let runs_model = !matches!(phase, Phase::Build | Phase::Step);
        let op = locations.operator(origin).filter(|_| runs_model);
        let has_module = op.is_some() || origin == ADDED_LOSS && runs_model;
        let source = locations.source(origin).filter(|_| runs_model);
        DeathReport {
            step,
            phase: phase.into(),
            micro,
            module: locations.module(origin).filter(|_| has_module).map(str::to_owned),
            op: op.map(str::to_owned),
            source: source.map(|source| format!("{}:{} in {}", source.file, source.line, source.function)),
        }
    }

    /// `dies in cross_entropy_loss of lm_head (step 1, forward)`.
    pub(super) fn words(&self) -> String {
        let Some(step) = self.step else {
            return "dies while the model and its inputs are moved to the GPU".to_owned();
        };
        let step = format!("step {}", step + 1);
        let phase = self.phase.name();
        let op = self.op.as_deref().map(|op| op.split('.').nth(1).unwrap_or(op));
        match (op, self.module.as_deref()) {
            (None, None) if self.phase == PhaseName::Step => format!("dies in the optimizer's {step}"),
            (None, None) => format!("dies in {step}, {phase}"),
            (None, Some(module)) => format!("dies in {module} ({step}, {phase})"),
            (Some(op), None) => format!("dies in {op} ({step}, {phase})"),
            (Some(op), Some(module)) => format!("dies in {op} of {module} ({step}, {phase})"),
        }
    }
}

impl FitReport {
    /// Of the engine's verdict on a GPU.
    pub fn new(device: &Device<'_>, fit: &Fit, locations: &Locations<'_>) -> FitReport {
        FitReport {
            gpu: device.is_asked.then(|| device.gpu.name.clone()),
            capacity: fit.capacity.low,
            capacity_high: fit.capacity.high,
            verdict: fit.verdict.into(),
            margin: fit.margin,
            message: fit.shortage.as_ref().map(out_of_memory),
            needed: fit.needed,
            short: fit.short,
            dies_in: fit.shortage.as_ref().map(|shortage| DeathReport::new(shortage, locations)),
            kind: fit.kind,
        }
    }

    /// How much is missing and where it dies: `needs 19.2 of 11.8 GiB, 7.44 short, dies in cross_entropy_loss (step 1,
    /// forward)`; `None` where the expected run does not run out of memory.
    pub fn misfit(&self) -> Option<String> {
        let short = self.short?;
        let dies = self.dies_in.as_ref().map_or_else(String::new, |death| format!(", {}", death.words()));
        let (needed, room) = (human(self.needed), room(self.capacity, self.capacity_high));
        // It is short of the most that there may be.
        let least = if self.capacity == self.capacity_high { "" } else { "at least " };
        let need = match self.needed > self.capacity_high {
            true => {
                format!("needs {} of {room}, {least}{} short", number(&needed, &room), number(&human(short), &room))
            }
            // `per_process_memory_fraction` allows less than there is.
            false => format!("needs {needed}, {} more than the allocator may reserve", human(short)),
        };
        Some(need + &dies)
    }

    /// What stays free: `; 1.20 GiB (10 %) stay free`; empty where it does not fit.
    pub fn left(&self) -> String {
        let share = |left: u64| 100.0 * left as f64 / self.capacity.max(1) as f64;
        self.margin.map_or_else(String::new, |left| format!("; {} ({:.0} %) stay free", human(left), share(left)))
    }

    /// The GPU that it is to fit on: ` on the RTX 3060`; empty under a cap.
    pub fn on_gpu(&self) -> String {
        match &self.gpu {
            Some(gpu) if self.kind == CapacityKind::Gpu => format!(" on the {gpu}"),
            _ => String::new(),
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
