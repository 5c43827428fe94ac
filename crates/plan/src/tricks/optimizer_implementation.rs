//! The optimizer's implementation: foreach needs lists of temporaries, fused none, the for-loop one at a time.

use vramfit_training::StatePlace;
use vramfit_training::optimizer::{Implementation, Kind, Recipe};

use super::role::Role;
use super::trick::Trick;
use crate::printed_loop::PrintedLoop;
use crate::setup::Setup;
use crate::workbench::Workbench;

pub(crate) struct OptimizerImplementation;

/// Bytes of the step counter that a fused optimizer keeps on the GPU for each weight.
const STEP_COUNTER: u64 = 512;

/// Resolves `default` to what torch.optim chooses on CUDA.
fn actual(recipe: Recipe) -> Implementation {
    match (recipe.implementation, recipe.kind) {
        (Implementation::Default, kind) if kind.goes_weight_by_weight() => Implementation::ForLoop,
        (Implementation::Default, _) => Implementation::Foreach,
        (other, _) => other,
    }
}

/// Whether the CPU updates the weights.
fn is_on_cpu(setup: &Setup) -> bool {
    setup.training.optimizer_state == StatePlace::Cpu || setup.training.parallel.offloads()
}

impl Trick for OptimizerImplementation {
    fn name(&self) -> &'static str {
        "optimizer implementation"
    }

    fn setting(&self) -> &'static str {
        "optimizer-impl"
    }

    fn role(&self) -> Role {
        Role::Free { bytes_per_weight: STEP_COUNTER }
    }

    fn conflicts(&self) -> &'static str {
        "fused: optimizers that torch.optim has no fused kernel for, and clipping between unscale and step in older torch"
    }

    fn code(&self, _bench: &Workbench<'_>) -> &'static str {
        "torch.optim.AdamW(model.parameters(), fused=True)  # or foreach=False"
    }

    fn alternatives(&self, _bench: &Workbench<'_>, start: &Setup) -> Result<Vec<Setup>, String> {
        let recipe = start.training.optimizer;
        if recipe.kind == Kind::None {
            return Err("the training has no optimizer".to_owned());
        }
        if is_on_cpu(start) {
            return Err("the optimizer runs on the CPU".to_owned());
        }
        // foreach needs the most memory and is never an improvement.
        let others = [Implementation::Fused, Implementation::ForLoop];
        let supported = others
            .into_iter()
            .filter(|&implementation| implementation != actual(recipe) && Recipe { implementation, ..recipe }.exists());
        let setups: Vec<Setup> = supported
            .map(|implementation| {
                let mut setup = start.clone();
                setup.training.optimizer.implementation = implementation;
                setup
            })
            .collect();
        if setups.is_empty() { Err("it needs the least memory already".to_owned()) } else { Ok(setups) }
    }

    fn adopt(&self, _bench: &Workbench<'_>, setup: &mut Setup, from: &Setup) {
        let implementation = from.training.optimizer.implementation;
        if !is_on_cpu(setup) && (Recipe { implementation, ..setup.training.optimizer }).exists() {
            setup.training.optimizer.implementation = implementation;
        }
    }

    fn describe(&self, _bench: &Workbench<'_>, setup: &Setup) -> String {
        let name = actual(setup.training.optimizer).name();
        format!("the {name} implementation of {}", setup.training.optimizer.kind.name())
    }

    fn write(&self, _bench: &Workbench<'_>, setup: &Setup, code: &mut PrintedLoop) {
        let argument = match setup.training.optimizer.implementation {
            Implementation::Default => return,
            Implementation::Foreach => "foreach=True",
            Implementation::Fused => "fused=True",
            Implementation::ForLoop => "foreach=False",
        };
        code.implementation_arguments.push(argument.to_owned());
    }
}
