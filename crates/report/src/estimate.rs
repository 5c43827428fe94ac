//! What `vramfit estimate` shows.

mod fit;
mod holders;
mod html;
mod locations;
mod notes;
mod parts;
mod text;
mod timeline;

use std::collections::BTreeMap;

use serde::Serialize;
use vramfit_graph::bind::Bound;
use vramfit_training::answer::{Answer, CapacityKind, Device};
use vramfit_training::{Loop, Run};

use crate::cudnn::CudnnReport;
use crate::names::CountedName;
use crate::ranks::{AllRanks, CommunicationReport, ParallelReport};
use crate::settings::{SettingsReport, built_dtype};

pub(crate) use fit::{FitReport, mark, room};
pub(crate) use holders::Holder;
pub use html::page;
pub(crate) use locations::Locations;
pub use notes::gpu_notes;
pub(crate) use parts::Breakdown;
use parts::{PeakReport, PhaseRow, RangeReport, SecondPeak, is_zero};
pub(crate) use text::led;
pub use text::wrapped;
pub use timeline::Timeline;

/// What was asked.
pub struct Question<'a> {
    /// The model's name or file.
    pub model: &'a str,
    /// The model at the sizes asked for.
    pub bound: &'a Bound<'a>,
    /// The loop.
    pub training: &'a Loop,
    /// The GPU, and what PyTorch may reserve there.
    pub device: Device<'a>,
    /// The allocator's settings, in PyTorch's syntax.
    pub alloc_conf: &'a str,
    /// What else to say, such as which settings change nothing.
    pub notes: Vec<String>,
    /// The command that searches for what makes it fit.
    pub plan_command: String,
}

/// The answer of `vramfit estimate --json`, or of another command with settings of its own. Sizes are bytes.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct EstimateReport<S = SettingsReport> {
    /// The model's name or file.
    model: String,
    /// All settings, defaults included.
    settings: S,
    /// How many parameters the model has.
    parameters: u64,
    /// The highest `torch.cuda.memory_allocated()` after the model is built. If the run dies on this GPU, this and all
    /// numbers below except `fit` describe the same run without a memory limit: what it would need.
    peak_allocated: u64,
    /// The highest `torch.cuda.memory_reserved()` after the model is built.
    peak_reserved: u64,
    /// What `nvidia-smi` shows for the process: `peak_reserved` and the expected CUDA context.
    device_used: u64,
    /// Bytes of optimizer states in managed memory, which none of the numbers above counts; absent where there are none.
    #[serde(skip_serializing_if = "is_zero")]
    managed: u64,
    /// When the peak is reached; null where it needs more than 64-bit addresses reach.
    peak: Option<PeakReport>,
    /// What is allocated at the peak; the parts sum to `peak_allocated`.
    breakdown: Breakdown,
    /// The phases in order.
    phases: Vec<PhaseRow>,
    /// Whether both peaks are certain to the byte.
    exact: bool,
    /// Operators without a memory rule, each with how many steps of one pass call it.
    #[cfg_attr(test, schemars(with = "Vec<String>"))]
    unmodelled: Vec<CountedName>,
    /// Workspaces that were guessed from similar recordings, each with how often; the ranges cover what they may take.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(test, schemars(with = "Vec<String>"))]
    guessed: Vec<CountedName>,
    /// The modules that call each unmodelled operator.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    unmodelled_in: BTreeMap<String, Vec<String>>,
    /// The bounds of `peak_allocated`.
    range: RangeReport,
    /// The bounds of `peak_reserved`.
    reserved_range: RangeReport,
    /// Whether it fits; null where neither a GPU nor a cap was given.
    fit: Option<FitReport>,
    /// Bytes of the CUDA context, as expected.
    context: u64,
    /// The lower bound of `context`; equal to it where it was measured.
    context_low: u64,
    /// The upper bound of `context`, which `fits` leaves room for, as for that of `communication.nccl`.
    context_high: u64,
    /// Whether the context was measured on this GPU.
    is_context_measured: bool,
    /// The installed cuDNN that was asked for workspaces; absent where none was.
    #[serde(skip_serializing_if = "Option::is_none")]
    cudnn: Option<CudnnReport>,
    /// How the training is spread over GPUs; absent where it is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    parallel: Option<ParallelReport>,
    /// All GPUs together, the first rank's peak taken for each; absent where there is only one.
    #[serde(skip_serializing_if = "Option::is_none")]
    all_ranks: Option<AllRanks>,
    /// What the ranks send each other; absent where there is only one.
    #[serde(skip_serializing_if = "Option::is_none")]
    communication: Option<CommunicationReport>,
    /// The largest holders of memory at the peak, the largest first.
    holders: Vec<Holder>,
    /// The highest peak in another kind of phase: what remains once the first is cut below it.
    second_peak: Option<SecondPeak>,
    /// What to know about the answer.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notes: Vec<String>,
    /// The command that searches for what makes it fit.
    #[serde(skip)]
    plan_command: String,
    /// The settings that decide most, in words.
    #[serde(skip)]
    summary: String,
}

