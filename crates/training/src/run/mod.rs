//! Answers the requests of a program with a simulated allocator.

mod address_orders;
mod answering;
mod later_steps;
mod steady_state;

pub use address_orders::{address_orders, unlikely_address_orders};

use vramfit_allocator::{Allocator, Settings, SimulatedDriver};
use vramfit_cudnn::convolution::Assumption;
use vramfit_eager::forward::UnknownModule;
use vramfit_eager::machine::Machine;
use vramfit_eager::memory::Entry;
use vramfit_graph::bind::Bound;

use crate::program::{Mark, MicroBatchRun, Program};
use crate::record::record;
use crate::report::{Phase, Run};
use crate::script::Loop;
use answering::{Answering, Requests};
use later_steps::{History, LaterStep, later_peaks};
use steady_state::MemoryLayout;

/// Simulates a loop on a GPU without a memory limit.
///
/// # Errors
/// The model has no module that is to be checkpointed.
pub fn train(
    bound: &Bound<'_>,
    settings: &Loop,
    allocator: Settings,
    machine: Machine,
    keeps_journal: bool,
) -> Result<Run, UnknownModule> {
    let program = record(bound, settings, machine)?;
    Ok(program.run_keeping(allocator, SimulatedDriver::in_process(u64::MAX), keeps_journal))
}

impl Program {
    /// The run on a GPU of this memory under these settings.
    pub fn run(&self, settings: Settings, driver: SimulatedDriver) -> Run {
        self.run_keeping(settings, driver, false)
    }

    /// The run, with its requests where `keeps_journal` says so.
    pub fn run_keeping(&self, settings: Settings, driver: SimulatedDriver, keeps_journal: bool) -> Run {
        self.run_further(settings, driver, keeps_journal, 0)
    }

    /// The run as that of a training that goes on: [`Run::later`] says what the steps after the reported ones need, and
    /// [`Run::failure`] may be in one of them.
    pub(crate) fn run_on(&self, settings: Settings, driver: SimulatedDriver, keeps_journal: bool) -> Run {
        let Some(longer) = &self.continued else {
            return self.run_further(settings, driver, keeps_journal, self.later_steps);
        };
        let run = self.run_keeping(settings.clone(), driver.clone(), keeps_journal);
        let continued = longer.run(settings, driver);
        match (run.failure, continued.failure) {
            (None, Some(_)) => continued,
            _ => {
                let later = continued.phases.get(run.phases.len()..).unwrap_or_default();
                Run { later: later_peaks(&run.phases, later), ..run }
            }
        }
    }

    fn run_further(&self, settings: Settings, driver: SimulatedDriver, keeps_journal: bool, later: u32) -> Run {
        let fresh = || {
            Answering::new(Allocator::with_reduced_statistics(settings.clone(), driver.clone()), self, keeps_journal)
        };
        let mut answering = fresh();
        if !self.answer(&mut answering, later) {
            answering = fresh();
            answering.uses_steady_state = false;
            self.answer(&mut answering, later);
        }
        let later = match answering.failure {
            None => answering.phases.split_off(answering.phases.len() - answering.later_phases),
            Some(_) => Vec::new(),
        };
        let built = answering.phases.iter().filter(|phase| phase.phase != Phase::Build);
        let peak_reserved = built.map(|phase| phase.peak_reserved).max().unwrap_or(0);
        Run {
            later: later_peaks(&answering.phases, &later),
            phases: answering.phases,
            peak_reserved,
            managed: self.managed,
            missing: self.missing.clone(),
            guessed: self.guessed.clone(),
            cudnn_sources: self.cudnn_sources,
            libraries: self.libraries,
            failure: answering.failure,
            journal: if keeps_journal { self.journal() } else { Vec::new() },
            labels: answering.labels.unwrap_or_default(),
            segments: answering.segments,
        }
    }

    /// The orders of addresses under which it is answered: a program with workspaces sampled at random takes one of them.
    pub(crate) fn orders(&self) -> Vec<SimulatedDriver> {
        let all = address_orders();
        match self.assumption {
            Some(Assumption::Sampled(seed)) => vec![all[seed as usize % all.len()].clone()],
            _ => all.into(),
        }
    }

