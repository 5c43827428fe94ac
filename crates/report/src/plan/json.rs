//! The answers of `vramfit plan --json` and `vramfit max-batch --json`.

mod rows;

use serde::Serialize;
use vramfit_plan::max_batch::MaxBatch;
use vramfit_plan::search::Plan;
use vramfit_plan::{Parts, Peaks, Setup, Written};
use vramfit_training::answer::{Device, TopPeaks};

use super::PlanReport;
use crate::cudnn::CudnnReport;
use crate::estimate::Breakdown;
use crate::names::{EffectName, GroupName, VerdictName};
use crate::ranks::AllRanks;
use crate::settings::{AnswerSettings, SettingsReport, built_dtype};
use rows::{ChangeReport, GpuReport, GroupReport, TrickReport, UnboundReport};

/// The answer of `vramfit plan --json`. Sizes are bytes; a slowdown is the time for the same work, by that of the start.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct PlanAnswer {
    /// The model's name or file.
    model: String,
    /// The largest batch such that every batch up to it fits with the given settings; null where there is no batch to choose.
    max_batch: Option<i64>,
    /// Whether the next batch is known not to fit.
    max_batch_is_final: Option<bool>,
    /// The largest batch on each GPU with the first plan; null where that is for one GPU.
    max_batch_of_plan: Option<i64>,
    /// Whether the next batch is known not to fit.
    max_batch_of_plan_is_final: Option<bool>,
    /// The plans that fit, group by group, the cheapest first.
    plans: Vec<PlanRow>,
    /// The training as it was asked for.
    start: StartReport,
    /// Whether it fits as it is.
    fit: PlanFit,
    /// The groups of plans by what they risk, the smallest risk first.
    groups: Vec<GroupReport>,
    /// What each trick does alone.
    tricks: Vec<TrickReport>,
    /// What is missing where no plan fits; null where one does, or where the search was stopped.
    nothing_fits: Option<NothingFits>,
    /// Whether the search was stopped before it was done.
    cut_short: bool,
    /// How many candidates were simulated.
    simulated: u64,
    /// What to know about the answer.
    notes: Vec<String>,
    /// Candidates that were left out because the model cannot be bound to their sizes or precision.
    unbound: Vec<UnboundReport>,
    /// The installed cuDNN that was asked for workspaces; absent where none was.
    #[serde(skip_serializing_if = "Option::is_none")]
    cudnn: Option<CudnnReport>,
}

/// The settings of a plan.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct PlanSettings {
    #[serde(flatten)]
    settings: SettingsReport,
    /// The batch of one forward pass.
    batch: Option<i64>,
}

/// The training as it was asked for, without a cap.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct StartReport {
    /// All settings, defaults included.
    settings: Option<PlanSettings>,
    /// Whether it fits.
    verdict: VerdictName,
    /// Peak allocated bytes.
    peak_allocated: u64,
    /// Peak reserved bytes.
    peak_reserved: u64,
    /// What `nvidia-smi` would show for the process.
    device_used: u64,
    /// Seconds of a step.
    seconds: f64,
    /// The training loop in PyTorch.
    code: String,
    /// What a program needs to do the same to a live model.
    parts: Option<Parts>,
    /// The configuration of Accelerate that spreads it in the same way; absent for one GPU, and where `no_accelerate` says why.
    #[serde(skip_serializing_if = "Option::is_none")]
    accelerate: Option<String>,
    /// Why there is no configuration of Accelerate; absent for one GPU, and where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    no_accelerate: Option<String>,
    /// DeepSpeed's configuration, `ds_config.json`, that the code reads; absent where DeepSpeed does not spread the training.
    #[serde(skip_serializing_if = "Option::is_none")]
    deepspeed: Option<String>,
}

