//! The answers of `vramfit plan --json` and `vramfit max-batch --json`.

use indexmap::IndexMap;
use serde::Serialize;
use vramfit_eager::samples::MeetingKind;
use vramfit_plan::max_batch::MaxBatch;
use vramfit_plan::search::{FrontierPoint, Group, Plan, SufficientGpu, TrickRow};
use vramfit_plan::tricks::Change;
use vramfit_plan::{Parts, Peaks, Setup, SplitCause, Unbound};
use vramfit_training::answer::{Device, TopPeaks};

use super::PlanReport;
use crate::cudnn::CudnnReport;
use crate::estimate::Breakdown;
use crate::names::{EffectName, GroupName, VerdictName};
use crate::settings::{AnswerSettings, SettingsReport, built_dtype, yes_or_no};

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
    /// Whether activation modules write into their input where they may.
    in_place: bool,
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
}

/// One change of a plan.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ChangeReport {
    /// The trick's name.
    trick: &'static str,
    /// As it was.
    before: String,
    /// As it is with this change.
    after: String,
    /// Bytes that are no longer reserved at the peak, on top of the changes before it.
    saving: i64,
    /// The time for the same work, by that before this change.
    slowdown: f64,
    /// What it does to the training.
    effect: EffectName,
    /// The group of plans that use it.
    group: GroupName,
    /// What to know about it.
    warning: Option<String>,
    /// Why micro-batches may not add up to the batch that they are parts of.
    split_cause: Option<SplitCauseReport>,
}

/// Why micro-batches may not add up to the batch that they are parts of.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct SplitCauseReport {
    /// What it is.
    kind: SplitCauseName,
    /// The operator in which samples meet.
    operator: Option<String>,
    /// The line of the model's code.
    source: Option<String>,
}

/// What keeps micro-batches from adding up.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
enum SplitCauseName {
    /// Batch norms compute statistics over a micro-batch.
    BatchNorm,
    /// Samples are compared with each other.
    Pairs,
    /// Something else than a mean or sum over the batch comes before the loss.
    Reduced,
    /// A softmax, a sort or a shift runs along the batch.
    Along,
    /// The mean is divided by the weights of the classes that occur.
    ClassWeights,
    /// It cannot be shown that samples do not meet.
    NotShown,
    /// Labels that are ignored may differ in number between micro-batches.
    IgnoredLabels,
}

impl From<&SplitCause> for SplitCauseReport {
    fn from(cause: &SplitCause) -> SplitCauseReport {
        let kind = match cause {
            SplitCause::BatchNorm { .. } => SplitCauseName::BatchNorm,
            SplitCause::IgnoredLabels => SplitCauseName::IgnoredLabels,
            SplitCause::Meeting(meeting) => match meeting.kind {
                MeetingKind::Pairs => SplitCauseName::Pairs,
                MeetingKind::Reduced => SplitCauseName::Reduced,
                MeetingKind::Along => SplitCauseName::Along,
                MeetingKind::ClassWeights => SplitCauseName::ClassWeights,
                MeetingKind::NotFollowed => SplitCauseName::NotShown,
            },
        };
        let (operator, source) = match cause {
            SplitCause::Meeting(meeting) => (Some(meeting.operator.clone()), meeting.source.clone()),
            _ => (None, None),
        };
        SplitCauseReport { kind, operator, source }
    }
}

/// The plans of one risk.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct GroupReport {
    /// What its first changes do to the training.
    effect: EffectName,
    /// What its plans risk.
    group: GroupName,
    /// How many combinations there were.
    candidates: usize,
    /// How many of `plans` are of this group.
    plans: usize,
    /// Memory against time: what no other candidate of the group beats in both.
    frontier: Vec<PointReport>,
}

/// A candidate in the plot of memory against time.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct PointReport {
    /// What it takes of the capacity.
    taken: u64,
    /// The time for the same work, by that of the start.
    slowdown: f64,
    /// Whether that is less than there is.
    fits: bool,
}

/// A trick alone.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct TrickReport {
    /// The trick's name.
    trick: &'static str,
    /// What it does to the training.
    effect: EffectName,
    /// The group of plans that use it.
    group: GroupName,
    /// Whether it applies here.
    applies: bool,
    /// Why it does not.
    reason: Option<String>,
    /// The ways to use it.
    options: Vec<OptionReport>,
    /// What else it found.
    findings: Vec<FindingReport>,
    /// What it does not go together with, in words.
    conflicts: &'static str,
    /// How it is written in PyTorch.
    code: &'static str,
}

