//! Errors of setups and plans.

use thiserror::Error;
use vramfit_eager::forward::UnknownModule;
use vramfit_graph::bind::BindError;
use vramfit_graph::select::{VariantError, VariantFlags};
use vramfit_training::answer::BeyondAddresses;
use vramfit_training::script::LayoutError;

/// Why a setup cannot be simulated.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SetupError {
    /// The model was not captured in this precision and mode.
    #[error(transparent)]
    Variant(#[from] VariantError),
    /// The model does not support these sizes.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// The model has no such module to checkpoint.
    #[error(transparent)]
    Checkpoint(#[from] UnknownModule),
    /// The model's layers cannot be split over GPUs, or its channels cannot be last.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// The setup needs more than a GPU's address space.
    #[error(transparent)]
    BeyondAddresses(#[from] BeyondAddresses),
}

/// A candidate that the model could not be bound to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unbound {
    /// Its sizes, by the names of the model's symbols.
    pub sizes: Vec<(String, i64)>,
    /// Its precision and mode.
    pub variant: VariantFlags,
    /// Why it could not be bound.
    pub reason: SetupError,
}

/// Why there is no plan at all.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Unanswerable {
    /// The start cannot be simulated.
    #[error("the model cannot be simulated at these settings: {0}")]
    NotSimulated(#[source] Box<SetupError>),
    /// The start cannot be priced.
    #[error("the model cannot be priced at these settings: {0}")]
    NotPriced(#[source] Box<SetupError>),
    /// Neither a GPU nor a cap is given.
    #[error("found neither a GPU nor a memory limit, needed one to plan for")]
    NoCapacity,
}
