//! The sections of the printed training loop that tricks write to, in the order of the program.

mod lines;

pub use lines::Lines;

use vramfit_training::optimizer::Kind;

/// What tricks write of a training loop in PyTorch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrintedLoop {
    /// The command that starts it, if it is not started alone.
    pub launch: Lines,
    /// What wraps the model when all changes to it have been made.
    pub wrapping: Lines,
    /// The device.
    pub device: String,
    /// Right after the device is chosen.
    pub before_model: Lines,
    /// Whether the model is on the GPU without being moved there.
    pub is_moved: bool,
    /// What batches must be like, as comments beside `batches`.
    pub batches_are: Lines,
    /// Changes to a batch before it is moved to the GPU.
    pub batch_changes: Lines,
    /// At the start of every micro-batch.
    pub each_micro_batch: Lines,
    /// Before torch is imported.
    pub environment: Lines,
    /// Imports from Python's standard library.
    pub standard_imports: Lines,
    /// Imports after `import torch`.
    pub imports: Lines,
    /// Calls on the model before it is moved to the GPU, such as `.to(torch.bfloat16)`.
    pub model_calls: String,
    /// Changes to the model before it is moved to the GPU, after those calls.
    pub before_move: Lines,
    /// Changes to the model on the GPU, before the optimizer is created.
    pub model_changes: Lines,
    /// The optimizer's class; `None` if there is no optimizer.
    pub optimizer_class: Option<String>,
    /// The weights that the optimizer takes.
    pub optimizer_weights: String,
    /// Whether each of these weights has an optimizer of its own.
    pub has_optimizer_per_weight: bool,
    /// The call that creates a second optimizer, for other weights.
    pub second_optimizer: Option<String>,
    /// Whether there are two optimizers.
    has_two_optimizers: bool,
    /// Whether the optimizer updates copies of the weights on the CPU, `copies`.
    pub is_on_cpu: bool,
    /// Arguments that are part of which optimizer it is, such as `momentum=0.9`.
    pub optimizer_arguments: Vec<String>,
    /// Arguments that choose how it is computed, such as `fused=True`.
    pub implementation_arguments: Vec<String>,
    /// After the optimizer is created, before the loop.
    pub after_optimizer: Lines,
    /// Micro-batches of a step.
    pub micro_batches: u32,
    /// At the start of a step.
    pub start_of_step: Lines,
    /// Context managers around the forward pass and the loss, the outermost first.
    pub forward_contexts: Vec<String>,
    /// Before the first backward pass of a step.
    pub before_first_backward: Lines,
    /// Before every backward pass.
    pub before_backward: Lines,
    /// The backward pass.
    pub backward: String,
    /// After every backward pass.
    pub after_backward: Lines,
    /// At the end of a step, before gradients are clipped; left out if they are not.
    pub before_clipping: Lines,
    /// The update of the weights, at the end of a step.
    pub update: Lines,
}

impl PrintedLoop {
    /// The loop without any trick.
    pub(crate) fn new(optimizer: Kind) -> PrintedLoop {
        let mut code = PrintedLoop {
            launch: Lines::default(),
            wrapping: Lines::default(),
            device: "\"cuda\"".to_owned(),
            before_model: Lines::default(),
            is_moved: false,
            batches_are: Lines::default(),
            batch_changes: Lines::default(),
            each_micro_batch: Lines::default(),
            environment: Lines::default(),
            standard_imports: Lines::default(),
            imports: Lines::default(),
            model_calls: String::new(),
            before_move: Lines::default(),
            model_changes: Lines::default(),
            optimizer_class: None,
            optimizer_weights: "model.parameters()".to_owned(),
            has_optimizer_per_weight: false,
            second_optimizer: None,
            has_two_optimizers: optimizer == Kind::Muon,
            is_on_cpu: false,
            optimizer_arguments: Vec::new(),
            implementation_arguments: Vec::new(),
            after_optimizer: Lines::default(),
            micro_batches: 1,
            start_of_step: Lines::default(),
            forward_contexts: Vec::new(),
            before_first_backward: Lines::default(),
            before_backward: Lines::default(),
            backward: "loss.backward()".to_owned(),
            after_backward: Lines::default(),
            before_clipping: Lines::default(),
            update: Lines::default(),
        };
        if optimizer != Kind::None {
            code.update = code.for_each_optimizer("optimizer.step()");
        }
        code
    }

    /// Has each weight's own optimizer update it as soon as it has its gradient.
    pub fn write_hook(&mut self) {
        let is_on_cpu = self.is_on_cpu;
        let lines = &mut self.after_optimizer;
        *lines = Lines::default();
        lines.line(0, "");
        if is_on_cpu {
            lines.line(0, "@torch.no_grad()");
        }
        lines.line(0, "def update(weight):");
        if is_on_cpu {
            lines.line(1, "copies[weight].grad.copy_(weight.grad)");
            lines.line(1, "weight.grad = None");
            lines.line(1, "optimizers[weight].step()");
            lines.line(1, "weight.copy_(copies[weight])");
        } else {
            lines.line(1, "optimizers[weight].step()");
            lines.line(1, "optimizers[weight].zero_grad()");
        }
        lines.line(0, "");
        lines.line(0, "for weight in optimizers:");
        lines.line(1, "weight.register_post_accumulate_grad_hook(update)");
    }

    /// A line for every optimizer of the loop: as it is where there is one.
    pub fn for_each_optimizer(&self, line: &str) -> Lines {
        if !self.has_two_optimizers {
            return Lines::of(line);
        }
        let mut lines = Lines::of("for optimizer in optimizers:");
        lines.line(1, line);
        lines
    }
}
