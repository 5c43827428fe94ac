//! The clock of a GPU.

use vramfit_catalogue::Gpu;
use vramfit_eager::forward::UnknownModule;
use vramfit_graph::bind::Bound;
use vramfit_training::Loop;

use crate::scale::Scale;
use crate::timetable::Timetable;

/// Tells times on one GPU.
#[derive(Clone, Debug)]
pub struct Clock {
    pub(crate) scale: Scale,
}

/// How long a step takes once the loop runs evenly, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StepTime {
    /// The whole step: the sum of the three phases.
    pub seconds: f64,
    /// Of it, all forward passes.
    pub forward: f64,
    /// Of it, all backward passes, what runs again for checkpoints included.
    pub backward: f64,
    /// Of it, clipping, the optimizer and zeroing gradients.
    pub step: f64,
    /// What the GPU computes; where it is less than the whole, the GPU waits for the CPU.
    pub gpu: f64,
    /// What the CPU needs to hand the step over.
    pub cpu: f64,
}

impl Clock {
    /// For a GPU of the catalogue.
    pub fn new(gpu: &Gpu) -> Clock {
        Clock { scale: Scale::of(gpu) }
    }

    /// What depends on the bound graph alone, to be asked for several loops.
    pub fn timetable(&self, bound: &Bound<'_>) -> Timetable {
        Timetable::new(self, bound)
    }

    /// How long a step of this loop takes.
    ///
    /// # Errors
    /// The model has no module that is to be checkpointed.
    pub fn step_time(&self, bound: &Bound<'_>, options: &Loop) -> Result<StepTime, UnknownModule> {
        self.timetable(bound).step_time(bound, options)
    }
}
