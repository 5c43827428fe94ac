//! What `vramfit plan` shows for the recording of a script.

use std::collections::BTreeSet;

use anstyle::{AnsiColor, Style};
use serde::Serialize;
use vramfit_graph::model::RecordedScript;
use vramfit_plan::{RecordedOutcome, RecordedPlan, ScriptChange};
use vramfit_training::answer::{Answer, CapacityKind, Device, Fit};

use super::{saved, target, times, too_tight, verdict};
use crate::estimate::{led, wrapped};
use crate::names::{EffectName, VerdictName};
use crate::size::human;

/// What a recording cannot tell.
const LEFT_TO_THE_SCRIPT: &str =
    "The batch, the precision, the model and the optimizer are the script's own: change them there and run it again.";

/// The answer of `vramfit plan --json` for the recording of a script. Sizes are bytes.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct RecordedPlanReport {
    /// The recording.
    model: String,
    /// The script.
    script: String,
    /// How many optimizer steps were recorded.
    steps: u32,
    /// Always null: the batch is the script's own.
    max_batch: Option<i64>,
    /// The plans that fit, fewest changes first.
    plans: Vec<PlanRow>,
    /// The script as it is.
    start: Peaks,
    /// Whether it fits as it is.
    fit: RecordedFit,
    /// What each change does alone, what reserves the least first.
    alone: Vec<ChangeRow>,
    /// All changes together, where no plan fits.
    leanest: Option<PlanRow>,
    /// Whether the search was stopped before it was done.
    cut_short: bool,
    /// How many candidates were simulated.
    simulated: u64,
    /// What to know about the answer.
    notes: Vec<String>,
    #[serde(skip)]
    verdict: String,
}

/// Changes that make it fit.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct PlanRow {
    /// What is set for all of PyTorch.
    settings: PlanRowSettings,
    /// What to change.
    changes: Vec<ChangeRow>,
    #[serde(flatten)]
    peaks: Peaks,
    /// The time for the same work, by that of the start; null where it is not known.
    slowdown: Option<f64>,
    /// What it does to the training.
    effect: EffectName,
    #[serde(skip)]
    free: u64,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct PlanRowSettings {
    /// `PYTORCH_CUDA_ALLOC_CONF`, empty for the defaults.
    alloc_conf: String,
    /// `torch.backends.cudnn.benchmark`.
    cudnn_benchmark: bool,
}

#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Peaks {
    /// Peak allocated bytes.
    peak_allocated: u64,
    /// Peak reserved bytes.
    peak_reserved: u64,
    /// What `nvidia-smi` would show for the process.
    device_used: u64,
}

/// A change of the script.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ChangeRow {
    /// The trick's name.
    trick: &'static str,
    /// What to do.
    after: String,
    /// The lines of the script that it is about.
    lines: Vec<String>,
    /// Bytes that are no longer reserved at the peak. Within a plan the first change has the saving of all.
    saving: i64,
    /// The same for allocated bytes.
    saving_allocated: i64,
    /// What it does to the training.
    effect: EffectName,
    /// What to know about it.
    warning: Option<String>,
}

/// Whether the script fits as it is.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct RecordedFit {
    /// The GPU, where one was asked for.
    gpu: Option<String>,
    /// Bytes there are, at least.
    capacity: u64,
    /// At most.
    capacity_high: u64,
    /// The verdict over all simulations.
    verdict: VerdictName,
    /// Bytes of the capacity that every simulation leaves free; null where not every one fits.
    margin: Option<u64>,
    /// Bytes of the capacity that plans leave free: `--margin`.
    margin_wanted: u64,
}

impl From<&Answer> for Peaks {
    fn from(answer: &Answer) -> Peaks {
        Peaks {
            peak_allocated: answer.peak_allocated(),
            peak_reserved: answer.expected.peak_reserved,
            device_used: answer.device_used,
        }
    }
}

impl From<&ScriptChange> for ChangeRow {
    fn from(change: &ScriptChange) -> ChangeRow {
        ChangeRow {
            trick: change.trick,
            after: change.what.clone(),
            lines: change.lines.iter().map(ToString::to_string).collect(),
            saving: change.saving,
            saving_allocated: change.saving_allocated,
            effect: EffectName::None,
            warning: change.warning.clone(),
        }
    }
}

impl PlanRow {
    fn new(plan: &RecordedPlan) -> PlanRow {
        PlanRow {
            settings: PlanRowSettings {
                alloc_conf: plan.alloc_conf.text().to_owned(),
                cudnn_benchmark: plan.is_cudnn_benchmarked,
            },
            changes: plan.changes.iter().map(ChangeRow::from).collect(),
            peaks: Peaks::from(&plan.answer),
            slowdown: (!plan.changes.iter().any(|change| change.is_time_unknown)).then_some(1.0),
            effect: EffectName::None,
            free: plan.answer.fit.as_ref().and_then(|fit| fit.margin).unwrap_or_default(),
        }
    }

