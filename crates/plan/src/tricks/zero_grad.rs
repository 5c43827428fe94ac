//! `zero_grad(set_to_none=True)` before the forward pass: no gradients lie there during it.

use vramfit_training::ZeroGrad;

use super::Trick;
use crate::effect::Effect;
use crate::setup::Setup;
use crate::workbench::Workbench;

/// See the module.
pub struct ZeroGradEarly;

impl Trick for ZeroGradEarly {
    fn name(&self) -> &'static str {
        "zero_grad"
    }

    fn effect(&self) -> Effect {
        Effect::None
    }

    fn conflicts(&self) -> &'static str {
        "scripts that read .grad after the step"
    }

    fn written(&self) -> &'static str {
        "optimizer.zero_grad(set_to_none=True)  # before the forward pass"
    }

    fn alternatives(&self, _bench: &Workbench<'_>, start: &Setup) -> Result<Vec<Setup>, String> {
        let mut setup = start.clone();
        setup.training.zero_grad = ZeroGrad::BeforeForward;
        setup.training.sets_to_none = true;
        if setup == *start {
            return Err("the gradients go before the forward pass already".to_owned());
        }
        Ok(vec![setup])
    }

    fn adopt(&self, _bench: &Workbench<'_>, setup: &mut Setup, from: &Setup) {
        setup.training.zero_grad = from.training.zero_grad;
        setup.training.sets_to_none = from.training.sets_to_none;
    }

    fn state(&self, _bench: &Workbench<'_>, setup: &Setup) -> String {
        let place = match setup.training.zero_grad {
            ZeroGrad::BeforeForward => "before the forward pass",
            ZeroGrad::BeforeBackward => "between forward and backward pass",
        };
        format!("zero_grad(set_to_none={}) {place}", if setup.training.sets_to_none { "True" } else { "False" })
    }
}
