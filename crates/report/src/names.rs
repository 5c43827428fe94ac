//! Words that JSON uses for what the engine has as types. They are part of the contract.

use std::fmt;

use serde::Serialize;
use vramfit_eager::memory::Category;
use vramfit_plan::{Risk, TrainingEffect};
use vramfit_training::Phase;
use vramfit_training::answer::{Cause, Counted, Verdict};

/// Whether it fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub(crate) enum VerdictName {
    /// Every simulation fits.
    Fits,
    /// The capacity is inside the range of what is needed.
    TooClose,
    /// Every simulation runs out of memory.
    DoesNotFit,
}

impl From<Verdict> for VerdictName {
    fn from(verdict: Verdict) -> VerdictName {
        match verdict {
            Verdict::Fits => VerdictName::Fits,
            Verdict::TooClose => VerdictName::TooClose,
            Verdict::DoesNotFit => VerdictName::DoesNotFit,
        }
    }
}

/// A part of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub(crate) enum PhaseName {
    /// The model and the inputs are moved to the GPU; the optimizer's constructor.
    Build,
    /// The forward pass and the loss.
    Forward,
    /// The backward pass.
    Backward,
    /// The optimizer's step.
    Step,
    /// A forward pass in evaluation.
    Eval,
}

impl PhaseName {
    /// The word in JSON and text.
    pub fn name(self) -> &'static str {
        match self {
            PhaseName::Build => "build",
            PhaseName::Forward => "forward",
            PhaseName::Backward => "backward",
            PhaseName::Step => "step",
            PhaseName::Eval => "eval",
        }
    }

    /// The word beside a step's number, where "step" alone would be misread.
    pub fn beside_step(self) -> &'static str {
        if self == PhaseName::Step { "optimizer" } else { self.name() }
    }
}

impl From<Phase> for PhaseName {
    fn from(phase: Phase) -> PhaseName {
        match phase {
            Phase::Build => PhaseName::Build,
            Phase::Forward => PhaseName::Forward,
            Phase::Backward => PhaseName::Backward,
            Phase::Step => PhaseName::Step,
            Phase::Eval => PhaseName::Eval,
        }
    }
}

/// What memory is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum CategoryName {
    /// Weights and buffers.
    Parameters,
    /// Their gradients.
    Gradients,
    /// The optimizer's state.
    Optimizer,
    /// What is kept for the backward pass.
    Activations,
    /// The model's inputs and targets.
    Inputs,
    /// What the model returns, and the loss.
    Outputs,
    /// What an operator or the optimizer uses for a moment.
    Temporary,
    /// Workspaces of cuBLAS and cuDNN.
    Workspace,
    /// Buffers that ranks send and receive.
    Communication,
}

impl CategoryName {
    /// All of them, in the order of JSON.
    pub const ALL: [CategoryName; Category::COUNT] = [
        CategoryName::Parameters,
        CategoryName::Gradients,
        CategoryName::Optimizer,
        CategoryName::Activations,
        CategoryName::Inputs,
        CategoryName::Outputs,
        CategoryName::Temporary,
        CategoryName::Workspace,
        CategoryName::Communication,
    ];

    /// The word in JSON and text.
    pub fn name(self) -> &'static str {
        match self {
            CategoryName::Parameters => "parameters",
            CategoryName::Gradients => "gradients",
            CategoryName::Optimizer => "optimizer",
            CategoryName::Activations => "activations",
            CategoryName::Inputs => "inputs",
            CategoryName::Outputs => "outputs",
            CategoryName::Temporary => "temporary",
            CategoryName::Workspace => "workspace",
            CategoryName::Communication => "communication",
        }
    }

    /// Its index in [`CategoryName::ALL`].
    pub(crate) fn index(self) -> usize {
        self as usize
    }
}

impl From<Category> for CategoryName {
    fn from(category: Category) -> CategoryName {
        match category {
            Category::Parameters => CategoryName::Parameters,
            Category::Gradients => CategoryName::Gradients,
            Category::Optimizer => CategoryName::Optimizer,
            Category::Activations => CategoryName::Activations,
            Category::Inputs => CategoryName::Inputs,
            Category::Outputs => CategoryName::Outputs,
            Category::Temporary => CategoryName::Temporary,
            Category::Workspace => CategoryName::Workspace,
            Category::Communication => CategoryName::Communication,
        }
    }
}

/// What the changes of a plan risk: the groups of plans, in the order in which to try them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub(crate) enum GroupName {
    /// The same results up to the order of summation.
    None,
    /// Autocast.
    MixedPrecision,
    /// Another optimizer, or fewer weights that are trained.
    WeightState,
    /// The whole model in a smaller element type.
    SmallerDtype,
    /// A smaller batch, sequence, image or model, or micro-batches where samples of a batch depend on each other.
    SmallerTraining,
}

impl From<Risk> for GroupName {
    fn from(risk: Risk) -> GroupName {
        match risk {
            Risk::None => GroupName::None,
            Risk::MixedPrecision => GroupName::MixedPrecision,
            Risk::WeightState => GroupName::WeightState,
            Risk::SmallerDtype => GroupName::SmallerDtype,
            Risk::SmallerTraining => GroupName::SmallerTraining,
        }
    }
}

/// What a change does to the training.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub(crate) enum EffectName {
    /// The same numbers, but for the order in which they are added up.
    None,
    /// The same training in another precision.
    Rounding,
    /// Another training.
    Training,
}

