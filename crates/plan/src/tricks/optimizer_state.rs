//! The optimizer's state on the CPU: it has copies of the weights, which it updates from copies of their gradients.

use vramfit_graph::dtype::Dtype;
use vramfit_training::StatePlace;
use vramfit_training::optimizer::{Implementation, Kind, Library};
use vramfit_training::script::Parallel;

use super::role::Role;
use super::trick::Trick;
use crate::printed_loop::{Lines, PrintedLoop};
use crate::setup::Setup;
use crate::workbench::Workbench;

pub(crate) struct OptimizerState;

/// Why the optimizer of a setup cannot be on the CPU.
pub(super) fn obstacle(setup: &Setup) -> Option<&'static str> {
    let training = &setup.training;
    if !matches!(training.parallel, Parallel::None | Parallel::DeepSpeed(_)) {
        return Some("of the ways to spread a training only DeepSpeed has the optimizer's state alone on the CPU");
    }
    match (training.optimizer.kind, training.optimizer.kind.library()) {
        (Kind::None, _) => return Some("the training has no optimizer"),
        (Kind::Muon, _) => return Some("muon is two optimizers"),
        (_, Library::Torch) => {}
        _ => return Some("only optimizers of torch.optim are simulated on the CPU"),
    }
    if training.optimizer.implementation == Implementation::Fused {
        return Some("the optimizer is fused, which is for the GPU");
    }
    if training.groups.is_some() {
        return Some("the optimizer has groups of weights");
    }
    (setup.variant.amp == Some(Dtype::Float16)).then_some("a GradScaler needs the gradients on the GPU")
}

impl Trick for OptimizerState {
    fn name(&self) -> &'static str {
        "optimizer on the CPU"
    }

    fn setting(&self) -> &'static str {
        "optimizer-state"
    }

    fn role(&self) -> Role {
        Role::SavedTensors { by_module: false }
    }

    fn conflicts(&self) -> &'static str {
        "a GradScaler, fused optimizers, optimizers that are not of torch.optim"
    }

    fn code(&self, _bench: &Workbench<'_>) -> &'static str {
        "optimizer = torch.optim.AdamW(copies)  # copies of the weights in pinned memory of the CPU"
    }

    fn alternatives(&self, _bench: &Workbench<'_>, start: &Setup) -> Result<Vec<Setup>, String> {
        if start.training.optimizer_state == StatePlace::Cpu {
            return Err("the optimizer's state is on the CPU already".to_owned());
        }
        if let Some(obstacle) = obstacle(start) {
            return Err(obstacle.to_owned());
        }
        let mut setup = start.clone();
        setup.training.optimizer_state = StatePlace::Cpu;
        Ok(vec![setup])
    }

    fn adopt(&self, _bench: &Workbench<'_>, setup: &mut Setup, from: &Setup) {
        let is_possible = obstacle(setup).is_none();
        setup.training.optimizer_state = if is_possible { from.training.optimizer_state } else { StatePlace::Gpu };
    }

    fn describe(&self, _bench: &Workbench<'_>, setup: &Setup) -> String {
        let place = match setup.training.optimizer_state {
            StatePlace::Gpu => "GPU",
            StatePlace::Cpu => "CPU",
        };
        format!("the optimizer's state on the {place}")
    }

    fn warning(&self, _bench: &Workbench<'_>, setup: &Setup) -> Option<String> {
        (setup.training.optimizer_state == StatePlace::Cpu).then(|| {
            "the time is that of one machine's CPU and bus, and yours may take several times as long; the CPU needs memory for the \
             weights, their gradients and the optimizer's state"
                .to_owned()
        })
    }

    fn write(&self, _bench: &Workbench<'_>, setup: &Setup, code: &mut PrintedLoop) {
        if setup.training.optimizer_state == StatePlace::Gpu {
            return;
        }
        let lines = &mut code.model_changes;
        lines.line(0, "copies = {}");
        lines.line(0, "for weight in model.parameters():");
        lines.line(1, "if weight.requires_grad:");
        lines.line(2, "copy = torch.empty_like(weight, device=\"cpu\", pin_memory=True)");
        lines.line(2, "copies[weight] = copy.copy_(weight.detach())");
        lines.line(2, "copy.grad = torch.zeros_like(copy, pin_memory=True)");
        code.optimizer_weights = "list(copies.values())".to_owned();
        code.is_on_cpu = true;
        let lines = &mut code.after_optimizer;
        lines.line(0, "");
        lines.line(0, "@torch.no_grad()");
        lines.line(0, "def update_on_cpu():");
        lines.line(1, "for weight, copy in copies.items():");
        lines.line(2, "if weight.grad is not None:");
        lines.line(3, "copy.grad.copy_(weight.grad)");
        lines.line(1, "optimizer.step()");
        lines.line(1, "for weight, copy in copies.items():");
        lines.line(2, "weight.copy_(copy)");
        code.update = Lines::of("update_on_cpu()");
    }
}
