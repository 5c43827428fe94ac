//! A plan as a training loop in PyTorch, complete but for the model and the data.

use serde::Serialize;
use vramfit_eager::forward::{Choice, module_names};
use vramfit_graph::bind::{Bound, BoundStep};
use vramfit_graph::dtype::Dtype;
use vramfit_graph::model::{Origin, TensorId};
use vramfit_plan::tricks::in_place;
use vramfit_plan::{Setup, Workbench};
use vramfit_training::optimizer::{Implementation, Kind, Recipe};
use vramfit_training::{AddedLoss, ZeroGrad};

use super::json::Parts;

/// Where a line should end.
const WIDTH: usize = 80;

/// Lines with their indentation.
struct Script(String);

impl Script {
    fn line(&mut self, indent: usize, text: &str) {
        if !text.is_empty() {
            self.0 += &"    ".repeat(indent);
            self.0 += text;
        }
        self.0.push('\n');
    }
}

/// Where the loss comes from.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Loss {
    /// A function of outputs and targets that was captured with the model.
    #[serde(rename = "function")]
    Given,
    /// The model returns it.
    Returned,
    /// Added: the cross-entropy of the first output.
    CrossEntropy,
    /// Added: the mean of the first output.
    Mean,
    /// There is none.
    None,
}

/// The loss, and the output that it is or is made of.
struct LossValue {
    loss: Loss,
    /// How the output is reached, as Python writes it.
    output: String,
    /// Whether the model's file does not record that, so that `output` is a guess.
    is_guessed: bool,
    /// Whether the output is that of a sequence, whose classes are its last dimension.
    is_sequence: bool,
}

impl LossValue {
    fn of(bound: &Bound<'_>, loss: Loss) -> LossValue {
        let variant = bound.variant;
        let is_wanted = |id: &&TensorId| match loss {
            Loss::Returned => variant.loss == Some(**id),
            _ => bound.tensor(**id).dtype.is_differentiable(),
        };
        let found = variant.outputs.iter().find(is_wanted);
        let index = found.and_then(|found| variant.outputs.iter().position(|id| id == found));
        let known = index.and_then(|index| variant.paths.get(index));
        let path = known.map_or(
            match (&loss, bound.model.origin) {
                (_, _) if variant.outputs.len() < 2 => "",
                (Loss::Returned, Origin::Capture) => ".loss",
                _ => "[0]",
            },
            String::as_str,
        );
        LossValue {
            output: format!("outputs{path}"),
            is_guessed: known.is_none(),
            is_sequence: found.is_some_and(|id| bound.tensor(*id).shape.len() == 3),
            loss,
        }
    }

    /// Writes the line that gives the loss its name; `false` where there is no loss.
    fn write(&self, script: &mut Script, indent: usize, targets: &str, count: u32) -> bool {
        let divided = if count == 1 { String::new() } else { format!(" / {count}") };
        let output = &self.output;
        if self.is_guessed {
            match self.loss {
                Loss::Returned => {
                    script.line(indent, "# Or what your model has: outputs.loss, outputs[0], outputs[\"loss\"].");
                }
                Loss::CrossEntropy | Loss::Mean => {
                    script.line(indent, "# Or what your model has: outputs.logits, outputs[0], outputs[\"out\"].");
                }
                Loss::Given | Loss::None => {}
            }
        }
        match self.loss {
            Loss::Given => call(script, indent, "loss = compute_loss", &["outputs", targets], &divided),
            Loss::Returned => script.line(indent, &format!("loss = {output}{divided}")),
            Loss::Mean => script.line(indent, &format!("loss = {output}.mean(){divided}")),
            Loss::CrossEntropy => {
                let flat = [format!("{output}.flatten(0, 1)"), format!("{targets}.flatten()")];
                let arguments =
                    if self.is_sequence { [flat[0].as_str(), &flat[1]] } else { [output.as_str(), targets] };
                call(script, indent, "loss = torch.nn.functional.cross_entropy", &arguments, &divided);
            }
            Loss::None => return false,
        }
        true
    }
}

/// What a program needs to do to a model what the code does.
pub fn parts(bench: &Workbench<'_>, setup: &Setup) -> Option<Parts> {
    let bound = bench.bind(setup)?;
    Some(Parts {
        checkpointed: module_names(&bound, &setup.training.checkpoint),
        segments: match setup.training.checkpoint {
            Choice::Sequential(segments) => Some(segments),
            _ => None,
        },
        in_place: if setup.is_in_place { in_place::candidates(bench.model) } else { Vec::new() },
        dtype: setup.variant.dtype.map(Dtype::name),
        amp: setup.variant.amp.map(Dtype::name),
        loss: loss_of(&bound, setup),
    })
}

