//! Another optimizer: Adam keeps two values per weight, momentum one, SGD none and Adafactor almost none.

use vramfit_training::optimizer::{Implementation, Kind, Recipe};

use super::role::Role;
use super::trick::Trick;
use crate::printed_loop::PrintedLoop;
use crate::setup::Setup;
use crate::workbench::Workbench;

pub(crate) struct OtherOptimizer;

/// Leaner optimizers, the one closest to `kind` first: Adafactor scales each weight's step as Adam does, SGD does not.
fn leaner(kind: Kind) -> Vec<Kind> {
    let closest = match kind {
        Kind::Momentum | Kind::Nesterov => [Kind::Sgd, Kind::Adafactor, Kind::Momentum],
        _ => [Kind::Adafactor, Kind::Momentum, Kind::Sgd],
    };
    closest.into_iter().filter(|&leaner| leaner != kind).collect()
}

impl Trick for OtherOptimizer {
    fn name(&self) -> &'static str {
        "optimizer"
    }

    fn setting(&self) -> &'static str {
        "optimizer"
    }

    fn role(&self) -> Role {
        Role::WeightState
    }

    fn conflicts(&self) -> &'static str {
        "the learning rate, which another optimizer needs different"
    }

    fn code(&self, _bench: &Workbench<'_>) -> &'static str {
        "torch.optim.Adafactor(model.parameters())  # or SGD, with momentum or without"
    }

    fn alternatives(&self, _bench: &Workbench<'_>, start: &Setup) -> Result<Vec<Setup>, String> {
        let kind = start.training.optimizer.kind;
        if matches!(kind, Kind::None | Kind::Sgd) {
            return Err(format!("{} keeps no state", kind.name()));
        }
        Ok(leaner(kind)
            .into_iter()
            .map(|kind| {
                let mut setup = start.clone();
                let recipe = Recipe { kind, ..start.training.optimizer };
                let implementation = if recipe.exists() { recipe.implementation } else { Implementation::Default };
                setup.training.optimizer = Recipe { implementation, ..recipe };
                setup
            })
            .collect())
    }

    fn adopt(&self, _bench: &Workbench<'_>, setup: &mut Setup, from: &Setup) {
        if setup.training.optimizer.kind != from.training.optimizer.kind {
            // The implementation is a trick of its own.
            let recipe = Recipe { implementation: setup.training.optimizer.implementation, ..from.training.optimizer };
            setup.training.optimizer = if recipe.exists() { recipe } else { from.training.optimizer };
        }
    }

    fn describe(&self, _bench: &Workbench<'_>, setup: &Setup) -> String {
        format!("optimizer {}", setup.training.optimizer.kind.name())
    }

    fn write(&self, _bench: &Workbench<'_>, setup: &Setup, code: &mut PrintedLoop) {
        let (class, arguments): (&str, &[&str]) = match setup.training.optimizer.kind {
            Kind::AdamW => ("AdamW", &[]),
            Kind::Adam => ("Adam", &[]),
            Kind::Amsgrad => ("Adam", &["amsgrad=True"]),
            Kind::Sgd => ("SGD", &[]),
            Kind::Momentum => ("SGD", &["momentum=0.9"]),
            Kind::Nesterov => ("SGD", &["momentum=0.9", "nesterov=True"]),
            Kind::RmsProp => ("RMSprop", &[]),
            Kind::Adagrad => ("Adagrad", &[]),
            Kind::Adadelta => ("Adadelta", &[]),
            Kind::Adamax => ("Adamax", &[]),
            Kind::NAdam => ("NAdam", &[]),
            Kind::RAdam => ("RAdam", &[]),
            Kind::Adafactor => ("Adafactor", &[]),
            Kind::None => return,
        };
        code.optimizer_class = Some(format!("torch.optim.{class}"));
        code.optimizer_arguments.extend(arguments.iter().map(|argument| (*argument).to_owned()));
    }
}
