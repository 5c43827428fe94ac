//! The flags of a training.

pub mod ranks;
pub mod training;
pub mod values;

pub use ranks::{ParallelWay, RankFlags, Reshard};
pub use training::{
    EstimateArguments, FineTuningFlags, Layers, MaxBatchArguments, ModelAt, PlanArguments, RunSettings,
};
pub use values::{
    AutocastDtype, FusedLoss, InputLocation, LossKind, Margin, ModeKind, ModelDtype, OutputLifetime, QuantizeScheme,
    StateLocation, ZeroGradPosition,
};
