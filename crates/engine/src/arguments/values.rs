//! Values of the flags of a training.

use clap::ValueEnum;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use vramfit_eager::autograd::{HostMemory, KeptResults, ResultKind};
use vramfit_eager::forward::Choice;
use vramfit_graph::dtype::Dtype;
use vramfit_plan::tricks::parse_kept;
use vramfit_training::optimizer::{Implementation, Kind};

/// How long the script holds the model's outputs and the loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OutputLifetime {
    /// Until the next iteration rebinds their names.
    Held,
    /// Outputs until the backward pass, the loss until its end.
    Released,
}

/// Where the inputs of a step come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum InputLocation {
    /// They stay on the GPU.
    Kept,
    /// Copied to the GPU in each step, as from a data loader.
    Fresh,
    /// The whole batch stays on the GPU; micro-batches are slices of it.
    Whole,
}

/// An element type for the whole model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ModelDtype {
    /// float32.
    #[value(alias = "float32")]
    Fp32,
    /// bfloat16.
    #[value(alias = "bfloat16")]
    Bf16,
    /// float16.
    #[value(alias = "float16")]
    Fp16,
    /// float64.
    #[value(alias = "float64")]
    Fp64,
}

/// An element type for autocast.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum AutocastDtype {
    /// bfloat16.
    #[value(alias = "bfloat16")]
    Bf16,
    /// float16, with a GradScaler.
    #[value(alias = "float16")]
    Fp16,
}

/// Where zero_grad is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ZeroGradPosition {
    /// Before the forward pass.
    BeforeForward,
    /// Between the forward and backward pass, as in many older scripts.
    BeforeBackward,
}

/// Where the optimizer's state is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum StateLocation {
    /// On the GPU.
    Gpu,
    /// In the CPU's memory.
    Cpu,
}

/// Training or evaluation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ModeKind {
    /// model.train().
    Train,
    /// model.eval() under no_grad.
    Eval,
}

/// A loss to add.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LossKind {
    /// cross_entropy of the first output.
    CrossEntropy,
    /// The first output's mean.
    Mean,
    /// None: no backward pass.
    None,
}

/// Where what autograd saves is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OffloadTarget {
    /// On the GPU.
    None,
    /// In pinned host memory.
    Pinned,
    /// In pageable host memory.
    Pageable,
}

/// A fused linear layer and loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FusedLoss {
    /// liger-kernel's.
    Liger,
}

/// The value of `--checkpoint-save`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeptResultsChoice(pub KeptResults);

/// Parses `--checkpoint-save`.
pub fn parse_kept_results(text: &str) -> Result<KeptResultsChoice, String> {
    if text == "none" {
        return Ok(KeptResultsChoice(KeptResults::NONE));
    }
    let kind = |name: &str| {
        let known = ResultKind::NAMES.into_iter().find(|(_, known)| *known == name.trim());
        known.map(|(kind, _)| kind).ok_or_else(|| {
            let names = ResultKind::NAMES.map(|(_, name)| name).join(", ");
            format!("found `{name}`, needed none, or one or more of {names}")
        })
    };
    let kinds = text.split(',').map(kind).collect::<Result<Vec<_>, String>>()?;
    Ok(KeptResultsChoice(KeptResults::of(&kinds)))
}

impl OffloadTarget {
    /// The host memory; `None` for the GPU.
    pub fn memory(self) -> Option<HostMemory> {
        match self {
            OffloadTarget::None => None,
            OffloadTarget::Pinned => Some(HostMemory::Pinned),
            OffloadTarget::Pageable => Some(HostMemory::Pageable),
        }
    }
}

/// The value of `--optimizer`.
#[derive(Clone, Copy, Debug)]
pub struct OptimizerName(pub Kind);

/// The value of `--optimizer-impl`.
#[derive(Clone, Copy, Debug)]
pub struct ImplementationName(pub Implementation);

/// The value of `--checkpoint`.
#[derive(Clone, Debug)]
pub struct CheckpointChoice(pub Choice);