    /// `peak 830 MiB reserved, 613 MiB allocated, 944 MiB on the device, 80.0 MiB free`.
    fn figures(&self) -> String {
        let Peaks { peak_allocated, peak_reserved, device_used } = self.peaks;
        let time =
            self.slowdown.map_or_else(|| "time not known".to_owned(), |slowdown| format!("time {}", times(slowdown)));
        format!(
            "peak {} reserved, {} allocated, {} on the device, {} free, {time}",
            human(peak_reserved),
            human(peak_allocated),
            human(device_used),
            human(self.free)
        )
    }
}

impl RecordedPlanReport {
    /// Of what was found for the recording `model`; `fit` is the start's.
    pub fn new(
        model: &str,
        (name, script): (&str, &RecordedScript),
        device: &Device<'_>,
        (outcome, fit): (&RecordedOutcome, &Fit),
        notes: Vec<String>,
    ) -> RecordedPlanReport {
        let (style, words) = verdict(fit, outcome.margin);
        let takes = match fit.kind {
            CapacityKind::Gpu => format!("it would take {} on the device", human(outcome.start.device_used)),
            CapacityKind::Reserved => format!("it would reserve {}", human(outcome.start.expected.peak_reserved)),
        };
        let tight = too_tight(fit, outcome.margin).map_or_else(String::new, |tight| format!(", {tight}"));
        let line = format!(" {}; {takes}{tight}", target(fit, &device.gpu.name));
        RecordedPlanReport {
            model: model.to_owned(),
            script: name.to_owned(),
            steps: script.steps,
            max_batch: None,
            plans: outcome.plans.iter().map(PlanRow::new).collect(),
            start: Peaks::from(&outcome.start),
            fit: RecordedFit {
                gpu: device.is_asked.then(|| device.gpu.name.clone()),
                capacity: fit.capacity.low,
                capacity_high: fit.capacity.high,
                verdict: fit.verdict.into(),
                margin: fit.margin,
                margin_wanted: outcome.margin,
            },
            alone: outcome.alone.iter().map(ChangeRow::from).collect(),
            leanest: outcome.leanest.as_ref().map(PlanRow::new),
            cut_short: outcome.is_cut_short,
            simulated: outcome.simulated,
            notes,
            verdict: led(style, words, &line),
        }
    }

    /// Whether some plan fits.
    pub fn fits(&self) -> bool {
        !self.plans.is_empty()
    }

    /// For a terminal: the verdict and the recommended plan; with `is_complete` every plan and what each change does alone.
    pub fn text(&self, is_complete: bool) -> String {
        let bold = Style::new().bold();
        let mut text = led(bold, &self.model, &format!(": {}, {} optimizer steps recorded", self.script, self.steps));
        text += &self.verdict;
        let shown = if is_complete { self.plans.len() } else { 1 };
        for (index, plan) in self.plans.iter().take(shown).enumerate() {
            let title = if index == 0 { "Recommended" } else { "Or" };
            text += &format!("\n{bold}{title}: without any effect on the training{bold:#}\n");
            text += &plan_text(plan);
        }
        if let Some(plan) = &self.leanest {
            let bad = AnsiColor::Red.on_default().bold();
            text +=
                &format!("\n{bad}Nothing fits{bad:#}: all changes that a recording can tell together are not enough\n");
            text += &plan_text(plan);
        } else if self.plans.is_empty() {
            let found = if self.alone.is_empty() { "no change" } else { "no change or combination" };
            text += &format!("\n{found} that a recording can tell makes it fit\n");
        }
        if is_complete && !self.alone.is_empty() {
            text += &format!("\n{bold}Each change alone{bold:#}\n");
            for change in &self.alone {
                text +=
                    &wrapped(&format!("{}: {}", saved(change.saving.max(change.saving_allocated)), change.after), 2);
            }
        }
        let all = if is_complete || self.alone.is_empty() { "" } else { "--all prints what each change does alone. " };
        text += &wrapped(&format!("{all}{LEFT_TO_THE_SCRIPT}"), 0);
        for note in &self.notes {
            text += &wrapped(&format!("note: {note}"), 0);
        }
        if self.cut_short {
            text += "\nstopped early: this is the best that was found until then\n";
        }
        text
    }
}

fn plan_text(plan: &PlanRow) -> String {
    let mut text = String::new();
    if plan.changes.is_empty() {
        text += "  nothing needs to change\n";
    }
    for change in &plan.changes {
        text += &wrapped(&format!("+ {}", change.after), 2);
    }
    text += &wrapped(&format!("= {}", plan.figures()), 2);
    let warnings: BTreeSet<&String> = plan.changes.iter().filter_map(|change| change.warning.as_ref()).collect();
    for warning in warnings {
        text += &wrapped(&format!("note: {warning}"), 2);
    }
    text
}
