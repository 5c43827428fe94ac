//! What a training script does to GPU memory: a list of actions on models, optimizers and gradient scalers.
//!
//! A script is plain data. [`training_loop`] makes one from the settings of a loop; a recorded script, or one rank of a
//! distributed training, is another list of the same actions.

mod action;
mod optimizers;
mod ranks;
mod settings;
mod training_loop;
mod varied_loop;

pub use action::{Action, Name};
pub use optimizers::is_hidden;
pub(crate) use optimizers::not_simulated;
pub use ranks::{
    AfterForward, DeepSpeed, Gathering, Parallel, Replicated, Reshard, Sharded, TensorParallel, ZeroStage,
};
pub use settings::{AddedLoss, LayoutError, Loop, MOST_MICRO_BATCHES, StatePlace, ZeroGrad};
pub use training_loop::training_loop;
pub(crate) use varied_loop::{loop_with_one_cache, varied_loop};

use std::sync::Arc;

use vramfit_eager::autograd::{HostMemory, KeptResults, Plans};
use vramfit_eager::forward::{Choice, LossHead};
use vramfit_graph::bind::Bound;

use crate::optimizer::{Group, Recipe};
use crate::report::Phase;

/// The actions of a script and the objects they refer to by index.
#[derive(Clone, Debug)]
pub struct Script<'m> {
    /// How many models there are.
    pub models: usize,
    /// The captured passes that the script runs.
    pub passes: Vec<Pass<'m>>,
    /// The optimizers.
    pub optimizers: Vec<OptimizerSetup>,
    /// How many `GradScaler`s there are.
    pub scalers: usize,
    /// How convolutions choose their cuDNN plans, and what is assumed where a rule or a workspace is unknown.
    pub plans: Plans,
    /// What the script does, in order.
    pub actions: Vec<Action>,
}

/// A captured pass: one model in one precision and mode, at given sizes. Several passes may share a model's weights, such
/// as training and evaluation.
#[derive(Clone, Debug)]
pub struct Pass<'m> {
    /// The model it belongs to.
    pub model: usize,
    /// Its calls.
    pub bound: &'m Bound<'m>,
    /// What is checkpointed.
    pub checkpoint: Choice,
    /// The results that checkpointed modules keep.
    pub kept_results: KeptResults,
    /// The host memory that takes what autograd saves.
    pub offload: Option<HostMemory>,
    /// How the loss of a language model is computed from its last hidden states.
    pub loss_head: LossHead,
    /// Names of weights and modules that are not trained.
    pub frozen: Arc<Vec<String>>,
    /// The loss, where the captured pass returns none.
    pub loss: AddedLoss,
    /// How its model is spread over ranks.
    pub parallel: Parallel,
}

/// An optimizer over weights of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OptimizerSetup {
    /// Which optimizer.
    pub recipe: Recipe,
    /// The model whose weights it updates.
    pub model: usize,
    /// Which weights, in its order; `None` for all as one group.
    pub groups: Option<Vec<Group>>,
    /// Where its state is; on the CPU it allocates nothing on the GPU.
    pub place: StatePlace,
    /// Whether its `zero_grad` is for all weights of the model, not only for those that it updates.
    pub zeroes_all: bool,
}

impl OptimizerSetup {
    /// Over all weights of a model.
    pub fn of_all(recipe: Recipe, model: usize) -> OptimizerSetup {
        OptimizerSetup { recipe, model, groups: None, place: StatePlace::Gpu, zeroes_all: false }
    }
}

impl Script<'_> {
    /// The actions before the first step, and those of each step.
    pub(crate) fn sections(&self) -> (&[Action], Vec<&[Action]>) {
        let mut starts: Vec<usize> = self.positions(Action::BeginStep).collect();
        let setup = starts.first().copied().unwrap_or(self.actions.len());
        starts.push(self.actions.len());
        let steps = starts.windows(2).map(|bounds| &self.actions[bounds[0]..bounds[1]]).collect();
        (&self.actions[..setup], steps)
    }

    /// The actions up to the end of the first phase of these kinds; all actions where there is none.
    pub(crate) fn until(&self, phases: &[Phase]) -> &[Action] {
        let is_end = |action: &Action| matches!(action, Action::EndPhase(phase) if phases.contains(phase));
        let end = self.actions.iter().position(is_end).map_or(self.actions.len(), |end| end + 1);
        &self.actions[..end]
    }

    /// Whether the inputs of a pass are copied to the GPU within a step, not only before the first.
    pub(crate) fn has_fresh_inputs(&self, pass: usize) -> bool {
        let first_step = self.positions(Action::BeginStep).next().unwrap_or(self.actions.len());
        let moves = |action: &Action| matches!(action, Action::MoveInputs { pass: moved, .. } if *moved == pass);
        self.actions[first_step..].iter().any(moves)
    }

    fn positions(&self, wanted: Action) -> impl Iterator<Item = usize> {
        self.actions.iter().enumerate().filter(move |(_, action)| **action == wanted).map(|(index, _)| index)
    }
}