/// Whether the start fits.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct PlanFit {
    /// The GPU, where one was asked for.
    gpu: Option<String>,
    /// Bytes there are: of the GPU, or `--vram`. The lower bound where it is not recorded what CUDA sees of the GPU.
    capacity: Option<u64>,
    /// The upper bound of that.
    capacity_high: Option<u64>,
    /// The verdict over all simulations.
    verdict: VerdictName,
    /// Bytes of the capacity that every simulation of the start leaves free; null where not every one fits.
    margin: Option<u64>,
    /// Bytes of the capacity that plans leave free: `--margin`.
    margin_wanted: u64,
}

/// A combination of changes that fits.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct PlanRow {
    /// All settings, defaults included.
    settings: Option<PlanSettings>,
    /// What differs from the start, one on top of the other.
    changes: Vec<ChangeReport>,
    /// Peak allocated bytes.
    peak_allocated: u64,
    /// Peak reserved bytes.
    peak_reserved: u64,
    /// What `nvidia-smi` would show for the process.
    device_used: u64,
    /// Bytes of the capacity that every simulation leaves free.
    free: u64,
    /// Seconds of a step.
    seconds: f64,
    /// The time for the same work, by that of the start.
    slowdown: f64,
    /// What it does to the training.
    effect: EffectName,
    /// The group it is in.
    group: GroupName,
    /// Why the peak is what it is.
    why: Option<String>,
    /// The training loop in PyTorch.
    code: String,
    /// What a program needs to do the same to a live model.
    parts: Option<Parts>,
    /// The configuration of Accelerate that spreads it in the same way; absent for one GPU, and where `no_accelerate` says why.
    #[serde(skip_serializing_if = "Option::is_none")]
    accelerate: Option<String>,
    /// Why there is no configuration of Accelerate; absent for one GPU, and where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    no_accelerate: Option<String>,
    /// DeepSpeed's configuration, `ds_config.json`, that the code reads; absent where DeepSpeed does not spread the training.
    #[serde(skip_serializing_if = "Option::is_none")]
    deepspeed: Option<String>,
    /// All GPUs together; absent for one.
    #[serde(skip_serializing_if = "Option::is_none")]
    all_ranks: Option<AllRanks>,
}

/// That nothing fits.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct NothingFits {
    /// Bytes that are missing for the leanest candidate.
    missing: u64,
    /// What the leanest candidate takes of the capacity.
    needed: u64,
    /// Its settings.
    settings: Option<PlanSettings>,
    /// Its changes of the start, in words.
    changes: Vec<String>,
    /// What its peak is made of.
    floor: Option<Breakdown>,
    /// The smallest known GPU on which it fits.
    gpu: Option<GpuReport>,
    /// The smallest known GPU on which the start fits.
    gpu_without_changes: Option<GpuReport>,
}

/// The answer of `vramfit max-batch --json`.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct MaxBatchReport {
    /// The largest batch such that every batch up to it fits; 0 where not even one sample does.
    max_batch: i64,
    /// Whether the next batch is known not to fit; false where the search was stopped.
    #[serde(rename = "final")]
    is_final: bool,
    /// The installed cuDNN that was asked for workspaces; absent where none was.
    #[serde(skip_serializing_if = "Option::is_none")]
    cudnn: Option<CudnnReport>,
}

impl MaxBatchReport {
    /// What was found on a GPU.
    pub fn new(found: MaxBatch, device: &Device<'_>) -> MaxBatchReport {
        MaxBatchReport { max_batch: found.batch, is_final: found.is_final, cudnn: CudnnReport::of(device) }
    }
}

impl PlanSettings {
    /// Names and values for a page.
    pub fn rows(&self) -> Vec<(String, String)> {
        let mut rows = self.settings.rows();
        rows.push(("batch".to_owned(), self.batch.map_or_else(|| "none".to_owned(), |batch| batch.to_string())));
        rows
    }
}

impl PlanReport<'_, '_> {
    /// The answer as it is written in JSON.
    pub fn json(&self) -> impl Serialize {
        self.answer()
    }