    /// Answers all requests and those of up to `later` more steps, or those up to one that fails. False where the steady
    /// state turned out not to be one, so that the answers are wrong.
    fn answer(&self, answering: &mut Answering<'_>, later: u32) -> bool {
        let mut requests = Requests::new(&self.entries, &self.side_events, 0);
        let micro = MicroBatchRuns { runs: &self.micro_batch_runs, first_mark: 0 };
        let Some(repeat) = &self.repeat else {
            answering.answer_phases(&mut requests, &self.marks, micro, |id| id);
            return answering.is_valid;
        };
        let (before, repeated) = self.marks.split_at(repeat.start.mark);
        let start = repeat.start.entry;
        let first_phase = repeated.first().map_or(0, |mark| mark.end - start);
        let frees = leading_frees(&self.entries[start..start + first_phase]);
        if !answering.answer_phases(&mut requests, before, micro, |id| id)
            || !answering.answer_until(&mut requests, start + frees, |id| id)
        {
            return answering.is_valid;
        }
        let micro = MicroBatchRuns { first_mark: repeat.start.mark, ..micro };
        let mut history = History::new(MemoryLayout::between_steps(answering, repeat, |id| id));
        if !answering.answer_phases(&mut requests, repeated, micro, |id| id) {
            return answering.is_valid;
        }
        let marks_of = |number: u32| -> Vec<Mark> {
            repeated.iter().map(|mark| Mark { step: mark.step.map(|step| step + number), ..*mark }).collect()
        };
        let (mut labels, mut reported) = (None, None);
        self.each_repeat(repeat.count + later, |number, entries, side_events, renumber| {
            let renumber = |id| renumber.renumber(id);
            let mut requests = Requests::new(entries, side_events, start);
            let layout = |answering: &Answering<'_>| MemoryLayout::between_steps(answering, repeat, renumber);
            if number > repeat.count {
                if reported.is_none() {
                    // The journal ends with the reported steps.
                    (labels, reported) = (answering.labels.take(), Some(answering.phases.len()));
                }
                let step = LaterStep { entries, frees, start, marks: marks_of(number) };
                return answering.answer_later(&mut history, &step, &mut requests, layout, renumber);
            }
            if history.steady().is_none() {
                if !answering.answer_until(&mut requests, start + frees, renumber) {
                    return false;
                }
                let now = layout(answering);
                let steady = history.last().and_then(|last| now.steady_since(last, answering, repeated.len()));
                history.set_steady(steady);
                history.add(now);
            }
            if let Some(steady) = history.steady() {
                return answering.repeat_step(steady, requests.left(), entries.len(), repeated.len(), renumber);
            }
            answering.answer_phases(&mut requests, &marks_of(number), micro, renumber)
        });
        if let Some(reported) = reported {
            answering.labels = labels;
            answering.later_phases = answering.phases.len() - reported;
        }
        answering.is_valid
    }
}

/// How many frees come before the first allocation.
fn leading_frees(entries: &[Entry]) -> usize {
    entries.iter().take_while(|entry| matches!(entry, Entry::Free { .. })).count()
}

/// The runs of equal micro-batches of a program, for phases of which the first has the mark `first_mark`.
#[derive(Clone, Copy)]
struct MicroBatchRuns<'p> {
    runs: &'p [MicroBatchRun],
    first_mark: usize,
}

impl<'p> MicroBatchRuns<'p> {
    /// The run of which a micro-batch begins with this phase, and which one of it.
    fn beginning(self, phase: usize) -> Option<(&'p MicroBatchRun, usize)> {
        self.runs.iter().find_map(|run| Some((run, run.begins(self.first_mark + phase)?)))
    }
}

impl Answering<'_> {
    /// Answers the requests of these phases; false where one failed.
    fn answer_phases(
        &mut self,
        requests: &mut Requests<'_>,
        marks: &[Mark],
        micro: MicroBatchRuns<'_>,
        renumber: impl Fn(u32) -> u32,
    ) -> bool {
        let mut layout: Option<MemoryLayout> = None;
        let mut at = 0;
        while let Some(mark) = marks.get(at) {
            if let Some((run, first)) = micro.beginning(at) {
                let now = MemoryLayout::in_run(self, run, first, &renumber);
                // The last one is answered: what follows it may begin otherwise than a micro-batch does.
                let before = layout.as_ref().filter(|_| first > 0 && first + 1 < run.count());
                if let Some(steady) = before.and_then(|before| now.steady_since(before, self, run.phases)) {
                    if !self.repeat_micro_batches(steady, requests, run, first, &renumber) {
                        return false;
                    }
                    at += (run.count() - 1 - first) * run.phases;
                    continue;
                }
                layout = Some(now);
            }
            let goes_on = self.answer_until(requests, mark.end, &renumber);
            self.end_phase(mark);
            if !goes_on {
                return false;
            }
            at += 1;
        }
        true
    }
}
