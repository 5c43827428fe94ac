//! `zero_grad(set_to_none=True)` before the forward pass, so that it runs without gradients in memory.

use vramfit_training::optimizer::Kind;
use vramfit_training::{StatePlace, ZeroGrad};

use super::role::Role;
use super::trick::Trick;
use crate::printed_loop::{Lines, PrintedLoop};
use crate::setup::Setup;
use crate::workbench::Workbench;

pub(crate) struct ZeroGradEarly;

impl Trick for ZeroGradEarly {
    fn name(&self) -> &'static str {
        "zero_grad"
    }

    fn setting(&self) -> &'static str {
        "zero-grad"
    }

    fn role(&self) -> Role {
        Role::Free { bytes_per_weight: 0 }
    }

    fn conflicts(&self) -> &'static str {
        "scripts that read .grad after the step"
    }

    fn code(&self, _bench: &Workbench<'_>) -> &'static str {
        "optimizer.zero_grad(set_to_none=True)  # before the forward pass"
    }

    fn alternatives(&self, _bench: &Workbench<'_>, start: &Setup) -> Result<Vec<Setup>, String> {
        if start.training.parallel.has_engine() {
            return Err("DeepSpeed's engine frees gradients itself".to_owned());
        }
        let mut setup = start.clone();
        setup.training.zero_grad = ZeroGrad::BeforeForward;
        setup.training.sets_to_none = true;
        if setup == *start {
            return Err("gradients are freed before the forward pass already".to_owned());
        }
        Ok(vec![setup])
    }

    fn adopt(&self, _bench: &Workbench<'_>, setup: &mut Setup, from: &Setup) {
        if [&*setup, from].iter().any(|setup| setup.training.parallel.has_engine()) {
            return;
        }
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

    fn write(&self, _bench: &Workbench<'_>, setup: &Setup, code: &mut PrintedLoop) {
        let training = &setup.training;
        if training.steps_in_backward {
            return;
        }
        let sets_to_none = if training.sets_to_none { "True" } else { "False" };
        let lines = match (training.optimizer.kind, training.optimizer_state) {
            (Kind::None, _) => Lines::of("model.zero_grad(set_to_none=True)"),
            (_, StatePlace::Cpu) => Lines::of(&format!("model.zero_grad(set_to_none={sets_to_none})")),
            _ => code.for_each_optimizer(&format!("optimizer.zero_grad(set_to_none={sets_to_none})")),
        };
        let section = match training.zero_grad {
            ZeroGrad::BeforeForward => &mut code.start_of_step,
            ZeroGrad::BeforeBackward => &mut code.before_first_backward,
        };
        section.extend(0, &lines);
    }
}
