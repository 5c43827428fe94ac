//! Simulated steps under a cap on what PyTorch may reserve, beside real runs under the same cap.

use std::fmt::Write;

use vramfit_allocator::Settings;
use vramfit_training::answer::Verdict;
use vramfit_training::{Phase, Run, address_orders};

use crate::measured::{Trial, measured};
use crate::recordings::Result;
use crate::simulation::with_program;

/// A measured run under a cap and the simulated one.
#[derive(Clone, Debug)]
pub struct Capped {
    /// The case.
    pub case: String,
    /// The real run.
    pub measured: Trial,
    /// The simulated runs, one for each order of addresses; the expected order comes first.
    pub runs: Vec<Run>,
}

/// Peaks of a run without its build phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peaks {
    /// Peak allocated bytes.
    pub allocated: u64,
    /// Peak reserved bytes.
    pub reserved: u64,
}

impl Capped {
    /// Whether the real run ran out of memory.
    pub fn has_failed(&self) -> bool {
        self.measured.failure.is_some()
    }

    /// Whether the simulated run does, under the expected order of addresses.
    pub fn fails(&self) -> bool {
        self.run().failure.is_some()
    }

    /// The verdict over all orders of addresses.
    pub fn verdict(&self) -> Verdict {
        match self.runs.iter().filter(|run| run.failure.is_some()).count() {
            0 => Verdict::Fits,
            count if count == self.runs.len() => Verdict::DoesNotFit,
            _ => Verdict::TooClose,
        }
    }

    fn run(&self) -> &Run {
        &self.runs[0]
    }

    /// How many phases complete: measured, and predicted.
    pub fn completed(&self) -> (usize, usize) {
        (self.measured.phases.len(), self.run().phases.len() - usize::from(self.fails()))
    }

    /// The real run's peaks, with the phase in which it failed.
    pub fn measured_peaks(&self) -> Peaks {
        let trial = &self.measured;
        let last = |key: &str| trial.failure.as_ref().and_then(|failure| failure.stats.get(key)).copied().unwrap_or(0);
        let phases = || trial.phases.iter().filter(|phase| phase.phase != "build");
        Peaks {
            allocated: phases().map(|phase| phase.peak).max().unwrap_or(0).max(last("allocated_bytes.all.peak")),
            reserved: phases().map(|phase| phase.peak_reserved).max().unwrap_or(0).max(last("reserved_bytes.all.peak")),
        }
    }

    /// The simulated run's peaks.
    pub fn peaks(&self) -> Peaks {
        let phases = || self.run().phases.iter().filter(|phase| phase.phase != Phase::Build);
        Peaks {
            allocated: phases().map(|phase| phase.peak.allocated).max().unwrap_or(0),
            reserved: phases().map(|phase| phase.peak_reserved).max().unwrap_or(0),
        }
    }

    /// How a run ends: it completes, or runs out of memory in a phase.
    fn end(&self, completed: usize, fails: bool) -> String {
        let phase = self.run().phases.get(completed).filter(|_| fails);
        phase.map_or_else(
            || if fails { "fails".to_owned() } else { "runs".to_owned() },
            |phase| format!("fails in {} {}", phase.step.map_or(0, |step| step + 1), phase.phase.name()),
        )
    }
}

/// Every run under a cap that was measured.
///
/// # Errors
/// The measurements cannot be read, or a case cannot be simulated.
pub fn trials() -> Result<Vec<Capped>> {
    let mut found = Vec::new();
    for (name, case) in &measured()?.cases {
        if case.caps.is_empty() {
            continue;
        }
        with_program(case, |_, program| {
            let mut trials = case.caps.clone();
            trials.sort_by_key(|trial| trial.percent);
            for trial in &trials {
                let settings = Settings { cap: Some(trial.cap), ..Settings::default() };
                let runs = address_orders().map(|driver| program.run(settings.clone(), driver)).into();
                found.push(Capped { case: name.clone(), measured: trial.clone(), runs });
            }
        })?;
    }
    Ok(found)
}

/// The page `docs/cap-accuracy.md`.
///
/// # Errors
/// The measurements cannot be read, or a case cannot be simulated.
pub fn page() -> Result<String> {
    let trials = trials()?;
    let count = |has_failed: bool, verdict: Verdict| {
        trials.iter().filter(|trial| trial.has_failed() == has_failed && trial.verdict() == verdict).count()
    };
    use Verdict::{DoesNotFit, Fits, TooClose};
    let (fits, does_not, close) =
        (count(false, Fits), count(true, DoesNotFit), count(true, TooClose) + count(false, TooClose));
    let wrong = count(true, Fits) + count(false, DoesNotFit);
    let phase = trials.iter().filter(|trial| trial.completed().0 == trial.completed().1).count();
    let exact = trials.iter().filter(|trial| trial.peaks() == trial.measured_peaks()).count();
    let mut text = format!(
        "# Under a cap\n\nMade by `cargo run --release -p vramfit-validation -- caps --write`: real trainings on an H200 \
         under `set_per_process_memory_fraction`, at caps from 80 to 120 % of their peak reserved, beside the simulation \
         under the same cap. Of {} runs, {fits} are correctly predicted to fit, {does_not} are correctly predicted not to, {close} \
         are too close to tell and {wrong} are predicted wrongly. {phase} end in the predicted phase, and {exact} have both \
         peaks to the byte, after PyTorch has freed cached blocks and retried. Sizes are in MiB. Peaks include the phase in \
         which a run fails.\n\n\
         | case | cap | of peak | measured | predicted | verdict | allocated | off by | reserved | off by |\n\
         | --- | ---: | ---: | --- | --- | --- | ---: | ---: | ---: | ---: |\n",
        trials.len()
    );
    for trial in &trials {
        let (measured, predicted) = (trial.measured_peaks(), trial.peaks());
        let (completed, simulated) = trial.completed();
        let off = |found: u64, wanted: u64| format!("{:+.4} %", (found as f64 / wanted as f64 - 1.0) * 100.0);
        let mebibytes = |bytes: u64| format!("{:.1}", bytes as f64 / f64::from(1 << 20));
        let _ = writeln!(
            text,
            "| {} | {} | {} % | {} | {} | {} | {} | {} | {} | {} |",
            trial.case,
            mebibytes(trial.measured.cap),
            trial.measured.percent,
            trial.end(completed, trial.has_failed()),
            trial.end(simulated, trial.fails()),
            trial.verdict().name(),
            mebibytes(measured.allocated),
            off(predicted.allocated, measured.allocated),
            mebibytes(measured.reserved),
            off(predicted.reserved, measured.reserved),
        );
    }
    Ok(text)
}
