//! Plans for the recording of a script: what can be changed without running the script again.
//!
//! A recording says when tensors are made, used and dropped, so that a `del`, a `no_grad` or an earlier `zero_grad` is a change of
//! its steps ([`edit`]). Allocator settings change nothing of them. Batches, precisions and models are the script's own: for another one it
//! is run again.

mod candidates;
mod edit;
mod held;
mod late_zero_grad;
mod lifetimes;
mod lines;
mod unused_graph;

use vramfit_graph::bind::{Bound, bind};
use vramfit_graph::model::RecordedScript;
use vramfit_training::Loop;
use vramfit_training::answer::{Answer, Device, Scenarios};

use crate::alloc_conf::AllocConf;
use crate::control::Control;
use crate::error::{SetupError, Unanswerable};
use candidates::{Candidate, Kind, candidates};
use edit::{Edit, edited};
use lifetimes::Recorded;
pub use lines::Line;
use lines::Lines;

/// What saves less than this part of the peak is not worth a change.
const SMALLEST_PART: u64 = 200;

/// A recorded script on a GPU.
pub struct RecordedTraining<'a, 'm> {
    /// The recording.
    pub bound: &'a Bound<'m>,
    /// What it has beside its steps.
    pub script: &'m RecordedScript,
    /// The GPU and the limit.
    pub device: Device<'a>,
    /// Allocator settings.
    pub alloc_conf: AllocConf,
    /// The share of the capacity that must stay free.
    pub margin: f64,
}

/// What was found.
pub struct RecordedOutcome {
    /// The script as it is.
    pub start: Answer,
    /// What each change does alone, what reserves the least first; those that save nothing are left out.
    pub alone: Vec<ScriptChange>,
    /// The plans that fit: fewest changes first.
    pub plans: Vec<RecordedPlan>,
    /// Everything together, where no plan fits.
    pub leanest: Option<RecordedPlan>,
    /// Bytes of the capacity that must stay free.
    pub margin: u64,
    /// Whether the search was stopped before it was done.
    pub is_cut_short: bool,
    /// How many candidates were simulated.
    pub simulated: u64,
}

/// Changes of a script, and what it takes with them.
#[derive(Clone, Debug)]
pub struct RecordedPlan {
    /// The changes, each on top of those before it.
    pub changes: Vec<ScriptChange>,
    /// What it takes.
    pub answer: Answer,
    /// Allocator settings.
    pub alloc_conf: AllocConf,
    /// Whether cuDNN still chooses its plans by their time.
    pub is_cudnn_benchmarked: bool,
}

/// A change of a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptChange {
    /// What is changed: `no_grad`, `del`, `allocator settings` …
    pub trick: &'static str,
    /// What to do.
    pub what: String,
    /// The lines of the script to change.
    pub lines: Vec<Line>,
    /// Bytes that are no longer reserved at the peak.
    pub saving: i64,
    /// The same for allocated bytes.
    pub saving_allocated: i64,
    /// What to know about it.
    pub warning: Option<String>,
    /// Whether it changes how long a step takes, by an amount that is not known.
    pub is_time_unknown: bool,
}

impl RecordedTraining<'_, '_> {
    /// Searches for changes that make it fit.
    ///
    /// # Errors
    /// It cannot be simulated as it is, or there is nothing to fit into.
    pub fn plan(&self, control: &Control) -> Result<RecordedOutcome, Unanswerable> {
        let simulate = |chosen: &[&Candidate]| self.answer(chosen, control);
        let start = simulate(&[]).map_err(|error| Unanswerable::NotSimulated(Box::new(error)))?;
        let capacity = self.device.capacity().ok_or(Unanswerable::NoCapacity)?;
        let margin = (capacity.low as f64 * self.margin).ceil() as u64;
        let lines = Lines::new(self.bound.model, self.script);
        let found = Recorded::new(self.bound.model, lines);
        let found = found.map_or_else(Vec::new, |recorded| candidates(&recorded, self));
        let alone = self.each_alone(&start, &found, control);
        let changes_alone = alone.iter().flat_map(|(_, plan)| plan.changes.clone()).collect();
        let fits = |answer: &Answer| answer.fit.as_ref().and_then(|fit| fit.margin).is_some_and(|left| left >= margin);
        let mut plans = Vec::new();
        if fits(&start) {
            plans.push(self.with_answer(&start, &[], start.clone()));
        }
        plans.extend(alone.iter().map(|(_, plan)| plan).filter(|plan| fits(&plan.answer)).cloned());
        let mut leanest = None;
        if plans.is_empty() {
            let all = self.together(&alone, &found, control);
            match self.fewest(&all, &fits, control) {
                Some((chosen, answer)) => plans.push(self.with_answer(&start, &chosen, answer)),
                None if all.is_empty() => {}
                None => leanest = simulate(&all).ok().map(|answer| self.with_answer(&start, &all, answer)),
            }
        }
        Ok(RecordedOutcome {
            start,
            alone: changes_alone,
            plans,
            leanest,
            margin,
            is_cut_short: control.is_stopped(),
            simulated: control.simulated(),
        })
    }

