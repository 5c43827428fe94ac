//! Updates in the backward pass: each weight has an optimizer of its own, which a hook calls as soon as the weight has its
//! gradient. The gradient is freed then, so that no two of them need be in memory.

use vramfit_graph::dtype::Dtype;
use vramfit_training::optimizer::Kind;

use super::role::Role;
use super::trick::Trick;
use crate::printed_loop::{Lines, PrintedLoop};
use crate::setup::Setup;
use crate::workbench::Workbench;

pub(crate) struct StepInBackward;

/// Why the weights of a setup cannot be updated in the backward pass.
fn obstacle(setup: &Setup) -> Option<&'static str> {
    let training = &setup.training;
    match training.optimizer.kind {
        Kind::None => return Some("the training has no optimizer"),
        Kind::Muon => return Some("muon is two optimizers"),
        _ => {}
    }
    if training.groups.is_some() {
        return Some("the optimizer has groups of weights");
    }
    if training.accumulate > 1 {
        return Some("micro-batches add up their gradients first");
    }
    if training.clips_gradients {
        return Some("clipping needs all gradients at once");
    }
    (setup.variant.amp == Some(Dtype::Float16)).then_some("a GradScaler needs all gradients at once")
}

impl Trick for StepInBackward {
    fn name(&self) -> &'static str {
        "step in backward"
    }

    fn setting(&self) -> &'static str {
        "step-in-backward"
    }

    fn role(&self) -> Role {
        Role::Free { bytes_per_weight: 0 }
    }

    fn conflicts(&self) -> &'static str {
        "gradient accumulation, gradient clipping, a GradScaler; anything that reads gradients after the backward pass"
    }

    fn code(&self, _bench: &Workbench<'_>) -> &'static str {
        "weight.register_post_accumulate_grad_hook(update)  # one optimizer for each weight, which `update` calls"
    }

    fn alternatives(&self, _bench: &Workbench<'_>, start: &Setup) -> Result<Vec<Setup>, String> {
        if start.training.steps_in_backward {
            return Err("weights are updated in the backward pass already".to_owned());
        }
        if let Some(obstacle) = obstacle(start) {
            return Err(obstacle.to_owned());
        }
        let mut setup = start.clone();
        setup.training.steps_in_backward = true;
        Ok(vec![setup])
    }

    fn adopt(&self, _bench: &Workbench<'_>, setup: &mut Setup, from: &Setup) {
        setup.training.steps_in_backward = from.training.steps_in_backward && obstacle(setup).is_none();
    }

    fn describe(&self, _bench: &Workbench<'_>, setup: &Setup) -> String {
        let place = if setup.training.steps_in_backward { "in" } else { "after" };
        format!("updates {place} the backward pass")
    }

    fn warning(&self, _bench: &Workbench<'_>, setup: &Setup) -> Option<String> {
        setup.training.steps_in_backward.then(|| {
            "each weight has its own optimizer: schedulers and saved states are one for each, too, and gradients cannot be clipped"
                .to_owned()
        })
    }

    fn write(&self, _bench: &Workbench<'_>, setup: &Setup, code: &mut PrintedLoop) {
        if !setup.training.steps_in_backward {
            return;
        }
        code.has_optimizer_per_weight = true;
        code.update = Lines::default();
        code.write_hook();
    }
}
