//! A setup as a training loop in PyTorch, complete but for the model and the data.
//!
//! This is the skeleton that every loop has. Each trick writes its own settings into the sections of a [`PrintedLoop`].

mod accelerate;
mod deepspeed;
mod loss_line;

use vramfit_eager::forward::{chooses, frozen_weights};
use vramfit_graph::bind::Bound;

use crate::loss::Loss;
use crate::parts::Parts;
use crate::printed_loop::{Lines, PrintedLoop};
use crate::setup::Setup;
use crate::tricks::Trick;
use crate::workbench::Workbench;

use loss_line::LossLine;

/// A setup for people and for programs.
#[derive(Clone, Debug)]
pub struct Written {
    /// The training loop in PyTorch.
    pub code: String,
    /// What a program needs to do the same to a live model.
    pub parts: Parts,
    /// The configuration of Accelerate that spreads it in the same way, or why there is none; `None` for one GPU.
    pub accelerate: Option<Result<String, &'static str>>,
    /// The configuration of DeepSpeed that the code reads; `None` where it does not spread the training.
    pub deepspeed: Option<String>,
}

impl Written {
    /// The configuration of Accelerate, where there is one.
    pub fn accelerate_file(&self) -> Option<String> {
        self.accelerate.clone()?.ok()
    }

    /// Why there is none for several GPUs.
    pub fn no_accelerate_file(&self) -> Option<String> {
        self.accelerate.clone()?.err().map(str::to_owned)
    }
}

/// Writes a setup; `None` if the model cannot be bound to it.
pub fn written(bench: &Workbench<'_>, tricks: &[&'static dyn Trick], setup: &Setup) -> Option<Written> {
    let bound = bench.bind(setup)?;
    let loss = Loss::of(&bound, setup);
    let mut parts = Parts::new(loss);
    let mut code = PrintedLoop::new(setup.training.optimizer.kind);
    let deepspeed = deepspeed::configuration(bench, setup);
    for trick in tricks {
        // DeepSpeed's configuration says where the optimizer's state is.
        if deepspeed.is_none() || trick.setting() != "optimizer-state" {
            trick.write(bench, setup, &mut code);
        }
        trick.fill(bench, setup, &mut parts);
    }
    if deepspeed.is_some() {
        deepspeed::write(setup, &mut code);
    }
    let skeleton = Skeleton { bench, setup, bound: &bound, code: &code, loss };
    let accelerate = accelerate::configuration(bench, &bound, setup);
    Some(Written { code: skeleton.lines().text(), parts, accelerate, deepspeed })
}

/// The parts of the loop that are no trick's.
struct Skeleton<'a, 'm> {
    bench: &'a Workbench<'m>,
    setup: &'a Setup,
    bound: &'a Bound<'m>,
    code: &'a PrintedLoop,
    loss: Loss,
}

impl Skeleton<'_, '_> {
    fn lines(&self) -> Lines {
        let mut lines = Lines::default();
        self.imports(&mut lines);
        self.given(&mut lines);
        self.preparation(&mut lines);
        self.steps(&mut lines);
        lines
    }

    fn has_targets(&self) -> bool {
        !self.bench.model.targets.is_empty() || self.loss == Loss::CrossEntropy
    }

    fn imports(&self, lines: &mut Lines) {
        lines.extend(0, &self.code.launch);
        for section in [&self.code.standard_imports, &self.code.environment] {
            if !section.is_empty() {
                lines.extend(0, section);
                lines.line(0, "");
            }
        }
        lines.line(0, "import torch");
        lines.extend(0, &self.code.imports);
        if self.setup.training.averages_weights {
            lines.line(0, "from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn");
        }
        lines.line(0, "");
    }