impl From<TrainingEffect> for EffectName {
    fn from(effect: TrainingEffect) -> EffectName {
        match effect {
            TrainingEffect::None => EffectName::None,
            TrainingEffect::Rounding => EffectName::Rounding,
            TrainingEffect::Training => EffectName::Training,
        }
    }
}

/// What makes the ends of a range differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) enum CauseName {
    /// Operators without a memory rule.
    #[serde(rename = "what is not modelled")]
    Unmodelled,
    /// cuDNN workspaces that were guessed from similar recordings.
    #[serde(rename = "guessed workspaces")]
    Guessed,
    /// `torch.backends.cudnn.benchmark` picks one of several plans.
    #[serde(rename = "cuDNN's choice")]
    CudnnBenchmark,
    /// The model's file does not record when Python frees some tensors.
    #[serde(rename = "when Python frees tensors")]
    PythonLifetimes,
    /// Addresses that the CUDA driver chooses break ties between cached blocks.
    #[serde(rename = "the order of addresses")]
    AddressOrder,
    /// Steps after the reported ones need more.
    #[serde(rename = "later steps")]
    LaterSteps,
    /// Something else that the model's file does not record.
    #[serde(rename = "what the model's file does not record")]
    ModelFile,
    /// The rules were measured with another PyTorch.
    #[serde(rename = "a PyTorch that was not measured")]
    Torch,
    /// A rank of several was measured with a process group that only copies.
    #[serde(rename = "GPUs that were not measured together")]
    Ranks,
    /// Context or workspaces were not measured on this GPU.
    #[serde(rename = "a GPU that was not measured")]
    Gpu,
}

impl CauseName {
    /// The words in JSON and text.
    pub fn name(self) -> &'static str {
        match self {
            CauseName::Unmodelled => "what is not modelled",
            CauseName::Guessed => "guessed workspaces",
            CauseName::CudnnBenchmark => "cuDNN's choice",
            CauseName::PythonLifetimes => "when Python frees tensors",
            CauseName::AddressOrder => "the order of addresses",
            CauseName::LaterSteps => "later steps",
            CauseName::ModelFile => "what the model's file does not record",
            CauseName::Torch => "a PyTorch that was not measured",
            CauseName::Ranks => "GPUs that were not measured together",
            CauseName::Gpu => "a GPU that was not measured",
        }
    }
}

impl From<&Cause> for CauseName {
    fn from(cause: &Cause) -> CauseName {
        match cause {
            Cause::UnmodelledOperators(_) | Cause::Training(_) => CauseName::Unmodelled,
            Cause::GuessedWorkspaces(_) => CauseName::Guessed,
            Cause::CudnnBenchmark(_) => CauseName::CudnnBenchmark,
            Cause::PythonLifetimes => CauseName::PythonLifetimes,
            Cause::AddressOrder => CauseName::AddressOrder,
            Cause::LaterSteps { .. } => CauseName::LaterSteps,
            Cause::ModelFile(_) => CauseName::ModelFile,
            Cause::TorchNotMeasured { .. } => CauseName::Torch,
            Cause::RanksNotMeasured => CauseName::Ranks,
            Cause::GpuNotMeasured | Cause::CudnnNotMeasured | Cause::CudnnAsked | Cause::CudnnTabulated { .. } => {
                CauseName::Gpu
            }
        }
    }
}

/// A name with how often it occurs, in JSON as one string: `aten.foo.default ×3`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(into = "String")]
pub(crate) struct CountedName {
    /// An operator, or a kind of workspace.
    pub name: String,
    count: usize,
}

impl CountedName {
    /// `name`, so many times.
    pub fn new(name: &str, count: usize) -> CountedName {
        CountedName { name: name.to_owned(), count }
    }
}

impl From<&Counted> for CountedName {
    fn from(Counted { name, count }: &Counted) -> CountedName {
        CountedName::new(name, *count)
    }
}

impl From<CountedName> for String {
    fn from(counted: CountedName) -> String {
        counted.to_string()
    }
}

impl fmt::Display for CountedName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} ×{}", self.name, self.count)
    }
}

/// All of them, with commas between.
pub(crate) fn joined(all: &[CountedName]) -> String {
    all.iter().map(CountedName::to_string).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(word: impl Serialize) -> serde_json::Value {
        serde_json::to_value(word).expect("a word can be written")
    }

    #[test]
    fn the_words_of_text_are_those_of_json() {
        for category in CategoryName::ALL {
            assert_eq!(json(category), category.name());
            assert_eq!(CategoryName::ALL[category.index()], category);
        }
        for phase in [PhaseName::Build, PhaseName::Forward, PhaseName::Backward, PhaseName::Step, PhaseName::Eval] {
            assert_eq!(json(phase), phase.name());
        }
        for verdict in [Verdict::Fits, Verdict::TooClose, Verdict::DoesNotFit] {
            assert_eq!(json(VerdictName::from(verdict)), verdict.name());
        }
        for risk in Risk::ALL {
            assert_eq!(json(GroupName::from(risk)), risk.name());
        }
        for effect in TrainingEffect::ALL {
            assert_eq!(json(EffectName::from(effect)), effect.name());
        }
        for cause in [
            CauseName::Unmodelled,
            CauseName::Guessed,
            CauseName::CudnnBenchmark,
            CauseName::PythonLifetimes,
            CauseName::AddressOrder,
            CauseName::LaterSteps,
            CauseName::ModelFile,
            CauseName::Gpu,
        ] {
            assert_eq!(json(cause), cause.name());
        }
    }
}
