//! What `vramfit plan` and `vramfit max-batch` show.

mod html;
mod json;
mod plot;
mod recorded;
mod text;

use anstyle::{AnsiColor, Style};
use vramfit_graph::bind::Bound;
use vramfit_plan::search::{Group, Plan, Shortfall};
use vramfit_plan::{Outcome, Risk, Unbound, Workbench};
use vramfit_training::answer::{CapacityKind, Fit, TopPeaks, Verdict};
use vramfit_training::{Phase, Run};

use crate::estimate::{Breakdown, Locations, room};
use crate::names::PhaseName;
use crate::size::{human, number};

pub use html::page;
pub use json::MaxBatchReport;
#[cfg(test)]
pub(crate) use json::PlanAnswer;
pub use recorded::RecordedPlanReport;

/// Where the slowest takes so many times as long as the fastest, time is shown on a logarithmic axis.
const WIDE: f64 = 4.0;

/// What was asked and what was found.
pub struct PlanReport<'a, 'm> {
    /// The model's name or file.
    pub model: &'a str,
    /// Where it was simulated.
    pub bench: &'a Workbench<'m>,
    /// What was found.
    pub outcome: &'a Outcome,
    /// What else to say.
    pub notes: Vec<String>,
}

impl PlanReport<'_, '_> {
    /// Whether some plan fits.
    pub fn fits(&self) -> bool {
        self.outcome.plans().next().is_some()
    }

    /// That nothing fits, which a search that was stopped cannot know.
    fn nothing(&self) -> Option<&Shortfall> {
        self.outcome.shortfall.as_ref().filter(|_| !self.outcome.is_cut_short)
    }

    /// Whether each plan of a group makes one change and no other.
    fn has_single_changes(&self, group: &Group) -> bool {
        let is_single = |plan: &vramfit_plan::Plan| plan.changes.len() == 1;
        group.risk == Risk::SmallerTraining && group.others.iter().all(is_single)
    }

    /// What the plans of a group beside its best one are.
    fn others(&self, group: &Group) -> &'static str {
        if self.has_single_changes(group) { "Other single changes" } else { "Less memory for more time" }
    }

    /// What is said of a group without a plan.
    fn no_plan(&self, group: &Group) -> String {
        match self.outcome.is_cut_short {
            true => "none found until it was stopped".to_owned(),
            false if group.is_outdone => {
                "none is needed: what fits here fits without this risk in the same time".to_owned()
            }
            false if self.outcome.plans().next().is_some() => {
                format!("nothing of {} combinations fits in up to three times the time", group.candidates)
            }
            false => format!("nothing fits, of {} combinations", group.candidates),
        }
    }

    /// What the start takes of the capacity: as `estimate` says it, to the most.
    fn start_takes(&self) -> String {
        takes(self.outcome.fit.needed, self.outcome.needed)
    }

    /// The same of a plan.
    fn plan_takes(&self, plan: &Plan) -> String {
        let expected = match self.outcome.fit.kind {
            CapacityKind::Gpu => plan.device_used,
            CapacityKind::Reserved => plan.run.peak_reserved,
        };
        takes(expected, plan.taken)
    }

    /// Whether the start fits and leaves the margin.
    fn start_fits(&self) -> bool {
        self.outcome.fit.margin.is_some_and(|left| left >= self.bench.margin())
    }

    /// What the start leaves free, where that is less than the margin.
    fn too_tight(&self) -> Option<String> {
        too_tight(&self.outcome.fit, self.bench.margin())
    }

    fn target(&self) -> String {
        target(&self.outcome.fit, &self.bench.device.gpu.name)
    }

    /// How many candidates were left out because they could not be bound, and why; `None` where none was.
    fn unbound(&self) -> Option<String> {
        let all = &self.outcome.unbound;
        let first = all.first()?;
        Some(match all.len() {
            1 => format!("1 candidate was left out because the model cannot be bound to it: {}", reason(first)),
            count => format!(
                "{count} candidates were left out because the model cannot be bound to them; the first: {}",
                reason(first)
            ),
        })
    }

    /// Why the peak of a run is what it is: in which phase it is, what it is made of, and what comes next.
    fn why(&self, bound: &Bound<'_>, run: &Run) -> String {
        let Some(peaks) = TopPeaks::of(run) else {
            return "it runs out of memory while the model is moved to the GPU".to_owned();
        };
        let top = peaks.first;
        let place = match top.phase {
            Phase::Step => "the optimizer's step".to_owned(),
            phase => {
                let locations = Locations::new(bound);
                let module =
                    locations.module(top.peak.origin).map_or_else(String::new, |module| format!(" of {module}"));
                format!("the {} pass{module}", PhaseName::from(phase).name())
            }
        };
        let mut parts = Breakdown::from(top.peak.account).by_category();
        parts.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
        let largest: Vec<String> = parts
            .iter()
            .take(3)
            .filter(|(_, bytes)| *bytes > 0)
            .map(|(category, bytes)| format!("{} {}", category.name(), human(*bytes)))
            .collect();
        let mut text = format!("the peak is {} in {place}: {}", human(top.peak.allocated), largest.join(", "));
        if let Some(second) = peaks.second {
            let name = match second.phase {
                Phase::Step => "the optimizer's step",
                phase => PhaseName::from(phase).name(),
            };
            text += &format!("; next is {} with {}", name, human(second.peak.allocated));
        }
        text
    }
}

