//! The sections of the printed training loop that tricks write to, in the order of the program.

mod lines;

pub use lines::Lines;

/// What tricks write of a training loop in PyTorch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrintedLoop {
    /// Before torch is imported.
    pub environment: Lines,
    /// Imports from Python's standard library.
    pub standard_imports: Lines,
    /// Imports after `import torch`.
    pub imports: Lines,
    /// Calls on the model before it is moved to the GPU, such as `.to(torch.bfloat16)`.
    pub model_calls: String,
    /// Changes to the model on the GPU, before the optimizer is created.
    pub model_changes: Lines,
    /// The optimizer's class; `None` if there is no optimizer.
    pub optimizer_class: Option<String>,
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
    pub(crate) fn new(has_optimizer: bool) -> PrintedLoop {
        PrintedLoop {
            environment: Lines::default(),
            standard_imports: Lines::default(),
            imports: Lines::default(),
            model_calls: String::new(),
            model_changes: Lines::default(),
            optimizer_class: None,
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
            update: if has_optimizer { Lines::of("optimizer.step()") } else { Lines::default() },
        }
    }
}