fn loss_of(bound: &Bound<'_>, setup: &Setup) -> Loss {
    let has_function = bound.steps.iter().any(|step| matches!(step, BoundStep::Loss));
    match setup.training.loss {
        _ if has_function => Loss::Given,
        _ if bound.variant.loss.is_some() => Loss::Returned,
        AddedLoss::CrossEntropy => Loss::CrossEntropy,
        AddedLoss::Mean => Loss::Mean,
        AddedLoss::None => Loss::None,
    }
}

/// The code of a setup.
pub fn code(bench: &Workbench<'_>, setup: &Setup) -> String {
    let Some(bound) = bench.bind(setup) else { return String::new() };
    let loss = loss_of(&bound, setup);
    let has_targets = !bench.model.targets.is_empty() || matches!(loss, Loss::CrossEntropy);
    let modules = module_names(&bound, &setup.training.checkpoint);
    let in_place = if setup.is_in_place { in_place::candidates(bench.model) } else { Vec::new() };
    let mut script = Script(String::new());
    head(&mut script, setup, !modules.is_empty());
    yours(&mut script, bench, setup, &loss, has_targets);
    prepare(&mut script, setup, &modules, &in_place);
    steps(&mut script, setup, &LossValue::of(&bound, loss), has_targets);
    script.0
}

fn head(script: &mut Script, setup: &Setup, checkpoints: bool) {
    let alloc_conf = setup.alloc_conf.text();
    if !alloc_conf.is_empty() {
        script.line(0, "import os");
        script.line(0, "");
        script.line(0, "# Before torch is imported, or in the shell.");
        script.line(0, &format!("os.environ[\"PYTORCH_CUDA_ALLOC_CONF\"] = \"{alloc_conf}\""));
        script.line(0, "");
    }
    let sequential = matches!(setup.training.checkpoint, Choice::Sequential(_));
    if checkpoints {
        script.line(0, "import functools");
        script.line(0, "");
    }
    script.line(0, "import torch");
    if checkpoints {
        script.line(0, "from torch.utils.checkpoint import checkpoint");
    }
    if sequential {
        script.line(0, "from torch.utils.checkpoint import checkpoint_sequential");
    }
    script.line(0, "");
}

/// What the script takes as given.
fn yours(script: &mut Script, bench: &Workbench<'_>, setup: &Setup, loss: &Loss, has_targets: bool) {
    let batch = bench.batch_of(setup).map_or_else(String::new, |batch| format!(" of {batch} samples"));
    let place = if setup.training.has_fresh_inputs { "on the CPU" } else { "on the GPU" };
    let each = if has_targets { "(inputs, targets)" } else { "inputs" };
    script.line(0, "# Yours: `model`, as you build it, on the CPU;");
    script.line(0, &format!("# `batches`, which gives {each}{batch} each, {place};"));
    script.line(0, "# inputs are a dict of the model's arguments;");
    if matches!(loss, Loss::Given) {
        script.line(0, "# `compute_loss(outputs, targets)`, which gives a mean over the samples;");
    }
    script.line(0, "# the optimizer's own arguments, such as lr.");
    if setup.training.optimizer.adds_decay {
        script.line(0, "# Put your own weight_decay in place of 0.01.");
    }
    script.line(0, "device = \"cuda\"");
    if setup.training.is_cudnn_benchmarked {
        script.line(0, "torch.backends.cudnn.benchmark = True");
    }
}

fn dtype_name(dtype: Dtype) -> String {
    format!("torch.{}", dtype.name())
}

fn prepare(script: &mut Script, setup: &Setup, modules: &[String], in_place: &[String]) {
    let cast = setup.variant.dtype.map_or_else(String::new, |dtype| format!(".to({})", dtype_name(dtype)));
    script.line(0, &format!("model = model{cast}.to(device).train()"));
    if !modules.is_empty() {
        list(script, "checkpointed", modules);
        script.line(0, "for name in checkpointed:");
        script.line(1, "module = model.get_submodule(name)");
        script.line(1, "forward = functools.partial(checkpoint, module.forward, use_reentrant=False)");
        script.line(1, "module.forward = forward");
    }
    if let Choice::Sequential(segments) = setup.training.checkpoint {
        script.line(0, "sequential = next(");
        script.line(1, "part for part in model.modules() if isinstance(part, torch.nn.Sequential)");
        script.line(0, ")");
        script.line(0, "parts = list(sequential.children())");
        script.line(0, "sequential.forward = lambda input: checkpoint_sequential(");
        script.line(1, &format!("parts, {segments}, input, use_reentrant=False"));
        script.line(0, ")");
    }
    if !in_place.is_empty() {
        list(script, "in_place", in_place);
        script.line(0, "for name in in_place:");
        script.line(1, "model.get_submodule(name).inplace = True");
    }
    optimizer(script, setup.training.optimizer);
    if setup.variant.amp == Some(Dtype::Float16) {
        script.line(0, "scaler = torch.amp.GradScaler(device)");
    }
    script.line(0, "");
}

