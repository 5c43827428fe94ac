//! The requests that a training may make: those expected, and where they are not certain, their bounds and mixtures.

use thiserror::Error;
use vramfit_allocator::{Settings, SimulatedDriver};
use vramfit_cudnn::Scenario;
use vramfit_cudnn::convolution::Assumption;
use vramfit_eager::forward::UnknownModule;
use vramfit_eager::machine::Machine;
use vramfit_graph::bind::Bound;
use vramfit_graph::dtype::Dtype;
use vramfit_graph::model::{Assumed, Mode, Origin};

use super::cause::{Cause, Causes};
use super::device::Device;
use super::runs::{AlternativeRuns, Runs};
use super::{Answer, OpenQuestions};
use crate::parallel;
use crate::program::Program;
use crate::record::{record_on, record_varied, record_with_one_cache};
use crate::report::{Failure, Run};
use crate::run::unlikely_address_orders;
use crate::script::{Loop, Parallel, not_simulated};

/// Fewer requests are answered sooner than another thread starts.
const WORTH_A_THREAD: usize = 20_000;

/// A run that leaves more than this part of the capacity free is not followed under other orders of addresses: the measured
/// cases reserve at most 11 % more in later steps than in the first three.
const ROOM: u64 = 8;

/// Where workspaces are guessed, so many programs take each of them at random: a smaller workspace here and a larger one there
/// may leave blocks that fit less well than all large or all small.
const SAMPLED: u32 = 6;

/// Everything that a training may request, recorded once and answered for any GPU and any settings.
#[derive(Clone, Debug)]
pub struct Scenarios {
    expected: Program,
    alternatives: Option<Alternatives>,
    /// Orders of addresses that are possible, but not likely.
    unlikely_orders: Vec<SimulatedDriver>,
    /// What the model's file does not record.
    file_causes: Vec<Cause>,
    is_cudnn_benchmarked: bool,
    script: Option<ScriptFacts>,
}

/// What a recorded script leaves open.
#[derive(Clone, Copy, Debug, Default)]
struct ScriptFacts {
    /// A `GradScaler` decides by values if optimizers do their steps.
    may_skip_updates: bool,
    /// Sizes follow from values that were assumed.
    has_assumed_sizes: bool,
}

/// Programs beside the expected one.
#[derive(Clone, Debug)]
struct Alternatives {
    programs: Vec<Program>,
    causes: Causes,
}

/// A run that no GPU could hold, however large.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error(
    "asks for {} bytes when {} are allocated: more than 64-bit addresses reach",
    failure.error.requested,
    failure.error.allocated
)]
pub struct BeyondAddresses {
    /// The allocation that failed.
    pub failure: Failure,
}

/// 80 of 103 recorded trainings with offloaded tensors request exactly what is simulated.
const OFFLOADED: &str =
    "the order in which some operators copy their saved tensors to the CPU is not simulated exactly";

/// The scale of the loss begins at 65536 and is halved after each overflow.
const SKIPPED: &str =
    "DeepSpeed skips updates whose fp16 gradients overflow, as those of the first steps may: the lower bound has none";

const ROWS: &str =
    "how many different rows a sparse gradient has depends on values: each row was taken to be as likely as any other";

/// Whether DeepSpeed looks for gradients that overflow in half precision.
fn may_skip_updates(bound: &Bound<'_>, training: &Loop) -> bool {
    let mut weights = bound.model.parameters.iter();
    matches!(training.parallel, Parallel::DeepSpeed(_))
        && weights.any(|weight| bound.tensor(weight.tensor).dtype == Dtype::Float16)
}

/// A training that fits in every simulation.
#[derive(Clone, Debug)]
pub struct Fitting {
    /// The expected run under the cap.
    pub run: Run,
    /// Bytes of the capacity that every simulation leaves free.
    pub free: u64,
}

