//! A model as other code would run it.
//!
//! [`fine_tuned`] makes another model from a captured one as fine-tuning on small GPUs changes it: its weights frozen, low-rank adapters of
//! peft beside its linear layers, their weights quantised by bitsandbytes; call by call what peft 0.21 and bitsandbytes 0.50 run. Captures of
//! real adapted models are compared with it. [`with_fused_attention`] replaces attention that a model writes itself.

mod adapter;
mod fused_attention;
mod layers;
mod numbering;
mod quantized;
mod section;
mod targets;
mod writer;

use vramfit_graph::dtype::Dtype;
use vramfit_graph::model::{FineTuned, Model, Precision};

pub use fused_attention::{AttentionPlace, FusedAttention, PlaceMask, with_fused_attention};
pub use layers::TURNED;
pub use targets::Targets;

/// How a model is fine-tuned.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct FineTuning {
    /// The adapters.
    pub lora: Option<Lora>,
    /// How the weights of linear layers are quantised.
    pub quantize: Option<Quantize>,
}

impl FineTuning {
    /// Whether it changes anything.
    pub fn is_any(&self) -> bool {
        self.lora.is_some() || self.quantize.is_some()
    }

    /// As the flags say it, over what was done to the model before.
    fn in_words(&self, before: &FineTuned) -> FineTuned {
        let lora = self.lora.as_ref();
        let targets = lora.map(|lora| match &lora.targets {
            Targets::Default => String::new(),
            Targets::AllLinear => "all-linear".to_owned(),
            Targets::Named(names) => names.join(","),
        });
        let (quantize, compute) = match self.quantize {
            Some(Quantize::Nf4 { compute }) => ("nf4", compute.short_name()),
            Some(Quantize::Int8) => ("int8", ""),
            None => ("", ""),
        };
        FineTuned {
            lora: lora.map_or_else(String::new, |lora| lora.rank.to_string()),
            lora_targets: targets.unwrap_or_default(),
            lora_dropout: lora.map_or(0, |lora| lora.dropout),
            quantize: quantize.to_owned(),
            quantize_compute: compute.to_owned(),
            ..before.clone()
        }
    }
}

/// Low-rank adapters, as `peft.LoraConfig` has them. They are kept in single precision, as peft does by default.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Lora {
    /// The rank; never 0.
    pub rank: u32,
    /// Which layers get adapters.
    pub targets: Targets,
    /// The chance of dropping an input of an adapter, in parts of a million.
    pub dropout: u32,
}

impl Lora {
    /// The rank that peft takes where none is given.
    pub const DEFAULT_RANK: u32 = 8;
}

/// How the weights of linear layers are quantised, GPT-2's `Conv1D` too; the last layer, which makes the output, stays as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Quantize {
    /// bitsandbytes' NF4 with double quantisation, which computes in this type.
    Nf4 {
        /// The type of the products.
        compute: Dtype,
    },
    /// bitsandbytes' `LLM.int8()`.
    Int8,
}

/// Why a model cannot be fine-tuned so.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The rank is 0.
    #[error("--lora 0: an adapter of rank 0 has no weights; the least is 1")]
    NoRank,
    /// A name that no linear layer has.
    #[error("--lora-targets {wanted}: no linear layer of the model has this name; it has {present}")]
    UnknownTarget {
        /// The name.
        wanted: String,
        /// Names that would match.
        present: String,
    },
    /// peft has no default for this model.
    #[error("--lora: peft has no default targets for {class}; name some with --lora-targets, such as all-linear")]
    NoDefaultTargets {
        /// The class of the model.
        class: String,
    },
    /// peft's `all-linear` leaves out the output embedding, and there is nothing else.
    #[error(
        "--lora-targets all-linear: the only linear layer of {class} is its output embedding `{output}`, which peft leaves out; \
         name it with --lora-targets to adapt it"
    )]
    OnlyOutput {
        /// The class of the model.
        class: String,
        /// The layer.
        output: String,
    },
    /// There is no attention to replace.
    #[error(
        "--fused-attention: found no attention that the model computes by products of matrices and a softmax over their last dimension"
    )]
    NoWrittenAttention,
    /// There is nothing to adapt or to quantise.
    #[error("{flag}: {class} has no linear layers that could be {what}")]
    NoLinearLayers {
        /// The flag.
        flag: &'static str,
        /// The class of the model.
        class: String,
        /// What is done with them.
        what: &'static str,
    },
    /// The model is quantised or adapted already.
    #[error("{flag}: the model has {what} already; a captured module needs no flag")]
    Already {
        /// The flag.
        flag: &'static str,
        /// What it has.
        what: &'static str,
    },
    /// What runs under autocast in other types than the capture has.
    #[error(
        "--quantize with --amp: under autocast quantised layers return other types; capture the quantised module for that"
    )]
    QuantizedUnderAutocast,
}

/// The layer that makes a model's output: the last linear one that it calls.
pub fn output_layer(model: &Model) -> Option<&str> {
    layers::output(model)
}

/// The model as it is fine-tuned.
///
/// # Errors
/// There is nothing to fine-tune, or a target that the model does not have.
pub fn fine_tuned(model: &Model, how: &FineTuning) -> Result<Model, Refusal> {
    if how.lora.as_ref().is_some_and(|lora| lora.rank == 0) {
        return Err(Refusal::NoRank);
    }
    let layers = layers::of(model, how)?;
    let mut made = numbering::numbered(model, &layers, how);
    section::rewrite(model, &mut made, &layers, how);
    if how.quantize.is_some() {
        // Under autocast a quantised layer returns the type of its input: what follows was captured in another.
        made.model.variants.retain(|variant| !matches!(variant.precision, Precision::Autocast(_)));
    }
    made.model.fine_tuning = how.in_words(&made.model.fine_tuning);
    Ok(made.model)
}
