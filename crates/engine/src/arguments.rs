//! The flags of a training.

pub mod ranks;
pub mod training;
pub mod values;

pub use ranks::{Elements, ParallelWay, RankFlags, Reshard, Speed};
pub use training::{
    EstimateArguments, FineTuningFlags, Layers, MaxBatchArguments, ModelAt, PlanArguments, RunSettings,
};
pub use values::{
    AutocastDtype, FusedLoss, ImplementationName, InputLocation, LossKind, Margin, ModeKind, ModelDtype, OptimizerName,
    OutputLifetime, QuantizeScheme, StateLocation, ZeroGradPosition,
};
