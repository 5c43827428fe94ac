//! How the optimizer goes over the weights: foreach needs lists of temporaries, fused none, the for-loop one at a time.

use vramfit_training::optimizer::{Implementation, Kind, Recipe};

use super::Trick;
use crate::effect::Effect;
use crate::setup::Setup;
use crate::workbench::Workbench;

/// See the module.
pub struct OptimizerImplementation;

/// What `default` means on a GPU.
pub(super) fn actual(recipe: Recipe) -> Implementation {
    match (recipe.implementation, recipe.kind) {
        (Implementation::Default, Kind::Adafactor) => Implementation::ForLoop,
        (Implementation::Default, _) => Implementation::Foreach,
        (other, _) => other,
    }
}

impl Trick for OptimizerImplementation {
    fn name(&self) -> &'static str {
        "optimizer implementation"
    }

    fn effect(&self) -> Effect {
        Effect::None
    }

    fn conflicts(&self) -> &'static str {
        "fused: optimizers that torch.optim has no fused kernel for, and clipping between unscale and step in older torch"
    }

    fn written(&self) -> &'static str {
        "torch.optim.AdamW(model.parameters(), fused=True)  # or foreach=False"
    }

    fn alternatives(&self, _bench: &Workbench<'_>, start: &Setup) -> Result<Vec<Setup>, String> {
        let recipe = start.training.optimizer;
        if recipe.kind == Kind::None {
            return Err("there is no optimizer".to_owned());
        }
        let others = [Implementation::Fused, Implementation::ForLoop, Implementation::Foreach];
        let known = others
            .into_iter()
            .filter(|&implementation| implementation != actual(recipe) && Recipe { implementation, ..recipe }.exists());
        let mut setups: Vec<Setup> = known
            .map(|implementation| {
                let mut setup = start.clone();
                setup.training.optimizer.implementation = implementation;
                setup
            })
            .collect();
        // foreach needs the most memory: where it is not what is used, nobody wants it.
        setups.retain(|setup| setup.training.optimizer.implementation != Implementation::Foreach);
        if setups.is_empty() { Err("it needs the least already".to_owned()) } else { Ok(setups) }
    }

    fn adopt(&self, _bench: &Workbench<'_>, setup: &mut Setup, from: &Setup) {
        let implementation = from.training.optimizer.implementation;
        if (Recipe { implementation, ..setup.training.optimizer }).exists() {
            setup.training.optimizer.implementation = implementation;
        }
    }

    fn state(&self, _bench: &Workbench<'_>, setup: &Setup) -> String {
        let name = actual(setup.training.optimizer).name();
        format!("the {name} implementation of {}", setup.training.optimizer.kind.name())
    }
}
