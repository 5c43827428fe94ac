//! Another optimizer: Adam keeps two values per weight, in 8 bits each with bitsandbytes, momentum one, SGD none and Adafactor
//! almost none.

use vramfit_graph::dtype::Dtype;
use vramfit_training::StatePlace;
use vramfit_training::optimizer::{Implementation, Kind, Library, Recipe};

use super::role::Role;
use super::trick::Trick;
use crate::forms::Adapters;
use crate::printed_loop::PrintedLoop;
use crate::setup::Setup;
use crate::workbench::Workbench;

pub(crate) struct OtherOptimizer;

/// Leaner optimizers, the one closest to `kind` first: Adam with 8 bits for each value is Adam still, in managed memory too.
/// Adafactor scales each weight's step as Adam does, SGD does not.
fn leaner(kind: Kind) -> Vec<Kind> {
    let closest: &[Kind] = match kind {
        Kind::Momentum | Kind::Nesterov => &[Kind::Sgd, Kind::Adafactor],
        Kind::AdamW | Kind::Muon | Kind::PagedAdamW => {
            &[Kind::AdamW8bit, Kind::PagedAdamW8bit, Kind::Adafactor, Kind::Momentum, Kind::Sgd]
        }
        Kind::Adam | Kind::Amsgrad | Kind::NAdam | Kind::RAdam | Kind::Adamax => {
            &[Kind::Adam8bit, Kind::PagedAdamW8bit, Kind::Adafactor, Kind::Momentum, Kind::Sgd]
        }
        Kind::AdamW8bit | Kind::Adam8bit => &[Kind::PagedAdamW8bit, Kind::Adafactor, Kind::Momentum, Kind::Sgd],
        Kind::Lion | Kind::PagedLion => &[Kind::Lion8bit, Kind::PagedLion8bit, Kind::Adafactor, Kind::Sgd],
        Kind::Lion8bit => &[Kind::PagedLion8bit, Kind::Adafactor, Kind::Sgd],
        _ => &[Kind::Adafactor, Kind::Momentum, Kind::Sgd],
    };
    closest.iter().copied().filter(|&leaner| leaner != kind).collect()
}

/// Whether an optimizer runs on this GPU with these weights.
fn runs(bench: &Workbench<'_>, setup: &Setup, kind: Kind) -> bool {
    let has_kernels = setup.variant.dtype != Some(Dtype::Float64)
        && !bench.model.parameters.iter().any(|weight| weight.dtype == Dtype::Float64);
    kind.library() != Library::Bitsandbytes || (has_kernels && bench.device.gpu.compute.has_bitsandbytes())
}

/// The optimizer's class with its module, and the arguments that choose it; `None` without one.
fn class(kind: Kind) -> Option<(String, &'static [&'static str])> {
    let (class, arguments): (&str, &[&str]) = match kind {
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
        Kind::Muon => ("Muon", &[]),
        Kind::AdafactorHf => ("Adafactor", &["lr=5e-5", "scale_parameter=False", "relative_step=False"]),
        Kind::AdamW8bit => ("AdamW8bit", &[]),
        Kind::Adam8bit => ("Adam8bit", &[]),
        Kind::Lion8bit => ("Lion8bit", &[]),
        Kind::Lion => ("Lion", &[]),
        Kind::PagedAdamW8bit => ("PagedAdamW8bit", &[]),
        Kind::PagedAdamW => ("PagedAdamW", &[]),
        Kind::PagedLion8bit => ("PagedLion8bit", &[]),
        Kind::PagedLion => ("PagedLion", &[]),
        Kind::None => return None,
    };
    Some((format!("{}.{class}", kind.library().module()), arguments))
}

/// Muon is for the matrices of hidden layers, AdamW for embeddings, biases and norms.
fn write_muon(code: &mut PrintedLoop) {
    let lines = &mut code.model_changes;
    lines.line(0, "embeddings = [");
    lines.line(1, "module.weight for module in model.modules()");
    lines.line(1, "if isinstance(module, torch.nn.Embedding)");
    lines.line(0, "]");
    lines.line(0, "is_embedding = {id(weight) for weight in embeddings}");
    lines.line(0, "hidden, others = [], []");
    lines.line(0, "for weight in model.parameters():");
    lines.line(1, "is_hidden = weight.ndim == 2 and id(weight) not in is_embedding");
    lines.line(1, "(hidden if is_hidden else others).append(weight)");
    code.optimizer_weights = "hidden".to_owned();
    code.second_optimizer = Some("torch.optim.AdamW(others)".to_owned());
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
        "bitsandbytes.optim.AdamW8bit(model.parameters())  # or torch.optim.Adafactor, or SGD with momentum or without"
    }

    fn alternatives(&self, bench: &Workbench<'_>, start: &Setup) -> Result<Vec<Setup>, String> {
        let kind = start.training.optimizer.kind;
        if start.training.optimizer_state == StatePlace::Cpu {
            return Err("its state is on the CPU".to_owned());
        }
        if start.adapters != Adapters::AsGiven {
            return Err("adapters have hardly any state".to_owned());
        }
        if matches!(kind, Kind::None | Kind::Sgd) {
            return Err(format!("{} keeps no state", kind.name()));
        }
        Ok(leaner(kind)
            .into_iter()
            .filter(|&leaner| runs(bench, start, leaner))
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
        let kind = setup.training.optimizer.kind;
        let Some((class, arguments)) = class(kind) else { return };
        match kind.library() {
            Library::Torch => {}
            Library::Bitsandbytes => code.imports.line(0, "import bitsandbytes"),
            Library::Transformers => code.imports.line(0, "import transformers.optimization"),
        }
        if kind == Kind::Muon {
            write_muon(code);
        } else if setup.training.groups.is_some() {
            code.optimizer_weights = "parameter_groups".to_owned();
        }
        code.optimizer_class = Some(class);
        code.optimizer_arguments.extend(arguments.iter().map(|argument| (*argument).to_owned()));
    }

    fn warning(&self, _bench: &Workbench<'_>, setup: &Setup) -> Option<String> {
        let quantized = setup.training.optimizer.kind.quantized()?;
        quantized.is_paged.then(|| {
            "the states of large weights are in managed memory, which the driver moves to the CPU's where the GPU's is full: it does \
             not count as allocated, and steps take longer then"
                .to_owned()
        })
    }
}
