//! One action of a script.

use std::fmt;

use crate::report::Phase;

/// One statement of a script. Numbers are indexes into the lists of [`super::Script`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// `model.cuda()`.
    MoveModel {
        /// The model.
        model: usize,
    },
    /// The model is wrapped in `DistributedDataParallel`.
    Replicate {
        /// The model.
        model: usize,
    },
    /// `fully_shard` moves the model to the GPU, of each weight this rank's part.
    Shard {
        /// The model.
        model: usize,
    },
    /// `parallelize_module` moves this rank's part of linear layers to the GPU; the other weights follow.
    SplitLayers {
        /// The model.
        model: usize,
    },
    /// `deepspeed.initialize`: the engine moves the model to the GPU and spreads the optimizer.
    CreateEngine {
        /// The model.
        model: usize,
        /// The optimizer.
        optimizer: usize,
    },
    /// Whether backward passes from now on reduce gradients over the ranks.
    SetReduces {
        /// The model.
        model: usize,
        /// Whether they do.
        reduces: bool,
    },
    /// The inputs and targets of a pass are copied to the GPU and bound to their names.
    MoveInputs {
        /// The pass.
        pass: usize,
        /// How many micro-batches are moved as one batch, of which the pass takes a slice.
        micro_batches: u32,
    },
    /// Another pass of the same model takes the same inputs and targets.
    ShareInputs {
        /// The pass that has them.
        from: usize,
        /// The pass that takes them too.
        to: usize,
    },
    /// The constructor of an optimizer.
    CreateOptimizer {
        /// The optimizer.
        optimizer: usize,
    },
    /// Each weight of an optimizer gets a hook, by which the optimizer updates it in the backward pass and frees its gradient.
    HookOptimizer {
        /// The optimizer.
        optimizer: usize,
    },
    /// A step begins. Steps with equal actions may be simulated once.
    BeginStep,
    /// A micro-batch begins.
    BeginMicroBatch,
    /// The micro-batch ends.
    EndMicroBatch,
    /// `optimizer.zero_grad(set_to_none)`.
    ZeroGrad {
        /// The optimizer.
        optimizer: usize,
        /// Whether gradients are freed instead of filled with zeros.
        sets_to_none: bool,
    },
    /// Runs the model and the loss function, and binds `outputs` and `loss`.
    Forward {
        /// The pass.
        pass: usize,
        /// Whether the loss is divided by the number of micro-batches.
        divides_loss: bool,
    },
    /// `loss.backward()`, or `scaler.scale(loss).backward()`.
    Backward {
        /// The pass whose loss it is.
        pass: usize,
        /// The scaler.
        scaler: Option<usize>,
    },
    /// `del name`.
    Release {
        /// The pass that bound the name.
        pass: usize,
        /// The name.
        name: Name,
    },
    /// `scaler.unscale_(optimizer)`.
    Unscale {
        /// The scaler.
        scaler: usize,
        /// The optimizer.
        optimizer: usize,
    },
    /// `clip_grad_norm_` on the weights of a model.
    ClipGradients {
        /// The model.
        model: usize,
    },
    /// `optimizer.step()`, or `scaler.step(optimizer)`.
    Update {
        /// The optimizer.
        optimizer: usize,
        /// The scaler.
        scaler: Option<usize>,
    },
    /// `scaler.update()`.
    UpdateScaler {
        /// The scaler.
        scaler: usize,
    },
    /// `AveragedModel(model)`: a copy whose weights are moving averages.
    CreateAverage {
        /// The model.
        model: usize,
    },
    /// `averaged.update_parameters(model)`.
    UpdateAverage {
        /// The model.
        model: usize,
    },
    /// Everything that a recorded script did.
    RunRecorded {
        /// The pass that is the recording.
        pass: usize,
    },
    /// A phase of the report ends.
    EndPhase(Phase),
}

/// A name that each forward pass binds again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Name {
    /// `outputs`.
    Outputs,
    /// `loss`.
    Loss,
    /// What the model keeps on itself, such as a cache.
    Kept,
}

impl fmt::Display for Action {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scaled = |scaler: Option<usize>| scaler.map_or_else(String::new, |scaler| format!(" with scaler {scaler}"));
        match *self {
            Action::MoveModel { model } => write!(formatter, "move model {model}"),
            Action::Replicate { model } => write!(formatter, "replicate model {model}"),
            Action::Shard { model } => write!(formatter, "shard model {model}"),
            Action::SplitLayers { model } => write!(formatter, "split layers of model {model}"),
            Action::CreateEngine { model, optimizer } => {
                write!(formatter, "create engine of model {model} and optimizer {optimizer}")
            }
            Action::SetReduces { model, reduces: true } => write!(formatter, "reduce gradients of model {model}"),
            Action::SetReduces { model, .. } => write!(formatter, "do not reduce gradients of model {model}"),
            Action::MoveInputs { pass, micro_batches: 1 } => write!(formatter, "move inputs of pass {pass}"),
            Action::MoveInputs { pass, micro_batches } => {
                write!(formatter, "move inputs of {micro_batches} micro-batches of pass {pass}")
            }
            Action::ShareInputs { from, to } => write!(formatter, "share inputs of pass {from} with pass {to}"),
            Action::CreateOptimizer { optimizer } => write!(formatter, "create optimizer {optimizer}"),
            Action::HookOptimizer { optimizer } => write!(formatter, "hook optimizer {optimizer}"),
            Action::BeginStep => formatter.write_str("begin step"),
            Action::BeginMicroBatch => formatter.write_str("begin micro-batch"),
            Action::EndMicroBatch => formatter.write_str("end micro-batch"),
            Action::ZeroGrad { optimizer, sets_to_none: true } => {
                write!(formatter, "free gradients of optimizer {optimizer}")
            }
            Action::ZeroGrad { optimizer, .. } => write!(formatter, "zero gradients of optimizer {optimizer}"),
            Action::Forward { pass, divides_loss: true } => write!(formatter, "forward pass {pass}, loss divided"),
            Action::Forward { pass, .. } => write!(formatter, "forward pass {pass}"),
            Action::Backward { pass, scaler } => write!(formatter, "backward of pass {pass}{}", scaled(scaler)),
            Action::Release { pass, name } => {
                let name = match name {
                    Name::Outputs => "outputs",
                    Name::Loss => "loss",
                    Name::Kept => "kept tensors",
                };
                write!(formatter, "release {name} of pass {pass}")
            }
            Action::Unscale { scaler, optimizer } => {
                write!(formatter, "unscale optimizer {optimizer} with scaler {scaler}")
            }
            Action::ClipGradients { model } => write!(formatter, "clip gradients of model {model}"),
            Action::Update { optimizer, scaler } => {
                write!(formatter, "update by optimizer {optimizer}{}", scaled(scaler))
            }
            Action::UpdateScaler { scaler } => write!(formatter, "update scaler {scaler}"),
            Action::CreateAverage { model } => write!(formatter, "create average of model {model}"),
            Action::UpdateAverage { model } => write!(formatter, "update average of model {model}"),
            Action::RunRecorded { pass } => write!(formatter, "run recorded script {pass}"),
            Action::EndPhase(phase) => write!(formatter, "end of {}", phase.name()),
        }
    }
}
