//! A slimmer model: which modules hold most, and what fewer of them would save.

use super::{Finding, Trick};
use crate::control::Control;
use crate::effect::Effect;
use crate::setup::Setup;
use crate::workbench::Workbench;

/// See the module.
pub struct SlimmerModel;

impl Trick for SlimmerModel {
    fn name(&self) -> &'static str {
        "slimmer model"
    }

    fn effect(&self) -> Effect {
        Effect::Training
    }

    fn conflicts(&self) -> &'static str {
        "weights that were trained for the larger model"
    }

    fn written(&self) -> &'static str {
        "fewer layers, narrower ones, GRU for LSTM: a change of the model's own configuration"
    }

    fn alternatives(&self, _bench: &Workbench<'_>, _start: &Setup) -> Result<Vec<Setup>, String> {
        Err("it is another model; shown is what parts of it take".to_owned())
    }

    fn findings(&self, bench: &Workbench<'_>, start: &Setup, control: &Control) -> Vec<Finding> {
        let _ = (bench, start, control);
        Vec::new()
    }
}