/// How many holders JSON has.
const HOLDERS: usize = 20;

impl EstimateReport {
    /// The report on an answer.
    pub fn new(question: &Question<'_>, answer: &Answer) -> EstimateReport {
        let settings = SettingsReport::new(question.bound, question.training, &question.device, question.alloc_conf);
        let summary = settings.summary(built_dtype(question.bound, question.training));
        EstimateReport::with_settings(question, answer, settings, summary)
    }
}

impl<S> EstimateReport<S> {
    /// The report on an answer for these settings; `summary` has in words those that decide most.
    pub(crate) fn with_settings(
        question: &Question<'_>,
        answer: &Answer,
        settings: S,
        summary: String,
    ) -> EstimateReport<S> {
        let (bound, device, run) = (question.bound, &question.device, &answer.expected);
        let locations = Locations::new(bound);
        let mut holders = match run.journal.is_empty() {
            true => Vec::new(),
            false => holders::at_peak(bound, answer, &locations),
        };
        holders.truncate(HOLDERS);
        EstimateReport {
            model: question.model.to_owned(),
            summary,
            settings,
            parameters: bound.model.parameter_count().unwrap_or(u64::MAX),
            peak_allocated: answer.peak_allocated(),
            peak_reserved: run.peak_reserved,
            device_used: answer.device_used,
            managed: run.managed,
            peak: answer.peaks.map(|peaks| PeakReport::of(&peaks.first, &locations)),
            breakdown: Breakdown::from(answer.breakdown()),
            phases: run.phases.iter().map(PhaseRow::from).collect(),
            exact: answer.is_exact(),
            unmodelled: answer.unmodelled().iter().map(CountedName::from).collect(),
            guessed: answer.guessed().iter().map(CountedName::from).collect(),
            unmodelled_in: unmodelled_in(run, &locations),
            range: RangeReport::from(&answer.allocated),
            reserved_range: RangeReport::from(&answer.reserved),
            fit: answer.fit.as_ref().map(|fit| FitReport::new(device, fit, &locations)),
            context: answer.context.expected,
            context_low: answer.context.low,
            context_high: answer.context.high,
            is_context_measured: device.gpu.context.is_some(),
            cudnn: CudnnReport::of(device),
            parallel: ParallelReport::of(bound, question.training),
            all_ranks: AllRanks::new(bound, question.training, run.peak_reserved),
            communication: CommunicationReport::of(bound, question.training, run),
            holders,
            second_peak: answer.peaks.and_then(SecondPeak::of),
            notes: notes::notes(question, answer),
            plan_command: question.plan_command.clone(),
        }
    }

    /// Whose the CUDA context is, or its bounds where it was not measured.
    fn context_words(&self) -> String {
        match self.is_context_measured {
            true => "measured".to_owned(),
            false => room(self.context_low, self.context_high),
        }
    }

    /// What is on the device in steps after the reported ones, where that is more and decides that it does not fit.
    fn later(&self) -> Option<u64> {
        let fit = self.fit.as_ref().filter(|fit| fit.kind == CapacityKind::Gpu)?;
        (fit.needed > self.device_used).then_some(fit.needed)
    }

    /// Cached bytes that no tensor uses, as far as the two peaks say.
    fn cached(&self) -> u64 {
        self.peak_reserved.saturating_sub(self.peak_allocated)
    }

    /// Whether some phases belong to other micro-batches than the first.
    fn has_micro_batches(&self) -> bool {
        self.phases.iter().any(|phase| phase.micro > Some(0))
    }
}

/// The modules that call each operator without a rule, each once, in order.
fn unmodelled_in(run: &Run, locations: &Locations<'_>) -> BTreeMap<String, Vec<String>> {
    let modules = |calls: &[u32]| {
        let mut modules: Vec<String> = Vec::new();
        for module in calls.iter().filter_map(|&step| locations.module(step)) {
            if modules.last().is_none_or(|last| last != module) {
                modules.push(module.to_owned());
            }
        }
        modules
    };
    run.missing
        .iter()
        .map(|(name, calls)| (name.clone(), modules(calls)))
        .filter(|(_, found)| !found.is_empty())
        .collect()
}