/// Parses `--optimizer`.
pub fn optimizers() -> impl TypedValueParser<Value = OptimizerName> {
    // With `ignore_case` a name may be written as torch.optim's class is; what is typed comes as it is.
    PossibleValuesParser::new(Kind::NAMES.map(|(name, _)| name))
        .try_map(|name| Kind::named(&name.to_ascii_lowercase()).map(OptimizerName).ok_or("no such optimizer"))
}

/// Parses `--optimizer-impl`.
pub fn implementations() -> impl TypedValueParser<Value = ImplementationName> {
    PossibleValuesParser::new(Implementation::NAMES.map(|(name, _)| name))
        .try_map(|name| Implementation::named(&name).map(ImplementationName).ok_or("no such implementation"))
}

/// The value of `--margin`: a share of the capacity.
#[derive(Clone, Copy, Debug)]
pub struct Margin(pub f64);

/// Parses `--margin`: `0.02` or `2%`.
pub fn parse_margin(text: &str) -> Result<Margin, String> {
    let share = match text.strip_suffix('%') {
        Some(percent) => percent.trim().parse().map(|percent: f64| percent / 100.0),
        None => text.parse(),
    };
    match share {
        Ok(share) if (0.0..1.0).contains(&share) => Ok(Margin(share)),
        _ => Err(format!("found `{text}`, needed a share of at least 0 and below 1, such as 0.02 or 2%")),
    }
}

/// A way to quantise weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum QuantizeScheme {
    /// Four bits of bitsandbytes ("QLoRA").
    Nf4,
    /// Eight bits of bitsandbytes ("LLM.int8()").
    Int8,
}

/// Parses the rank of `--lora`.
pub fn parse_rank(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(rank) if (1..=65_536).contains(&rank) => Ok(rank),
        Ok(0) => Err("found rank 0, needed at least 1: an adapter of rank 0 has no weights".to_owned()),
        _ => Err(format!(
            "found `{text}`, needed a rank such as 16; write the model before --lora, or the rank as --lora=16"
        )),
    }
}

/// The value of `--lora-dropout`, in parts of a million.
#[derive(Clone, Copy, Debug)]
pub struct Chance(pub u32);

/// Parses `--lora-dropout`.
pub fn parse_chance(text: &str) -> Result<Chance, String> {
    match text.parse::<f64>() {
        Ok(chance) if (0.0..1.0).contains(&chance) => Ok(Chance((chance * 1e6).round() as u32)),
        _ => Err(format!("found `{text}`, needed a number of at least 0 and below 1, such as 0.05")),
    }
}

/// The value of `--keep`.
#[derive(Clone, Debug, Default)]
pub struct Kept(pub Vec<&'static str>);

/// Parses `--keep`.
pub fn parse_keep(text: &str) -> Result<Kept, String> {
    parse_kept(text).map(Kept).map_err(|error| error.to_string())
}

/// Parses `--checkpoint`.
pub fn parse_checkpoint(text: &str) -> Result<CheckpointChoice, String> {
    let choice = match (text, text.strip_prefix("sequential:")) {
        ("none", _) => Choice::Nothing,
        ("blocks", _) => Choice::Blocks,
        (_, Some(number)) => match number.parse() {
            Ok(segments) if segments > 0 => Choice::Sequential(segments),
            _ => return Err(format!("found `{number}` segments, needed a whole number of at least 1")),
        },
        (names, None) => Choice::modules(names.split(',').map(str::to_owned).collect()),
    };
    Ok(CheckpointChoice(choice))
}

impl From<ModelDtype> for Dtype {
    fn from(precision: ModelDtype) -> Dtype {
        match precision {
            ModelDtype::Fp32 => Dtype::Float32,
            ModelDtype::Bf16 => Dtype::Bfloat16,
            ModelDtype::Fp16 => Dtype::Float16,
            ModelDtype::Fp64 => Dtype::Float64,
        }
    }
}

impl From<AutocastDtype> for Dtype {
    fn from(precision: AutocastDtype) -> Dtype {
        match precision {
            AutocastDtype::Bf16 => Dtype::Bfloat16,
            AutocastDtype::Fp16 => Dtype::Float16,
        }
    }
}
