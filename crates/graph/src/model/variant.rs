//! One recording of a step: its precision, its mode and what it left alive.

use std::fmt;

use super::function::RecordedBackward;
use super::symbol::SymbolRange;
use super::tensor::TensorId;
use crate::dtype::Dtype;

/// The precision of a variant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Precision {
    /// As the module was built.
    AsBuilt,
    /// The whole model cast.
    Cast(Dtype),
    /// Single-precision weights under autocast.
    Autocast(Dtype),
}

/// The mode of a variant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Mode {
    /// `model.train()`.
    Train,
    /// `model.eval()` under `no_grad`.
    Eval,
    /// `model.eval()` with gradients.
    EvalGrad,
}

/// What a recording assumes where the model's way depends on values that the recorder does not have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Assumed {
    /// What is expected.
    #[default]
    Expected,
    /// As little as possible is chosen: masks without an element, random numbers that skip what may be skipped.
    Least,
    /// As much as possible is chosen, and every choice is the same one.
    Most,
}

/// The sizes at which a model makes the calls of a variant; at others it makes those of another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Reach {
    /// The index of the symbol that decides.
    pub symbol: usize,
    /// Its values.
    pub range: SymbolRange,
}

/// A step in one precision and mode.
#[derive(Clone, Debug, PartialEq)]
pub struct Variant {
    /// Its precision.
    pub precision: Precision,
    /// Its mode.
    pub mode: Mode,
    /// What it assumes. The variant with [`Assumed::Expected`] comes before the others of its precision and mode.
    pub assumed: Assumed,
    /// The sizes it is for; `None` is all. Those of one precision and mode together are for all sizes.
    pub reach: Option<Reach>,
    /// Whether gradients are on at the start.
    pub has_grad: bool,
    /// Index into [`Model::types`](super::Model::types).
    pub types: usize,
    /// Index into [`Model::tensors`](super::Model::tensors).
    pub tensors: usize,
    /// Index into [`Model::steps`](super::Model::steps).
    pub steps: usize,
    /// Tensors that exist before the step but are neither weights nor inputs.
    pub constants: Vec<TensorId>,
    /// The tensors the model returned, in order, each once.
    pub outputs: Vec<TensorId>,
    /// The Python expression that leads from the returned value to each output: nothing, `.loss`, `[0]`, `["out"]`. Empty
    /// where the file does not have them.
    pub paths: Vec<String>,
    /// The outputs in the order in which Python drops them: lists from their end.
    pub released: Vec<TensorId>,
    /// The scalar that backward starts from.
    pub loss: Option<TensorId>,
    /// Every tensor that was alive when the step ended.
    pub held: Vec<TensorId>,
    /// Tensors that Python may hold longer than the steps say, sorted by [`Late::until`]. Empty where frees were recorded.
    pub late: Vec<Late>,
    /// The backwards of custom autograd functions, as far as they were recorded.
    pub functions: Vec<RecordedBackward>,
    /// Why an estimate from it cannot be called exact; empty where it can.
    pub causes: Vec<String>,
}

/// A tensor that Python may hold longer than the steps say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Late {
    /// The tensor.
    pub tensor: TensorId,
    /// The step before which it is freed at the latest.
    pub until: usize,
}

/// As a capture names it: `as-built`, `fp32`, `amp-bf16`.
impl fmt::Display for Precision {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Precision::AsBuilt => formatter.write_str("as-built"),
            Precision::Cast(dtype) => formatter.write_str(dtype.short_name()),
            Precision::Autocast(dtype) => write!(formatter, "amp-{}", dtype.short_name()),
        }
    }
}

impl Variant {
    /// Whether both record the same precision and mode.
    pub fn is_of_same_training(&self, other: &Variant) -> bool {
        (self.precision, self.mode) == (other.precision, other.mode)
    }

    /// Whether it is for these sizes.
    pub fn reaches(&self, sizes: &[i64]) -> bool {
        self.reach.is_none_or(|reach| sizes.get(reach.symbol).is_some_and(|size| reach.range.contains(*size)))
    }
}

/// As a capture names it: `train`, `eval`, `eval-grad`.
impl fmt::Display for Mode {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Mode::Train => "train",
            Mode::Eval => "eval",
            Mode::EvalGrad => "eval-grad",
        })
    }
}
