//! What the loop does, and on which GPU.

use super::loss::AddedLoss;
use crate::optimizer::{Implementation, Kind, Recipe};
use vramfit_cudnn::Scenario;
use vramfit_eager::forward::Choice;

/// Where `optimizer.zero_grad()` stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum ZeroGrad {
    /// Before the first forward pass of a step.
    #[default]
    BeforeForward,
    /// Between the first forward and backward pass of a step.
    BeforeBackward,
}

/// What the loop does. Whether it trains or evaluates, and whether a GradScaler is used, the captured variant says.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Loop {
    /// How many steps.
    pub steps: u32,
    /// The optimizer.
    pub optimizer: Recipe,
    /// Whether `clip_grad_norm_` comes before the step.
    pub clips_gradients: bool,
    /// How many micro-batches a step has; never 0.
    pub accumulate: u32,
    /// Where gradients are let go of.
    pub zero_grad: ZeroGrad,
    /// Whether they go or become zeros.
    pub sets_to_none: bool,
    /// Whether each micro-batch is copied to the GPU anew.
    pub has_fresh_inputs: bool,
    /// Whether the script lets go of the model's outputs before each backward pass and of the loss after it.
    pub lets_go: bool,
    /// What is checkpointed.
    pub checkpoint: Choice,
    /// The loss, where the captured step returns none.
    pub loss: AddedLoss,
    /// What operators without a rule are taken to need, and workspaces that nobody recorded.
    pub scenario: Scenario,
    /// `torch.backends.cudnn.benchmark`.
    pub is_cudnn_benchmarked: bool,
}

impl Default for Loop {
    fn default() -> Loop {
        Loop {
            steps: 3,
            optimizer: Recipe::new(Kind::AdamW, Implementation::Default),
            clips_gradients: false,
            accumulate: 1,
            zero_grad: ZeroGrad::BeforeForward,
            sets_to_none: true,
            has_fresh_inputs: false,
            lets_go: false,
            checkpoint: Choice::Nothing,
            loss: AddedLoss::None,
            scenario: Scenario::Expected,
            is_cudnn_benchmarked: false,
        }
    }
}