/// A list of names, one a line where there are many.
fn list(script: &mut Script, name: &str, names: &[String]) {
    let quoted: Vec<String> = names.iter().map(|name| format!("\"{name}\"")).collect();
    let short = format!("{name} = [{}]", quoted.join(", "));
    if short.len() <= WIDTH {
        script.line(0, &short);
        return;
    }
    script.line(0, &format!("{name} = ["));
    for quoted in quoted {
        script.line(1, &format!("{quoted},"));
    }
    script.line(0, "]");
}

fn optimizer(script: &mut Script, recipe: Recipe) {
    let (class, own): (&str, &[&str]) = match recipe.kind {
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
    let mut arguments = vec!["model.parameters()"];
    arguments.extend(own);
    match recipe.implementation {
        Implementation::Default => {}
        Implementation::Foreach => arguments.push("foreach=True"),
        Implementation::Fused => arguments.push("fused=True"),
        Implementation::ForLoop => arguments.push("foreach=False"),
    }
    if recipe.adds_decay {
        arguments.push("weight_decay=0.01");
    }
    call(script, 0, &format!("optimizer = torch.optim.{class}"), &arguments, "");
}

/// A call with what comes before and after it; one argument a line where it is too long for one line.
fn call(script: &mut Script, indent: usize, before: &str, arguments: &[&str], after: &str) {
    let short = format!("{before}({}){after}", arguments.join(", "));
    if 4 * indent + short.chars().count() <= WIDTH {
        script.line(indent, &short);
        return;
    }
    script.line(indent, &format!("{before}("));
    for argument in arguments {
        script.line(indent + 1, &format!("{argument},"));
    }
    script.line(indent, &format!("){after}"));
}

fn steps(script: &mut Script, setup: &Setup, value: &LossValue, has_targets: bool) {
    let training = &setup.training;
    let has_optimizer = training.optimizer.kind != Kind::None;
    let count = training.accumulate;
    let each = if has_targets { "inputs, targets" } else { "inputs" };
    match (count, has_targets) {
        (1, _) => script.line(0, &format!("for {each} in batches:")),
        (_, true) => script.line(0, &format!("for number, ({each}) in enumerate(batches):")),
        (_, false) => script.line(0, &format!("for number, {each} in enumerate(batches):")),
    }
    let zero = format!("optimizer.zero_grad(set_to_none={})", if training.sets_to_none { "True" } else { "False" });
    let zero = if has_optimizer { zero } else { "model.zero_grad(set_to_none=True)".to_owned() };
    let zero_grad = |script: &mut Script| {
        if count == 1 {
            script.line(1, &zero);
        } else {
            script.line(1, &format!("if number % {count} == 0:"));
            script.line(2, &zero);
        }
    };
    if training.zero_grad == ZeroGrad::BeforeForward {
        zero_grad(script);
    }
    let mut names = ("inputs", "targets");
    if training.has_fresh_inputs {
        names = ("on_gpu", "targets_on_gpu");
        script.line(1, "on_gpu = {name: tensor.to(device) for name, tensor in inputs.items()}");
        if has_targets {
            script.line(1, "targets_on_gpu = targets.to(device)");
        }
    }
    let mut indent = 1;
    if let Some(dtype) = setup.variant.amp {
        script.line(1, &format!("with torch.autocast(device, dtype={}):", dtype_name(dtype)));
        indent = 2;
    }
    script.line(indent, &format!("outputs = model(**{})", names.0));
    if !value.write(script, indent, names.1, count) {
        return;
    }
    if training.zero_grad == ZeroGrad::BeforeBackward {
        zero_grad(script);
    }
    if training.releases_outputs {
        script.line(1, "del outputs");
    }
    let has_scaler = setup.variant.amp == Some(Dtype::Float16);
    script.line(1, if has_scaler { "scaler.scale(loss).backward()" } else { "loss.backward()" });
    if training.releases_outputs {
        script.line(1, "del loss  # take loss.item() before, for the log");
    }
    let mut indent = 1;
    if count > 1 {
        script.line(1, &format!("if number % {count} == {}:", count - 1));
        indent = 2;
    }
    if training.clips_gradients {
        if has_scaler {
            script.line(indent, "scaler.unscale_(optimizer)");
        }
        script.line(indent, "torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)");
    }
    if has_scaler {
        script.line(indent, "scaler.step(optimizer)");
        script.line(indent, "scaler.update()");
    } else if has_optimizer {
        script.line(indent, "optimizer.step()");
    }
}
