//! Runs setups through the simulated allocator.

use std::sync::Arc;

use vramfit_allocator::{Settings, SimulatedDriver};
use vramfit_eager::machine::Machine;
use vramfit_training::answer::{Answer, Fitting, Scenarios};
use vramfit_training::optimizer::{Implementation, Kind, Recipe};
use vramfit_training::{Program, Run, record, record_forward};

use super::{Peaks, Workbench};
use crate::alloc_conf::AllocConf;
use crate::control::Control;
use crate::error::SetupError;
use crate::setup::Setup;

/// Micro-batches simulated to probe a candidate. Later micro-batches repeat the second.
const PROBE_MICRO_BATCHES: u32 = 2;
/// Micro-batches simulated to report what a trick saves.
const REPORT_MICRO_BATCHES: u32 = 8;
/// Micro-batches simulated to accept a final plan. The cache reaches its steady state long before.
const FINAL_MICRO_BATCHES: u32 = 64;

impl Workbench<'_> {
    /// The properties of the GPU that a step's requests depend on.
    pub fn machine(&self) -> Machine {
        self.device.machine()
    }

    /// The allocator's settings on this GPU.
    pub fn settings(&self, setup: &Setup) -> Settings {
        self.device.settings(setup.alloc_conf.settings().clone())
    }

    /// Records the setup's requests in all scenarios.
    ///
    /// # Errors
    /// The setup cannot be simulated.
    pub fn scenarios(&self, setup: &Setup) -> Result<Scenarios, SetupError> {
        Ok(Scenarios::record(&*self.try_bind(setup)?, &setup.training, self.machine())?)
    }

    /// The peak live bytes of a setup, and the cap on reserved memory.
    pub fn min_bytes(&self, setup: &Setup, control: &Control) -> Option<(u64, u64)> {
        control.note_simulated();
        let program = self.program(setup, PROBE_MICRO_BATCHES).ok()?;
        Some((program.least_bytes(), self.cap_of(&program)))
    }

    /// The peak live bytes of a forward pass without optimizer state, and the cap on reserved memory.
    pub fn min_forward_bytes(&self, setup: &Setup, control: &Control) -> Option<(u64, u64)> {
        let mut setup = setup.clone();
        setup.training.optimizer = Recipe::new(Kind::None, Implementation::Default);
        self.forward_bytes.get(setup.clone(), || {
            control.note_simulated();
            let program = self.forward(&setup)?;
            Some((program.least_bytes(), self.cap_of(&program)))
        })
    }

    /// The expected run on a GPU of unlimited memory, with the first micro-batches only.
    pub fn probe_run(&self, setup: &Setup, control: &Control) -> Option<Run> {
        self.run_unlimited(setup, PROBE_MICRO_BATCHES, control).ok()
    }

    /// Allocated bytes at the end of the first forward pass.
    pub fn allocated_after_forward(&self, setup: &Setup, control: &Control) -> Option<u64> {
        control.note_simulated();
        let settings = setup.alloc_conf.settings().clone();
        let run = self.forward(setup)?.run(settings, SimulatedDriver::in_process(u64::MAX));
        run.phases.last().map(|phase| phase.allocated)
    }

    /// The peaks of the expected run on a GPU of unlimited memory; `None` if the setup cannot be simulated.
    pub fn peaks(&self, setup: &Setup, control: &Control) -> Option<Peaks> {
        self.try_peaks(setup, control).ok()
    }

    /// The peaks of the expected run on a GPU of unlimited memory.
    ///
    /// # Errors
    /// The setup cannot be simulated.
    pub fn try_peaks(&self, setup: &Setup, control: &Control) -> Result<Peaks, SetupError> {
        self.peaks.try_get(setup.clone(), || {
            self.run_unlimited(setup, REPORT_MICRO_BATCHES, control).map(|run| Peaks::of(&run))
        })
    }

    fn run_unlimited(&self, setup: &Setup, micro_batches: u32, control: &Control) -> Result<Run, SetupError> {
        control.note_simulated();
        let settings = setup.alloc_conf.settings().clone();
        Ok(self.program(setup, micro_batches)?.run(settings, SimulatedDriver::in_process(u64::MAX)))
    }

    fn program(&self, setup: &Setup, micro_batches: u32) -> Result<Program, SetupError> {
        Ok(record(&*self.try_bind(setup)?, &setup.training.shortened(micro_batches), self.machine())?)
    }

    fn forward(&self, setup: &Setup) -> Option<Program> {
        record_forward(&*self.bind(setup)?, &setup.training, self.machine()).ok()
    }

    fn cap_of(&self, program: &Program) -> u64 {
        self.cap(program.libraries)
    }

    /// The expected run if the setup fits in every scenario and order of addresses.
    pub fn fitting_run(&self, setup: &Setup, control: &Control) -> Option<Fitting> {
        let with = |micro_batches: u32| Setup {
            training: setup.training.shortened(micro_batches),
            alloc_conf: AllocConf::default(),
            ..setup.clone()
        };
        let probe = with(PROBE_MICRO_BATCHES);
        let scenarios = self.scenarios.try_get(probe.clone(), || self.scenarios(&probe).map(Arc::new)).ok()?;
        let run = self.fitting_run_of(&scenarios, setup, control)?;
        if setup.training.accumulate <= PROBE_MICRO_BATCHES {
            return Some(run);
        }
        self.fitting_run_of(&self.scenarios(&with(FINAL_MICRO_BATCHES)).ok()?, setup, control)
    }

    /// [`Workbench::fitting_run`] of recorded requests.
    pub fn fitting_run_of(&self, scenarios: &Scenarios, setup: &Setup, control: &Control) -> Option<Fitting> {
        control.note_simulated();
        let expected = scenarios.expected();
        // Any allocator needs the peak live bytes.
        if expected.least_bytes() > self.cap_of(expected) {
            return None;
        }
        scenarios.fitting(&self.device, &self.settings(setup), self.margin())
    }

    /// Whether a setup fits, without caching its graph; `None` if it cannot be bound.
    pub fn fits_uncached(&self, setup: &Setup, control: &Control) -> Option<bool> {
        let bound = self.bind_uncached(setup).ok()?;
        let scenarios = Scenarios::record(&bound, &setup.training, self.machine()).ok()?;
        Some(self.fitting_run_of(&scenarios, setup, control).is_some())
    }

    /// The answer of `vramfit estimate` for a setup.
    ///
    /// # Errors
    /// The setup cannot be simulated.
    pub fn answer(&self, setup: &Setup, control: &Control) -> Result<Answer, SetupError> {
        control.note_simulated();
        Ok(self.scenarios(setup)?.answer(&self.device, &self.settings(setup), false)?)
    }
}
