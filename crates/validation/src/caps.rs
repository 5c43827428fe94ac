//! Simulated steps under a cap on what PyTorch may reserve, beside real runs under the same cap.

use std::fmt::Write;

use vramfit_allocator::Settings;
use vramfit_training::{Phase, Run, address_orders};

use crate::estimate::with_program;
use crate::measured::{Trial, measured};
use crate::recordings::Result;

/// A measured run under a cap and the simulated one.
#[derive(Clone, Debug)]
pub struct Capped {
    /// The case.
    pub case: String,
    /// What really happened.
    pub measured: Trial,
    /// What is predicted, under every order of addresses, the usual one first.
    pub runs: Vec<Run>,
}

/// Peaks of a run, building not counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peaks {
    /// The most that was allocated.
    pub allocated: u64,
    /// The most that was reserved.
    pub reserved: u64,
}

impl Capped {
    /// Whether the real run died.
    pub fn has_died(&self) -> bool {
        self.measured.died.is_some()
    }

    /// Whether the simulated one does, under the usual order of addresses.
    pub fn dies(&self) -> bool {
        self.run().failure.is_some()
    }

    /// What `vramfit estimate` says.
    pub fn verdict(&self) -> &'static str {
        match self.runs.iter().filter(|run| run.failure.is_some()).count() {
            0 => "fits",
            count if count == self.runs.len() => "does-not-fit",
            _ => "too-close",
        }
    }

    fn run(&self) -> &Run {
        &self.runs[0]
    }

    /// How many phases come to their end: measured, and predicted.
    pub fn completed(&self) -> (usize, usize) {
        (self.measured.phases.len(), self.run().phases.len() - usize::from(self.dies()))
    }

    /// The real run's peaks, the phase it died in included.
    pub fn measured_peaks(&self) -> Peaks {
        let trial = &self.measured;
        let last = |key: &str| trial.died.as_ref().and_then(|death| death.stats.get(key)).copied().unwrap_or(0);
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

    /// Where a run ends: the phase that it dies in.
    fn end(&self, completed: usize, dies: bool) -> String {
        let phase = self.run().phases.get(completed).filter(|_| dies);
        phase.map_or_else(
            || if dies { "dies".to_owned() } else { "runs".to_owned() },
            |phase| format!("dies in {} {}", phase.step.map_or(0, |step| step + 1), phase.phase.name()),
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
    let count = |has_died: bool, verdict: &str| {
        trials.iter().filter(|trial| trial.has_died() == has_died && trial.verdict() == verdict).count()
    };
    let (fits, does_not, close) =
        (count(false, "fits"), count(true, "does-not-fit"), count(true, "too-close") + count(false, "too-close"));
    let wrong = count(true, "fits") + count(false, "does-not-fit");
    let place = trials.iter().filter(|trial| trial.completed().0 == trial.completed().1).count();
    let exact = trials.iter().filter(|trial| trial.peaks() == trial.measured_peaks()).count();
    let mut text = format!(
        "# Under a cap\n\nMade by `cargo run --release -p vramfit-validation -- caps --write`: real trainings on an H200 \
         under `set_per_process_memory_fraction`, at caps from 80 to 120 % of their peak reserved, beside the simulation \
         under the same cap. Of {} runs {fits} are rightly said to fit, {does_not} rightly not to, {close} to be too close to \
         tell, {wrong} wrongly one or the other; {place} end in the predicted phase, and {exact} have both peaks to the byte, after PyTorch's own giving back and asking again. Sizes in MiB; peaks \
         include the phase in which a run dies.\n\n\
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
            trial.end(completed, trial.has_died()),
            trial.end(simulated, trial.dies()),
            trial.verdict(),
            mebibytes(measured.allocated),
            off(predicted.allocated, measured.allocated),
            mebibytes(measured.reserved),
            off(predicted.reserved, measured.reserved),
        );
    }
    Ok(text)
}
