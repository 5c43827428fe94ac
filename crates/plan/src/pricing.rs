//! Prices of setups that differ in their loop only.

use std::sync::Arc;

use vramfit_graph::bind::Bound;
use vramfit_price::Timetable;
use vramfit_step::checkpoint::{Choice, Region};
use vramfit_step::optimizer::Recipe;
use vramfit_step::training::{Loop, ZeroGrad};

/// What of a loop takes time, its checkpoints aside.
type LoopKey = (Recipe, u32, [bool; 3], ZeroGrad);

/// A model at given sizes, with these modules checkpointed.
pub struct Pricing {
    timetable: Arc<Timetable>,
    regions: Vec<Region>,
    known: Vec<(LoopKey, f64)>,
}

impl Pricing {
    /// `timetable` is that of `bound`; `None` where the model has no module to checkpoint by that name.
    pub fn new(bound: &Bound<'_>, timetable: Arc<Timetable>, choice: &Choice) -> Option<Pricing> {
        Some(Pricing { regions: timetable.regions(bound, choice).ok()?, timetable, known: Vec::new() })
    }

    /// Seconds of a step.
    pub fn seconds(&mut self, training: &Loop) -> f64 {
        let flags = [training.clips_gradients, training.has_fresh_inputs, training.sets_to_none];
        let key = (training.optimizer, training.accumulate, flags, training.zero_grad);
        if let Some((_, seconds)) = self.known.iter().find(|(known, _)| *known == key) {
            return *seconds;
        }
        let seconds = self.timetable.step_time_with(&self.regions, training).seconds;
        self.known.push((key, seconds));
        seconds
    }
}
