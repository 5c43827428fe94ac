//! What `Plan.apply` of the Python package needs to change a live model.

use serde::Serialize;

use crate::loss::Loss;

/// A loss that is computed from the last hidden states, without whole logits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ReplacedLoss {
    /// The module that computes the logits.
    pub head: String,
    /// The number of checkpointed chunks; `None` for the fused function of liger-kernel.
    pub chunks: Option<u32>,
}

/// What a program needs to do to a model what the printed code does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Parts {
    /// The modules that are checkpointed.
    pub checkpointed: Vec<String>,
    /// Whether these are all blocks of a model of the transformers library: `gradient_checkpointing_enable` checkpoints them
    /// and turns the cache of keys and values off.
    pub is_every_block: bool,
    /// The segments of `checkpoint_sequential`.
    pub segments: Option<u32>,
    /// The operators of `torch.ops.aten` whose results checkpointed modules keep, such as `mm.default`.
    pub kept_operators: Vec<String>,
    /// How the loss of a language model is computed, where not by the model.
    pub replaced_loss: Option<ReplacedLoss>,
    /// The activation modules that get `inplace=True`.
    pub in_place: Vec<String>,
    /// The element type that the whole model is cast to.
    pub dtype: Option<&'static str>,
    /// The element type of autocast.
    pub amp: Option<&'static str>,
    /// Where the loss comes from.
    pub loss: Loss,
    /// Whether the losses of micro-batches are added as they are: each is a sum over its samples.
    pub adds_losses: bool,
}

impl Parts {
    /// The parts of a training without any trick.
    pub(crate) fn new(loss: Loss) -> Parts {
        Parts {
            checkpointed: Vec::new(),
            is_every_block: false,
            segments: None,
            kept_operators: Vec::new(),
            replaced_loss: None,
            in_place: Vec::new(),
            dtype: None,
            amp: None,
            loss,
            adds_losses: false,
        }
    }
}