    /// What the user adds, and what the flags set.
    fn given(&self, lines: &mut Lines) {
        let training = &self.setup.training;
        let batch = self.bench.batch_of(self.setup).map_or_else(String::new, |batch| format!(" of {batch} samples"));
        let location = match (training.has_fresh_inputs, training.holds_whole_batch && training.accumulate > 1) {
            (true, _) => "on the CPU",
            (false, true) => "slices of a batch on the GPU",
            (false, false) => "on the GPU",
        };
        let each = if self.has_targets() { "(inputs, targets)" } else { "inputs" };
        lines.line(0, "# Yours: `model`, as you build it, on the CPU;");
        lines.line(0, &format!("# `batches`, which gives {each}{batch} each, {location};"));
        lines.line(0, "# inputs are a dict of the model's arguments;");
        lines.extend(0, &self.code.batches_are);
        if self.loss == Loss::Given {
            let number = if training.adds_losses { "sum" } else { "mean" };
            lines.line(0, &format!("# `compute_loss(outputs, targets)`, which gives a {number} over the samples;"));
        }
        if training.groups.is_some() {
            lines.line(0, "# `parameter_groups`, the groups of weights that your optimizer takes;");
        }
        lines.line(0, "# the optimizer's own arguments, such as lr.");
        if training.optimizer.adds_decay {
            lines.line(0, "# Put your own weight_decay in place of 0.01.");
        }
        lines.line(0, &format!("device = {}", self.code.device));
        lines.extend(0, &self.code.before_model);
        if training.is_cudnn_benchmarked {
            lines.line(0, "torch.backends.cudnn.benchmark = True");
        }
    }

    fn preparation(&self, lines: &mut Lines) {
        let code = self.code;
        let mut calls = code.model_calls.as_str();
        if !code.before_move.is_empty() {
            if !calls.is_empty() {
                lines.line(0, &format!("model = model{calls}"));
            }
            lines.extend(0, &code.before_move);
            calls = "";
        }
        let moves = if code.is_moved { "" } else { ".to(device)" };
        lines.line(0, &format!("model = model{calls}{moves}.train()"));
        lines.extend(0, &code.model_changes);
        let frozen = self.frozen();
        if !frozen.is_empty() {
            lines.list("frozen", &frozen);
            lines.line(0, "for name, weight in model.named_parameters():");
            lines.line(1, "if f\"{name}.\".startswith(tuple(f\"{part}.\" for part in frozen)):");
            lines.line(2, "weight.requires_grad_(False)");
        }
        lines.extend(0, &code.wrapping);
        if let Some(class) = &code.optimizer_class {
            self.optimizer(lines, class, !frozen.is_empty());
        }
        lines.extend(0, &code.after_optimizer);
        if self.setup.training.averages_weights {
            lines.line(0, "update = get_ema_multi_avg_fn(0.999)");
            lines.line(0, "averaged = AveragedModel(model, multi_avg_fn=update)");
        }
        lines.line(0, "");
    }

    /// The weights and modules that are not trained, without patterns.
    fn frozen(&self) -> Vec<String> {
        let weights = frozen_weights(self.bound, &self.setup.training.frozen).unwrap_or_default();
        let chosen = self.bound.model.parameters.iter().filter(|weight| weights.contains(&weight.tensor));
        let patterns = &self.setup.training.frozen;
        let mut names: Vec<String> = Vec::new();
        for name in chosen.filter_map(|weight| weight.names.first()) {
            let parts = |pattern: &String| pattern.split('.').count();
            // As much of the weight's name as the shortest pattern that chooses it names.
            let shortest = patterns.iter().filter(|pattern| chooses(pattern, name)).map(parts).min();
            let short: Vec<&str> = name.split('.').take(shortest.unwrap_or(usize::MAX)).collect();
            let short = short.join(".");
            if !names.contains(&short) {
                names.push(short);
            }
        }
        names
    }