    /// Each candidate alone, with what it needs, as far as it saves something: what reserves the least first.
    fn each_alone<'c>(
        &self,
        start: &Answer,
        found: &'c [Candidate],
        control: &Control,
    ) -> Vec<(&'c Candidate, RecordedPlan)> {
        let plans = control.map(found, |candidate| {
            let answer = self.answer(&[candidate], control).ok().filter(|answer| saves(answer, start))?;
            Some(self.with_answer(start, &[candidate], answer))
        });
        let plans = found.iter().zip(plans);
        let mut plans: Vec<_> = plans.filter_map(|(candidate, plan)| Some((candidate, plan??))).collect();
        plans.sort_by_key(|(_, plan)| plan.answer.expected.peak_reserved);
        plans
    }

    /// The candidates that need the least together, without those that others make up for.
    fn together<'c>(
        &self,
        alone: &[(&Candidate, RecordedPlan)],
        found: &'c [Candidate],
        control: &Control,
    ) -> Vec<&'c Candidate> {
        let mut chosen = without_conflicts(found);
        let Ok(all) = self.answer(&chosen, control) else { return Vec::new() };
        let saving = |candidate: &Candidate| {
            let found = alone.iter().find(|(other, _)| std::ptr::eq(*other, candidate));
            found
                .and_then(|(_, plan)| plan.changes.first())
                .map_or(0, |change| change.saving.max(change.saving_allocated))
        };
        // What saves the least alone is left out first, the last of the list first among equals.
        let mut order: Vec<&Candidate> = chosen.iter().copied().rev().collect();
        order.sort_by_key(|candidate| saving(candidate));
        for candidate in order {
            let fewer: Vec<&Candidate> = chosen.iter().copied().filter(|it| !std::ptr::eq(*it, candidate)).collect();
            if !control.is_stopped() && self.answer(&fewer, control).is_ok_and(|fewer| !saves(&all, &fewer)) {
                chosen = fewer;
            }
        }
        chosen
    }

    /// The smallest part of `all` that fits, found by leaving out one after the other.
    fn fewest<'c>(
        &self,
        all: &[&'c Candidate],
        fits: &dyn Fn(&Answer) -> bool,
        control: &Control,
    ) -> Option<(Vec<&'c Candidate>, Answer)> {
        let mut chosen = all.to_vec();
        let mut answer = self.answer(&chosen, control).ok().filter(fits)?;
        // What changes the script's lines stays as long as possible: settings of the allocator differ between systems.
        for candidate in all.iter().rev() {
            let fewer: Vec<&Candidate> = chosen.iter().copied().filter(|it| !std::ptr::eq(*it, *candidate)).collect();
            if let Some(found) = self.answer(&fewer, control).ok().filter(fits) {
                (chosen, answer) = (fewer, found);
            }
        }
        Some((chosen, answer))
    }

    fn with_answer(&self, start: &Answer, chosen: &[&Candidate], answer: Answer) -> RecordedPlan {
        let (alloc_conf, is_cudnn_benchmarked) = self.settings(chosen);
        let saving = |before: u64, after: u64| before as i64 - after as i64;
        let mut changes: Vec<ScriptChange> = chosen.iter().map(|candidate| candidate.change.clone()).collect();
        // What several changes save cannot be told apart: the first stands for all.
        if let Some(first) = changes.first_mut() {
            first.saving = saving(start.expected.peak_reserved, answer.expected.peak_reserved);
            first.saving_allocated = saving(start.peak_allocated(), answer.peak_allocated());
        }
        RecordedPlan { changes, answer, alloc_conf, is_cudnn_benchmarked }
    }

    fn settings(&self, chosen: &[&Candidate]) -> (AllocConf, bool) {
        let mut alloc_conf = self.alloc_conf.clone();
        let mut is_cudnn_benchmarked = self.script.is_cudnn_benchmarked;
        for candidate in chosen {
            match &candidate.kind {
                Kind::Allocator(setting) => {
                    if let Some(more) = alloc_conf.with(*setting) {
                        alloc_conf = more;
                    }
                }
                Kind::NoBenchmark => is_cudnn_benchmarked = false,
                Kind::Edit(_) => {}
            }
        }
        (alloc_conf, is_cudnn_benchmarked)
    }

    fn answer(&self, chosen: &[&Candidate], control: &Control) -> Result<Answer, SetupError> {
        let (alloc_conf, is_cudnn_benchmarked) = self.settings(chosen);
        let edits: Vec<&Edit> = chosen
            .iter()
            .filter_map(|candidate| match &candidate.kind {
                Kind::Edit(edit) => Some(edit),
                _ => None,
            })
            .collect();
        let model = edited(self.bound.model, &edits);
        let bound = bind(&model, self.bound.variant_index, &self.bound.sizes)?;
        let training = Loop { is_cudnn_benchmarked, ..Loop::default() };
        let scenarios = Scenarios::record(&bound, &training, self.device.machine())?;
        control.note_simulated();
        Ok(scenarios.answer(&self.device, &self.device.settings(alloc_conf.settings().clone()), false)?)
    }
}

/// Whether one needs less than the other, by an amount that is worth a change.
fn saves(one: &Answer, other: &Answer) -> bool {
    let is_less = |one: u64, other: u64| one + other / SMALLEST_PART < other;
    is_less(one.peak_allocated(), other.peak_allocated())
        || is_less(one.expected.peak_reserved, other.expected.peak_reserved)
}

/// All changes of the script, and the first of the allocator's settings: each of these is tried for itself.
fn without_conflicts(found: &[Candidate]) -> Vec<&Candidate> {
    let is_setting = |candidate: &&Candidate| matches!(candidate.kind, Kind::Allocator(_));
    let others = found.iter().filter(|candidate| !is_setting(candidate));
    others.chain(found.iter().find(is_setting)).collect()
}
