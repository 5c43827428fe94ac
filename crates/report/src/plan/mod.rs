//! What `vramfit plan` and `vramfit max-batch` show.

mod code;
mod html;
mod json;
mod plot;
mod text;

use vramfit_eager::memory::Category;
use vramfit_graph::bind::Bound;
use vramfit_plan::search::{Group, Nothing, Plan};
use vramfit_plan::tricks::differences;
use vramfit_plan::{Answer, Effect, Workbench};
use vramfit_training::{Phase, Run};

use crate::estimate::{CATEGORIES, Places};
use crate::size::human;

pub use html::page;

/// Where the slowest takes so many times as long as the fastest, time is shown on a logarithmic axis.
const WIDE: f64 = 4.0;

/// What was asked and what was found.
pub struct PlanReport<'a, 'm> {
    /// The model's name or file.
    pub model: &'a str,
    /// Where it was simulated.
    pub bench: &'a Workbench<'m>,
    /// What was found.
    pub answer: &'a Answer,
    /// What else to tell.
    pub notes: Vec<String>,
}

impl PlanReport<'_, '_> {
    /// Whether some plan fits.
    pub fn fits(&self) -> bool {
        self.answer.plans().next().is_some()
    }

    /// The training step of a plan in PyTorch.
    pub fn code(&self, plan: &Plan) -> String {
        code::code(self.bench, &plan.setup)
    }

    /// That nothing fits, which a search that was stopped cannot tell.
    fn nothing(&self) -> Option<&Nothing> {
        self.answer.nothing.as_ref().filter(|_| !self.answer.is_cut_short)
    }

    /// What needs the least of all that was tried, as changes of the start.
    fn leanest_changes(&self, nothing: &Nothing) -> Vec<String> {
        let leanest = &nothing.leanest.setup;
        let changes = differences(self.bench, &self.answer.start, leanest);
        changes.into_iter().map(|(trick, _)| trick.state(self.bench, leanest)).collect()
    }

    /// What is told of a group without a plan.
    fn no_plan(&self, group: &Group) -> String {
        match self.answer.is_cut_short {
            true => "none found until it was stopped".to_owned(),
            false => format!("nothing fits, of {} combinations", group.candidates),
        }
    }

    /// What the start would take of what there is, without a cap.
    fn needed(&self) -> u64 {
        let context = self.bench.device.context_bytes(self.answer.judged.run.libraries);
        self.answer.peaks.reserved + if self.bench.device.vram.is_none() { context } else { 0 }
    }

    /// What a plan takes of what there is.
    fn taken(&self, plan: &Plan) -> u64 {
        self.bench.device.taken(&plan.run)
    }

    /// What there is, at least.
    fn capacity(&self) -> Option<u64> {
        self.bench.device.capacity().map(|capacity| capacity.low)
    }

    /// What there is, at least and at most.
    fn capacities(&self) -> (u64, u64) {
        self.bench.device.capacity().map_or((0, 0), |capacity| (capacity.low, capacity.high))
    }

    /// Why the peak of a run is what it is: where it stands, what it is made of, and what comes next.
    fn why(&self, bound: &Bound<'_>, run: &Run) -> String {
        let Some(top) = run.peak() else { return "it dies while the model is moved to the GPU".to_owned() };
        let places = Places::new(bound);
        let place = match top.phase {
            Phase::Step => "the optimizer's step".to_owned(),
            phase => {
                let module = places.module(top.peak.origin).map_or_else(String::new, |module| format!(" of {module}"));
                format!("the {} pass{module}", phase.name())
            }
        };
        let mut parts: Vec<(&str, u64)> = CATEGORIES
            .iter()
            .map(|&(name, category): &(&str, Category)| (name, top.peak.account.requested[category as usize]))
            .collect();
        parts.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
        let largest: Vec<String> = parts
            .iter()
            .take(3)
            .filter(|(_, bytes)| *bytes > 0)
            .map(|(name, bytes)| format!("{name} {}", human(*bytes)))
            .collect();
        let mut text = format!("the peak is {} in {place}: {}", human(top.peak.allocated), largest.join(", "));
        let others = run.phases.iter().filter(|phase| phase.phase != Phase::Build && phase.phase != top.phase);
        if let Some(second) = others.max_by_key(|phase| phase.peak.allocated) {
            let name = if second.phase == Phase::Step { "the optimizer's step" } else { second.phase.name() };
            text += &format!("; next is {} with {}", name, human(second.peak.allocated));
        }
        text
    }
}

/// What a group of plans is called.
fn title(effect: Effect) -> &'static str {
    match effect {
        Effect::None => "Without any effect on the training",
        Effect::Rounding => "With another rounding",
        Effect::Training => "With another training",
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
