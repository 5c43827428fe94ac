//! In-place activations: `module.inplace = True` where nothing else needs the overwritten tensor.
//!
//! The trick covers modules whose gradient is computed from the result (ReLU, LeakyReLU, ELU and similar). `legal`
//! decides which modules qualify, `rewrite` changes the model.

mod legal;
mod rewrite;

use vramfit_eager::forward::Choice;
use vramfit_eager::operators;
use vramfit_graph::model::Model;

pub use legal::candidates;
pub use rewrite::rewrite;

use crate::effect::TrainingEffect;
use crate::setup::Setup;
use crate::tricks::trick::Trick;
use crate::workbench::Workbench;

/// The trick.
pub struct InPlace;

impl Trick for InPlace {
    fn name(&self) -> &'static str {
        "in-place activations"
    }

    fn effect(&self) -> TrainingEffect {
        TrainingEffect::None
    }

    fn conflicts(&self) -> &'static str {
        "checkpointing, hooks, and code that reads an activation's input later"
    }

    fn code(&self) -> &'static str {
        "nn.ReLU(inplace=True)  # or module.inplace = True"
    }

    fn alternatives(&self, bench: &Workbench<'_>, start: &Setup) -> Result<Vec<Setup>, String> {
        if start.is_in_place {
            return Err("the activations are in place already".to_owned());
        }
        if is_checkpointed(start) {
            return Err("checkpointed regions keep their input, which an in-place activation may overwrite".to_owned());
        }
        if bench.in_place.is_none() {
            return Err(why_not(bench.model));
        }
        Ok(vec![Setup { is_in_place: true, ..start.clone() }])
    }

    fn adopt(&self, _bench: &Workbench<'_>, setup: &mut Setup, from: &Setup) {
        setup.is_in_place = from.is_in_place && !is_checkpointed(setup);
    }

    fn describe(&self, bench: &Workbench<'_>, setup: &Setup) -> String {
        match setup.is_in_place {
            false => "activations write new tensors".to_owned(),
            true => format!("{} activations in place", candidates(bench.model).len()),
        }
    }
}

/// A checkpointed region that begins with an in-place activation would overwrite the input of its recomputation.
fn is_checkpointed(setup: &Setup) -> bool {
    setup.training.checkpoint != Choice::Nothing
}

fn why_not(model: &Model) -> String {
    let is_activation = |class: &str| {
        operators::all().filter_map(|facts| facts.activation).any(|activation| activation.module == class)
    };
    let count = model.modules.iter().filter(|module| is_activation(&module.class)).count();
    match count {
        0 => "the model has no activation module that supports inplace=True without its input (ReLU, LeakyReLU, ELU, CELU, SELU)".to_owned(),
        count => format!(
            "none of {count} activation modules can be: they are in place already, or something else needs their input"
        ),
    }
}
