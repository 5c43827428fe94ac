//! The settings of a training loop.

use std::sync::Arc;

use thiserror::Error;
use vramfit_cudnn::Scenario;
use vramfit_eager::autograd::{HostMemory, KeptResults};
use vramfit_eager::channels_last::{NoChannelsLast, to_channels_last};
use vramfit_eager::forward::{Choice, LossHead};
use vramfit_eager::tensor_parallel::SplitError;
use vramfit_graph::bind::Bound;

use super::Parallel;
use crate::optimizer::{Groups, Implementation, Kind, Recipe};

/// The most micro-batches that a step of a loop may have.
pub const MOST_MICRO_BATCHES: u32 = 10_000;

/// Where the script calls `optimizer.zero_grad()`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum ZeroGrad {
    /// Before the first forward pass of a step.
    #[default]
    BeforeForward,
    /// Between the first forward and backward pass of a step.
    BeforeBackward,
}

/// Where the optimizer's state is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum StatePlace {
    /// On the GPU.
    #[default]
    Gpu,
    /// In the CPU's memory, with copies of the weights and their gradients: the CPU computes the update.
    Cpu,
}

/// The loss that is added where the captured pass returns no scalar.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum AddedLoss {
    /// None: then there is no backward pass.
    #[default]
    None,
    /// `outputs.mean()` of the first floating-point output.
    Mean,
    /// `cross_entropy(outputs, classes)` of the first floating-point output, whose second dimension, or last in a
    /// sequence, is the classes. The target is one more tensor on the GPU.
    CrossEntropy,
}

/// What a training loop does. The captured variant decides whether it trains or evaluates and whether it uses a
/// `GradScaler`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Loop {
    /// How many steps.
    pub steps: u32,
    /// Whether the training goes on after these steps, so that the verdict and upper bounds cover later ones.
    pub goes_on: bool,
    /// The optimizer.
    pub optimizer: Recipe,
    /// The groups of weights that it updates; `None` for all weights as one.
    pub groups: Option<Groups>,
    /// Where its state is.
    pub optimizer_state: StatePlace,
    /// Whether each weight is updated in the backward pass, as soon as it has its gradient, which is freed then.
    pub steps_in_backward: bool,
    /// Whether `clip_grad_norm_` runs before the update.
    pub clips_gradients: bool,
    /// How many micro-batches a step has; never 0.
    pub accumulate: u32,
    /// How many more micro-batches a step has that are not simulated, because they request what the last one does.
    pub skipped_micro_batches: u32,
    /// Whether each micro-batch's loss is a sum over its samples, so that it is not divided by their number.
    pub adds_losses: bool,
    /// Where `zero_grad` is called.
    pub zero_grad: ZeroGrad,
    /// Whether `zero_grad` frees the gradients instead of filling them with zeros.
    pub sets_to_none: bool,
    /// Whether each micro-batch is copied to the GPU again.
    pub has_fresh_inputs: bool,
    /// Whether the whole batch stays on the GPU and micro-batches are slices of it.
    pub holds_whole_batch: bool,
    /// Whether the script deletes the model's outputs before each backward pass and the loss after it.
    pub releases_outputs: bool,
    /// What is checkpointed.
    pub checkpoint: Choice,
    /// The results that checkpointed modules keep.
    pub kept_results: KeptResults,
    /// The host memory that takes what autograd saves; `None` where that stays on the GPU.
    pub offload: Option<HostMemory>,
    /// How the loss of a language model is computed from its last hidden states.
    pub loss_head: LossHead,
    /// Names of weights and modules that are not trained, with `*` within a part.
    pub frozen: Arc<Vec<String>>,
    /// Whether an exponential moving average of the model is kept on the GPU.
    pub averages_weights: bool,
    /// The loss, where the captured pass returns none.
    pub loss: AddedLoss,
    /// What is assumed about operators without a rule and workspaces that were not recorded.
    pub scenario: Scenario,
    /// `torch.backends.cudnn.benchmark`.
    pub is_cudnn_benchmarked: bool,
    /// Whether images, and the weights that they meet, have their channels last in memory.
    pub has_channels_last: bool,
    /// How the training is spread over ranks.
    pub parallel: Parallel,
}

impl Default for Loop {
    fn default() -> Loop {
        Loop {
            steps: 3,
            goes_on: true,
            optimizer: Recipe::new(Kind::AdamW, Implementation::Default),
            groups: None,
            optimizer_state: StatePlace::Gpu,
            steps_in_backward: false,
            clips_gradients: false,
            accumulate: 1,
            skipped_micro_batches: 0,
            adds_losses: false,
            zero_grad: ZeroGrad::BeforeForward,
            sets_to_none: true,
            has_fresh_inputs: false,
            holds_whole_batch: false,
            releases_outputs: false,
            checkpoint: Choice::Nothing,
            kept_results: KeptResults::NONE,
            offload: None,
            loss_head: LossHead::Captured,
            frozen: Arc::default(),
            averages_weights: false,
            loss: AddedLoss::None,
            scenario: Scenario::Expected,
            is_cudnn_benchmarked: false,
            has_channels_last: false,
            parallel: Parallel::None,
        }
    }
}

/// A model cannot be laid out as the settings say.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum LayoutError {
    /// Its layers cannot be split.
    #[error(transparent)]
    Split(#[from] SplitError),
    /// Its channels cannot be last.
    #[error(transparent)]
    Channels(#[from] NoChannelsLast),
}

impl Loop {
    /// The loop with at most this many micro-batches; the others are skipped.
    #[must_use]
    pub fn shortened(&self, micro_batches: u32) -> Loop {
        let accumulate = self.accumulate.min(micro_batches);
        let skipped_micro_batches = self.skipped_micro_batches + self.accumulate - accumulate;
        Loop { accumulate, skipped_micro_batches, ..self.clone() }
    }

    /// Gives the tensors of a model the sizes and strides that they have in this training.
    ///
    /// # Errors
    /// The model cannot be laid out so.
    pub fn lay_out(&self, bound: &mut Bound<'_>) -> Result<(), LayoutError> {
        if self.has_channels_last {
            to_channels_last(bound)?;
        }
        Ok(self.parallel.resize(bound)?)
    }
}