impl Scenarios {
    /// Records what a training requests.
    ///
    /// # Errors
    /// The model has no module that is to be checkpointed.
    pub fn record(bound: &Bound<'_>, training: &Loop, machine: Machine) -> Result<Scenarios, UnknownModule> {
        let program = |scenario: Scenario| record_on(bound, &Loop { scenario, ..training.clone() }, machine);
        let expected = program(Scenario::Expected)?;
        let is_cudnn_benchmarked = training.is_cudnn_benchmarked;
        let has_unknown_lifetimes = !bound.variant.late.is_empty();
        let by_file: Vec<Cause> = bound.variant.causes.iter().cloned().map(Cause::ModelFile).collect();
        let by_rules = [
            Cause::unmodelled(&expected.missing),
            Cause::workspaces(&expected.guessed, is_cudnn_benchmarked),
            has_unknown_lifetimes.then_some(Cause::PythonLifetimes),
            may_skip_updates(bound, training).then(|| Cause::Training(SKIPPED.to_owned())),
            expected.has_assumed_rows.then(|| Cause::Training(ROWS.to_owned())),
        ];
        let by_rules: Vec<Cause> = by_rules.into_iter().flatten().collect();
        let mut programs = match by_rules.is_empty() {
            true => Vec::new(),
            false => alternatives(&expected, has_unknown_lifetimes, program)?,
        };
        if may_skip_updates(bound, training) {
            programs.push(program(Scenario::Lower)?);
        }
        for other in &bound.alternatives {
            programs.push(record_on(other, &Loop { scenario: bound_of(other), ..training.clone() }, machine)?);
        }
        if varies(bound, training) {
            for start in 0..=bound.alternatives.len() {
                programs.push(record_varied(bound, training, machine, start)?);
            }
        }
        let is_loop = bound.model.origin != Origin::Script && training.parallel == Parallel::None;
        let with_one_cache = if is_loop { record_with_one_cache(bound, training, machine)? } else { None };
        let has_cache = with_one_cache.is_some();
        programs.extend(with_one_cache);
        let by_values = by_file.iter().filter(|_| !bound.alternatives.is_empty() || has_cache);
        let alternatives = Causes::of(by_rules.into_iter().chain(by_values.cloned()));
        let alternatives = alternatives.map(|causes| Alternatives { programs, causes });
        let others = [
            Cause::torch(bound.model.torch.as_deref()),
            not_simulated(bound, training).map(Cause::Training),
            (training.parallel != Parallel::None).then_some(Cause::RanksNotMeasured),
            training.offload.is_some().then(|| Cause::Training(OFFLOADED.to_owned())),
        ];
        let file_causes = by_file.into_iter().chain(others.into_iter().flatten()).collect();
        let script = bound.model.script.as_ref();
        let script = script.map(|script| ScriptFacts {
            may_skip_updates: script.has_grad_scaler,
            has_assumed_sizes: script.has_assumed_sizes,
        });
        let unlikely_orders = unlikely_address_orders().collect();
        Ok(Scenarios { expected, alternatives, unlikely_orders, file_causes, is_cudnn_benchmarked, script })
    }

    /// The same under likely orders of addresses only: the verdict stays, ranges may be narrower.
    #[must_use]
    pub fn under_likely_orders(self) -> Scenarios {
        Scenarios { unlikely_orders: Vec::new(), ..self }
    }

    /// The expected requests.
    pub fn expected(&self) -> &Program {
        &self.expected
    }

    /// The answer for a GPU; `settings` are those of [`Device::settings`]. The expected run keeps its journal where
    /// `keeps_journal` says so.
    ///
    /// # Errors
    /// The training needs more than 64-bit addresses reach, and no capacity would end it sooner.
    pub fn answer(
        &self,
        device: &Device<'_>,
        settings: &Settings,
        keeps_journal: bool,
    ) -> Result<Answer, BeyondAddresses> {
        let (capped, unlimited) = self.capped_and_unlimited(device, settings, keeps_journal);
        if let Some(failure) = capped.expected.failure
            && settings.cap.is_none()
            && device.cap(capped.expected.libraries).is_none()
        {
            return Err(BeyondAddresses { failure });
        }
        let without_cap = || self.simulate(&Settings { cap: None, ..settings.clone() }, None, keeps_journal);
        let unlimited = capped.has_failure().then(|| unlimited.unwrap_or_else(without_cap));
        let script = self.script.unwrap_or_default();
        let open = OpenQuestions {
            is_cudnn_benchmarked: self.is_cudnn_benchmarked,
            may_skip_updates: script.may_skip_updates,
            has_assumed_sizes: script.has_assumed_sizes,
            // Trying plans asks for the largest workspace of all, whichever is kept.
            largest_uncertain: if self.is_cudnn_benchmarked { 0 } else { self.expected.plans.largest_uncertain() },
        };
        Ok(Answer::new(capped, unlimited, &self.file_causes, open, device))
    }

    /// Every simulation under the cap: up to where it runs out of memory, if it does.
    pub fn runs(&self, device: &Device<'_>, settings: &Settings, keeps_journal: bool) -> Runs {
        self.capped_and_unlimited(device, settings, keeps_journal).0
    }

    /// Every simulation under the cap, and without one where that was simulated on the way.
    fn capped_and_unlimited(
        &self,
        device: &Device<'_>,
        settings: &Settings,
        keeps_journal: bool,
    ) -> (Runs, Option<Runs>) {
        let near = settings.cap.or_else(|| device.cap(self.expected.libraries));
        let runs = self.simulate(settings, near, keeps_journal);
        // What the GPU leaves beside the context is known once it is known which libraries are loaded; a cap that nothing
        // reaches changes nothing.
        match device.cap(runs.expected.libraries) {
            Some(cap)
                if settings.cap.is_none()
                    && runs.iter().any(|run| run.lasting_peak_reserved() > cap || run.failure.is_some()) =>
            {
                (self.simulate(&Settings { cap: Some(cap), ..settings.clone() }, near, keeps_journal), Some(runs))
            }
            _ => (runs, None),
        }
    }