    fn answer(&self) -> PlanAnswer {
        let (outcome, device) = (self.outcome, &self.bench.device);
        let verdict = outcome.fit.verdict.into();
        let written = outcome.start_written.as_ref();
        PlanAnswer {
            model: self.model.to_owned(),
            max_batch: outcome.max_batch.map(|found| found.batch),
            max_batch_is_final: outcome.max_batch.map(|found| found.is_final),
            max_batch_of_plan: outcome.max_batch_of_plan.map(|found| found.batch),
            max_batch_of_plan_is_final: outcome.max_batch_of_plan.map(|found| found.is_final),
            plans: outcome.plans().map(|plan| self.plan(plan)).collect(),
            start: StartReport {
                settings: self.settings(&outcome.start),
                verdict,
                peak_allocated: outcome.peaks.allocated,
                peak_reserved: outcome.peaks.reserved,
                device_used: outcome.device_used,
                seconds: outcome.seconds,
                code: written.map(|written| written.code.clone()).unwrap_or_default(),
                accelerate: written.and_then(Written::accelerate_file),
                no_accelerate: written.and_then(Written::no_accelerate_file),
                deepspeed: written.and_then(|written| written.deepspeed.clone()),
                parts: written.map(|written| written.parts.clone()),
            },
            fit: PlanFit {
                gpu: device.is_asked.then(|| device.gpu.name.clone()),
                capacity: Some(outcome.fit.capacity.low),
                capacity_high: Some(outcome.fit.capacity.high),
                verdict,
                margin: outcome.fit.margin,
                margin_wanted: self.bench.margin(),
            },
            groups: outcome.groups.iter().map(GroupReport::from).collect(),
            tricks: outcome.tricks.iter().map(TrickReport::from).collect(),
            nothing_fits: self.nothing_fits(),
            cut_short: outcome.is_cut_short,
            simulated: outcome.simulated,
            notes: self.notes.clone(),
            unbound: outcome.unbound.iter().map(UnboundReport::from).collect(),
            cudnn: CudnnReport::of(device),
        }
    }

    /// The settings of the start that decide most, in words.
    pub(super) fn summary(&self) -> Option<String> {
        let bound = self.bench.bind(&self.outcome.start)?;
        let built = built_dtype(&bound, &self.outcome.start.training);
        Some(self.settings(&self.outcome.start)?.settings.summary(built))
    }

    pub(super) fn settings(&self, setup: &Setup) -> Option<PlanSettings> {
        let bound = self.bench.bind(setup)?;
        Some(PlanSettings {
            settings: SettingsReport::new(&bound, &setup.training, &self.bench.device, setup.alloc_conf.text()),
            batch: self.bench.batch_of(setup),
        })
    }

    fn plan(&self, plan: &Plan) -> PlanRow {
        let peaks = Peaks::of(&plan.run);
        PlanRow {
            settings: self.settings(&plan.setup),
            changes: plan.changes.iter().map(ChangeReport::from).collect(),
            peak_allocated: peaks.allocated,
            peak_reserved: peaks.reserved,
            device_used: plan.device_used,
            free: plan.free,
            seconds: plan.seconds,
            slowdown: plan.slowdown,
            effect: plan.effect.into(),
            group: plan.risk.into(),
            why: self.bench.bind(&plan.setup).map(|bound| self.why(&bound, &plan.run)),
            code: plan.written.code.clone(),
            parts: Some(plan.written.parts.clone()),
            accelerate: plan.written.accelerate_file(),
            no_accelerate: plan.written.no_accelerate_file(),
            deepspeed: plan.written.deepspeed.clone(),
            all_ranks: AllRanks::of(self.bench, plan),
        }
    }

    fn nothing_fits(&self) -> Option<NothingFits> {
        let nothing = self.nothing()?;
        let peaks = TopPeaks::of(&nothing.leanest.run);
        Some(NothingFits {
            missing: nothing.missing,
            needed: nothing.leanest.taken,
            settings: self.settings(&nothing.leanest.setup),
            changes: nothing.changes.clone(),
            floor: peaks.map(|peaks| Breakdown::from(peaks.first.peak.account)),
            gpu: nothing.gpu.as_ref().map(GpuReport::from),
            gpu_without_changes: nothing.gpu_for_start.as_ref().map(GpuReport::from),
        })
    }
}
