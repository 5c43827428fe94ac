//! `zero_grad(set_to_none=True)` before the forward pass, so that it runs without gradients in memory.

use vramfit_training::ZeroGrad;

use super::trick::Trick;
use crate::effect::TrainingEffect;
use crate::setup::Setup;
use crate::workbench::Workbench;

pub(crate) struct ZeroGradEarly;

impl Trick for ZeroGradEarly {
    fn name(&self) -> &'static str {
        "zero_grad"
    }

    fn effect(&self) -> TrainingEffect {
        TrainingEffect::None
    }

    fn conflicts(&self) -> &'static str {
        "scripts that read .grad after the step"
    }

    fn code(&self) -> &'static str {
        "optimizer.zero_grad(set_to_none=True)  # before the forward pass"
    }

    fn alternatives(&self, _bench: &Workbench<'_>, start: &Setup) -> Result<Vec<Setup>, String> {
        let mut setup = start.clone();
        setup.training.zero_grad = ZeroGrad::BeforeForward;
        setup.training.sets_to_none = true;
        if setup == *start {
            return Err("gradients are freed before the forward pass already".to_owned());
        }
        Ok(vec![setup])
    }

    fn adopt(&self, _bench: &Workbench<'_>, setup: &mut Setup, from: &Setup) {
        setup.training.zero_grad = from.training.zero_grad;
        setup.training.sets_to_none = from.training.sets_to_none;
    }

    fn describe(&self, _bench: &Workbench<'_>, setup: &Setup) -> String {
        let position = match setup.training.zero_grad {
            ZeroGrad::BeforeForward => "before the forward pass",
            ZeroGrad::BeforeBackward => "between the forward and backward pass",
        };
        format!("zero_grad(set_to_none={}) {position}", if setup.training.sets_to_none { "True" } else { "False" })
    }
}