/// What a training is to fit in: `on the RTX 3060, which has 12.0 GiB for it`, or `in 3.00 GiB`.
fn target(fit: &Fit, gpu: &str) -> String {
    let capacity = fit.capacity;
    match fit.kind {
        CapacityKind::Gpu => format!("on the {gpu}, which has {} for it", room(capacity.low, capacity.high)),
        CapacityKind::Reserved => format!("in {}", human(capacity.low)),
    }
}

/// What is expected, and the most it may be: with the largest CUDA context, and over all steps.
fn takes(expected: u64, most: u64) -> String {
    let (least, most) = (human(expected), human(most.max(expected)));
    if least == most { most } else { format!("{} to {most}", number(&least, &most)) }
}

/// What is left free, where that is less than the margin: `but leaves 12.0 MiB free, less than the margin of 240 MiB`.
fn too_tight(fit: &Fit, margin: u64) -> Option<String> {
    let left = fit.margin.filter(|left| *left < margin)?;
    Some(format!("but leaves {} free, less than the margin of {}", human(left), human(margin)))
}

/// The verdict on the start in words, and the style it is shown in.
fn verdict(fit: &Fit, margin: u64) -> (Style, &'static str) {
    let (good, bad) = (AnsiColor::Green.on_default().bold(), AnsiColor::Red.on_default().bold());
    match fit.verdict {
        Verdict::Fits if too_tight(fit, margin).is_none() => (good, "fits as it is"),
        Verdict::Fits => (bad, "fits too tightly"),
        Verdict::TooClose => (bad, "too close to tell"),
        Verdict::DoesNotFit => (bad, "does not fit"),
    }
}

/// The sizes of a candidate that could not be bound, and why.
fn reason(unbound: &Unbound) -> String {
    let sizes: Vec<String> = unbound.sizes.iter().map(|(name, size)| format!("{name} {size}")).collect();
    let precision = match (unbound.variant.dtype, unbound.variant.amp) {
        (Some(dtype), _) => format!(" in {}", dtype.short_name()),
        (None, Some(amp)) => format!(" with autocast {}", amp.short_name()),
        (None, None) => String::new(),
    };
    format!("{}{precision}: {}", sizes.join(", "), unbound.reason)
}

/// What a group of plans is called.
fn title(risk: Risk) -> &'static str {
    match risk {
        Risk::None => "Without any effect on the training",
        Risk::MixedPrecision => "With mixed precision",
        Risk::WeightState => "With another optimizer, or adapters",
        Risk::SmallerDtype => "With the whole model in a smaller type",
        Risk::SmallerTraining => "With smaller batches, sequences or models",
    }
}

/// `1.18 times the time`, or `0.5 times`.
fn times(slowdown: f64) -> String {
    format!("×{slowdown:.2}")
}

/// Bytes with a sign, where they are saved.
fn saved(bytes: i64) -> String {
    match bytes {
        0 => "saves 0 B".to_owned(),
        bytes if bytes > 0 => format!("saves {}", human(bytes.unsigned_abs())),
        bytes => format!("takes {} more", human(bytes.unsigned_abs())),
    }
}