    /// The expected run where the verdict is that it fits and leaves `margin` bytes of the capacity free. The first simulation
    /// that does not fit ends the search.
    pub fn fitting(&self, device: &Device<'_>, settings: &Settings, margin: u64) -> Option<Fitting> {
        // Garbage is collected by the cap, so that a cap which nothing reaches may still change the run.
        if settings.garbage_collection_threshold > 0.0 {
            let answer = self.answer(device, settings, false).ok()?;
            let left = answer.fit.as_ref().and_then(|fit| fit.margin).filter(|left| *left >= margin)?;
            return Some(Fitting { run: answer.expected, free: left });
        }
        let capacity = device.capacity()?.low;
        let cap = settings.cap.or_else(|| device.cap(self.expected.libraries));
        let settings = Settings { cap, ..settings.clone() };
        let mut expected = None;
        let mut free = capacity;
        for (program, driver) in self.simulations() {
            let run = follow(program, &settings, &driver, cap, expected.is_none(), false);
            free = free.min(capacity.checked_sub(device.taken(&run))?);
            if run.failure.is_some() || free < margin {
                return None;
            }
            expected.get_or_insert(run);
        }
        Some(Fitting { run: expected?, free })
    }

    /// Every program with every likely order of addresses, the expected one first.
    fn simulations(&self) -> impl Iterator<Item = (&Program, SimulatedDriver)> {
        let alternatives = self.alternatives.iter().flat_map(|alternatives| &alternatives.programs);
        let programs = std::iter::once(&self.expected).chain(alternatives);
        programs.flat_map(|program| program.orders().into_iter().map(move |driver| (program, driver)))
    }

    /// Every simulation; those that need nearly `near` bytes are followed until memory repeats, as the expected one is.
    fn simulate(&self, settings: &Settings, near: Option<u64>, keeps_journal: bool) -> Runs {
        let unlikely = self.unlikely_orders.iter().map(|driver| (&self.expected, driver.clone()));
        let simulations: Vec<_> = self.simulations().chain(unlikely).collect();
        let indices: Vec<usize> = (0..simulations.len()).collect();
        let run = |&index: &usize| {
            let (program, driver) = &simulations[index];
            follow(program, settings, driver, near, index == 0, keeps_journal && index == 0)
        };
        let requests: usize = simulations.iter().map(|(program, _)| program.allocation_count()).sum();
        let mut runs = match requests < WORTH_A_THREAD {
            true => indices.iter().map(run).collect(),
            false => parallel::map_once(&indices, run),
        };
        let unlikely_orders = runs.split_off(runs.len() - self.unlikely_orders.len());
        let alternative_runs = runs.split_off(self.expected.orders().len());
        let other_orders = runs.split_off(1);
        let alternatives = self.alternatives.as_ref();
        Runs {
            expected: runs.remove(0),
            other_orders,
            unlikely_orders,
            alternatives: alternatives
                .map(|alternatives| AlternativeRuns { runs: alternative_runs, causes: alternatives.causes.clone() }),
        }
    }
}

/// Whether the passes of this loop may go different ways in one process.
fn varies(bound: &Bound<'_>, training: &Loop) -> bool {
    !bound.alternatives.is_empty()
        && bound.model.origin != Origin::Script
        && bound.variant.mode == Mode::Train
        && training.parallel == Parallel::None
}

/// Which bound the requests of a step under another assumption belong to.
fn bound_of(other: &Bound<'_>) -> Scenario {
    match other.variant.assumed {
        Assumed::Expected => Scenario::Expected,
        Assumed::Least => Scenario::Lower,
        Assumed::Most => Scenario::Upper,
    }
}

/// A run: followed until memory repeats where it is the expected one, or where it leaves little of `near` bytes free.
fn follow(
    program: &Program,
    settings: &Settings,
    driver: &SimulatedDriver,
    near: Option<u64>,
    is_expected: bool,
    keeps_journal: bool,
) -> Run {
    if !is_expected {
        let run = program.run(settings.clone(), driver.clone());
        let is_near = near.is_some_and(|bytes| run.peak_reserved > bytes - bytes / ROOM);
        if run.failure.is_some() || !is_near {
            return run;
        }
    }
    program.run_on(settings.clone(), driver.clone(), keeps_journal)
}

/// The bounds of what is requested, and mixtures of them.
fn alternatives(
    expected: &Program,
    has_unknown_lifetimes: bool,
    program: impl Fn(Scenario) -> Result<Program, UnknownModule>,
) -> Result<Vec<Program>, UnknownModule> {
    let has_guesses = !expected.guessed.is_empty();
    if !expected.missing.is_empty() || expected.has_assumed_rows {
        return Ok(vec![program(Scenario::Lower)?, program(Scenario::Upper)?]);
    }
    if !has_guesses {
        // What autograd holds anyway lives no longer for a name that holds it too.
        let upper = program(Scenario::Upper)?;
        return Ok(if upper.has_requests_of(expected) { Vec::new() } else { vec![upper] });
    }
    let lower = expected.assuming(Assumption::All(Scenario::Lower));
    let upper = match has_unknown_lifetimes {
        true => program(Scenario::Upper)?,
        false => expected.assuming(Assumption::All(Scenario::Upper)),
    };
    let sampled = (0..SAMPLED).map(|seed| expected.assuming(Assumption::Sampled(seed)));
    Ok([lower, upper].into_iter().chain(sampled).collect())
}