    /// Creates the optimizer, two of them, or one for each weight.
    fn optimizer(&self, lines: &mut Lines, class: &str, has_frozen: bool) {
        let code = self.code;
        let more = code.optimizer_arguments.iter().chain(&code.implementation_arguments).map(String::as_str);
        let decay = self.setup.training.optimizer.adds_decay.then_some("weight_decay=0.01");
        let of =
            |weights: &'static str| -> Vec<&str> { [weights].into_iter().chain(more.clone()).chain(decay).collect() };
        if code.has_optimizer_per_weight {
            lines.line(0, "optimizers = {");
            if code.is_on_cpu {
                lines.call(1, &format!("weight: {class}"), &of("[copy]"), "");
                lines.line(1, "for weight, copy in copies.items()");
            } else {
                lines.call(1, &format!("weight: {class}"), &of("[weight]"), "");
                lines.line(1, "for weight in model.parameters() if weight.requires_grad");
            }
            lines.line(0, "}");
            return;
        }
        let mut arguments = match code.optimizer_weights.as_str() {
            // ZeroRedundancyOptimizer divides all weights that it is given between the ranks, and is simulated with all of them.
            "model.parameters()" if has_frozen && !self.setup.training.parallel.splits_optimizer() => {
                vec!["[weight for weight in model.parameters() if weight.requires_grad]"]
            }
            weights => vec![weights],
        };
        arguments.extend(more.chain(decay));
        match &code.second_optimizer {
            None => lines.call(0, &format!("optimizer = {class}"), &arguments, ""),
            Some(second) => {
                lines.line(0, "optimizers = [");
                lines.call(1, class, &arguments, ",");
                lines.line(1, &format!("{second},"));
                lines.line(0, "]");
            }
        }
    }

    fn steps(&self, lines: &mut Lines) {
        let (code, training, has_targets) = (self.code, &self.setup.training, self.has_targets());
        let count = code.micro_batches;
        let each = if has_targets { "inputs, targets" } else { "inputs" };
        match (count, has_targets) {
            (1, _) => lines.line(0, &format!("for {each} in batches:")),
            (_, true) => lines.line(0, &format!("for number, ({each}) in enumerate(batches):")),
            (_, false) => lines.line(0, &format!("for number, {each} in enumerate(batches):")),
        }
        self.once_a_step(lines, 0, &code.start_of_step);
        lines.extend(1, &code.batch_changes);
        let mut names = ("inputs", "targets");
        if training.has_fresh_inputs {
            names = ("on_gpu", "targets_on_gpu");
            lines.line(1, "on_gpu = {name: tensor.to(device) for name, tensor in inputs.items()}");
            if has_targets {
                lines.line(1, "targets_on_gpu = targets.to(device)");
            }
        }
        lines.extend(1, &code.each_micro_batch);
        let mut indent = 1;
        for context in &code.forward_contexts {
            lines.line(indent, &format!("with {context}:"));
            indent += 1;
        }
        lines.line(indent, &format!("outputs = model(**{})", names.0));
        if !has_targets {
            names.1 = "None";
        }
        let has_engine = training.parallel.has_engine();
        let parts = if training.adds_losses || has_engine { 1 } else { count };
        if !LossLine::of(self.bound, self.loss).write(lines, indent, names.1, parts) {
            return;
        }
        self.once_a_step(lines, 0, &code.before_first_backward);
        lines.extend(1, &code.before_backward);
        lines.line(1, &code.backward);
        lines.extend(1, &code.after_backward);
        let mut end = Lines::default();
        if training.clips_gradients && !has_engine {
            end.extend(0, &code.before_clipping);
            end.line(0, "torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)");
        }
        end.extend(0, &code.update);
        if training.averages_weights {
            end.line(0, "averaged.update_parameters(model)");
        }
        self.once_a_step(lines, count - 1, &end);
    }

    /// Lines that run with one micro-batch of a step only.
    fn once_a_step(&self, lines: &mut Lines, micro_batch: u32, section: &Lines) {
        let count = self.code.micro_batches;
        if section.is_empty() {
            return;
        }
        if count == 1 {
            lines.extend(1, section);
        } else {
            lines.line(1, &format!("if number % {count} == {micro_batch}:"));
            lines.extend(2, section);
        }
    }
}