/// One way to use a trick.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct OptionReport {
    /// Which way.
    what: String,
    /// Bytes that are no longer reserved at the peak; negative where it takes more.
    saving: i64,
    /// The same for allocated bytes.
    saving_allocated: i64,
    /// The time for the same work, by that of the start.
    slowdown: f64,
    /// What to know about it.
    warning: Option<String>,
}

/// What a trick found beside ways to use it.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct FindingReport {
    /// What was found.
    what: String,
    /// The bytes it is about.
    bytes: Option<i64>,
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

/// A GPU of the catalogue.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct GpuReport {
    /// Its name.
    name: String,
    /// Bytes it has for a process, at least.
    capacity: u64,
}

/// A candidate that the model cannot be bound to.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct UnboundReport {
    /// The model's sizes by name.
    sizes: IndexMap<String, i64>,
    /// The element type that the whole model is cast to.
    dtype: Option<&'static str>,
    /// The element type of autocast.
    amp: Option<&'static str>,
    /// Why it cannot be bound.
    reason: String,
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
        rows.push(("in place".to_owned(), yes_or_no(self.in_place)));
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
            plans: outcome.plans().map(|plan| self.plan(plan)).collect(),
            start: StartReport {
                settings: self.settings(&outcome.start),
                verdict,
                peak_allocated: outcome.peaks.allocated,
                peak_reserved: outcome.peaks.reserved,
                device_used: outcome.device_used,
                seconds: outcome.seconds,
                code: written.map(|written| written.code.clone()).unwrap_or_default(),
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
        let built = built_dtype(&bound);
        Some(self.settings(&self.outcome.start)?.settings.summary(built))
    }

    pub(super) fn settings(&self, setup: &Setup) -> Option<PlanSettings> {
        let bound = self.bench.bind(setup)?;
        Some(PlanSettings {
            settings: SettingsReport::new(&bound, &setup.training, &self.bench.device, setup.alloc_conf.text()),
            in_place: setup.is_in_place,
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
            seconds: plan.seconds,
            slowdown: plan.slowdown,
            effect: plan.effect.into(),
            group: plan.risk.into(),
            why: self.bench.bind(&plan.setup).map(|bound| self.why(&bound, &plan.run)),
            code: plan.written.code.clone(),
            parts: Some(plan.written.parts.clone()),
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

impl From<&Change> for ChangeReport {
    fn from(change: &Change) -> ChangeReport {
        ChangeReport {
            trick: change.trick,
            before: change.before.clone(),
            after: change.after.clone(),
            saving: change.saving,
            slowdown: change.slowdown,
            effect: change.risk.effect().into(),
            group: change.risk.into(),
            warning: change.warning.clone(),
            split_cause: change.split_cause.as_ref().map(SplitCauseReport::from),
        }
    }
}

impl From<&Group> for GroupReport {
    fn from(group: &Group) -> GroupReport {
        GroupReport {
            effect: group.risk.effect().into(),
            group: group.risk.into(),
            candidates: group.candidates,
            plans: group.best.iter().count() + group.others.len(),
            frontier: group.frontier.iter().map(PointReport::from).collect(),
        }
    }
}

impl From<&FrontierPoint> for PointReport {
    fn from(point: &FrontierPoint) -> PointReport {
        PointReport { taken: point.taken, slowdown: point.slowdown, fits: point.fits }
    }
}

impl From<&TrickRow> for TrickReport {
    fn from(row: &TrickRow) -> TrickReport {
        let options = row.options.iter().map(|shown| OptionReport {
            what: shown.what.clone(),
            saving: shown.saving,
            saving_allocated: shown.saving_allocated,
            slowdown: shown.slowdown,
            warning: shown.warning.clone(),
        });
        let findings = row.findings.iter();
        TrickReport {
            trick: row.name,
            effect: row.risk.effect().into(),
            group: row.risk.into(),
            applies: row.reason.is_none(),
            reason: row.reason.clone(),
            options: options.collect(),
            findings: findings
                .map(|finding| FindingReport { what: finding.what.clone(), bytes: finding.bytes })
                .collect(),
            conflicts: row.conflicts,
            code: row.code,
        }
    }
}

impl From<&SufficientGpu> for GpuReport {
    fn from(gpu: &SufficientGpu) -> GpuReport {
        GpuReport { name: gpu.name.clone(), capacity: gpu.capacity }
    }
}

impl From<&Unbound> for UnboundReport {
    fn from(unbound: &Unbound) -> UnboundReport {
        UnboundReport {
            sizes: unbound.sizes.iter().cloned().collect(),
            dtype: unbound.variant.dtype.map(|dtype| dtype.name()),
            amp: unbound.variant.amp.map(|dtype| dtype.name()),
            reason: unbound.reason.to_string(),
        }
    }
}
