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

use crate::forms::Adapters;
use crate::parts::Parts;
use crate::printed_loop::PrintedLoop;
use crate::setup::Setup;
use crate::tricks::role::Role;
use crate::tricks::trick::Trick;
use crate::workbench::Workbench;

pub(crate) struct InPlace;

impl Trick for InPlace {
    fn name(&self) -> &'static str {
        "in-place activations"
    }

    fn setting(&self) -> &'static str {
        "in-place"
    }

    fn role(&self) -> Role {
        Role::Free { bytes_per_weight: 0 }
    }

    fn conflicts(&self) -> &'static str {
        "checkpointing, hooks, and code that reads an activation's input later"
    }

    fn code(&self, _bench: &Workbench<'_>) -> &'static str {
        "nn.ReLU(inplace=True)  # or module.inplace = True"
    }

    fn alternatives(&self, bench: &Workbench<'_>, start: &Setup) -> Result<Vec<Setup>, String> {
        if start.is_in_place {
            return Err("the activations are in place already".to_owned());
        }
        if is_checkpointed(start) {
            return Err("checkpointed regions keep their input, which an in-place activation may overwrite".to_owned());
        }
        if start.adapters != Adapters::AsGiven {
            return Err("the model is frozen, and its adapters have no activations".to_owned());
        }
        if bench.in_place.is_none() {
            return Err(why_not(bench.model));
        }
        Ok(vec![Setup { is_in_place: true, ..start.clone() }])
    }

    fn adopt(&self, _bench: &Workbench<'_>, setup: &mut Setup, from: &Setup) {
        setup.is_in_place = from.is_in_place && !is_checkpointed(setup) && setup.adapters == Adapters::AsGiven;
    }

    fn describe(&self, bench: &Workbench<'_>, setup: &Setup) -> String {
        match setup.is_in_place {
            false => "activations write new tensors".to_owned(),
            true => format!("{} activations in place", candidates(bench.model).len()),
        }
    }

    fn write(&self, bench: &Workbench<'_>, setup: &Setup, code: &mut PrintedLoop) {
        let names = names(bench, setup);
        if !names.is_empty() {
            code.model_changes.list("in_place", &names);
            code.model_changes.line(0, "for name in in_place:");
            code.model_changes.line(1, "model.get_submodule(name).inplace = True");
        }
    }

    fn fill(&self, bench: &Workbench<'_>, setup: &Setup, parts: &mut Parts) {
        parts.in_place = names(bench, setup);
    }
}

/// The modules that a setup has in place.
fn names(bench: &Workbench<'_>, setup: &Setup) -> Vec<String> {
    if setup.is_in_place { candidates(bench.model) } else { Vec::new() }
}

/// A checkpointed region that begins with an in-place activation would overwrite the input of its recomputation.
fn is_checkpointed(setup: &Setup) -> bool {
    setup.training.checkpoint != Choice::Nothing
}

/// Why no activation of a model can be put in place.
pub fn why_not(model: &Model) -> String {
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
