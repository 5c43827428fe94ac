//! Saved tensors on the host: what autograd saves is copied to pinned memory, and back in the backward pass.

use vramfit_eager::autograd::{HostMemory, KeptResults};
use vramfit_graph::model::Module;
use vramfit_training::script::Parallel;

use super::role::Role;
use super::trick::Trick;
use crate::printed_loop::PrintedLoop;
use crate::setup::Setup;
use crate::workbench::Workbench;

pub(crate) struct OffloadedActivations;

impl Trick for OffloadedActivations {
    fn name(&self) -> &'static str {
        "saved tensors on the CPU"
    }

    fn setting(&self) -> &'static str {
        "offload-activations"
    }

    fn role(&self) -> Role {
        Role::SavedTensors { by_module: false }
    }

    fn code(&self, _bench: &Workbench<'_>) -> &'static str {
        "with torch.autograd.graph.save_on_cpu(pin_memory=True): loss = model(…)"
    }

    fn alternatives(&self, bench: &Workbench<'_>, start: &Setup) -> Result<Vec<Setup>, String> {
        if start.training.offload.is_some() {
            return Err("saved tensors go to the host already".to_owned());
        }
        if start.training.parallel != Parallel::None {
            return Err("it was not simulated on several GPUs".to_owned());
        }
        if bench.model.modules.iter().any(Module::is_recurrent) {
            return Err("what recurrent layers save is not simulated on the host".to_owned());
        }
        let mut setup = start.clone();
        setup.training.offload = Some(HostMemory::Pinned);
        setup.training.kept_results = KeptResults::NONE;
        Ok(vec![setup])
    }

    fn adopt(&self, _bench: &Workbench<'_>, setup: &mut Setup, from: &Setup) {
        setup.training.offload = from.training.offload;
    }

    fn describe(&self, _bench: &Workbench<'_>, setup: &Setup) -> String {
        match setup.training.offload {
            None => "saved tensors on the GPU".to_owned(),
            Some(HostMemory::Pinned) => "saved tensors in pinned host memory".to_owned(),
            Some(HostMemory::Pageable) => "saved tensors in host memory".to_owned(),
        }
    }

    fn warning(&self, _bench: &Workbench<'_>, setup: &Setup) -> Option<String> {
        setup.training.offload.map(|memory| {
            let rounded = match memory {
                HostMemory::Pinned => "up to twice that: PyTorch rounds each up to a power of two",
                HostMemory::Pageable => "as much",
            };
            format!(
                "everything that autograd saves, weights included, is copied to host memory: its time is rough, and the host \
                 needs {rounded}"
            )
        })
    }

    fn write(&self, _bench: &Workbench<'_>, setup: &Setup, code: &mut PrintedLoop) {
        let argument = match setup.training.offload {
            None => return,
            Some(HostMemory::Pinned) => "pin_memory=True",
            Some(HostMemory::Pageable) => "",
        };
        code.forward_contexts.push(format!("torch.autograd.graph.save_on_cpu({argument})"));
    }
}
