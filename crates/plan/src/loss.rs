//! Where a training's loss comes from.

use serde::Serialize;
use vramfit_graph::bind::{Bound, BoundStep};
use vramfit_training::AddedLoss;

use crate::setup::Setup;

/// Where the loss comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Loss {
    /// A function of outputs and targets that was captured with the model.
    #[serde(rename = "function")]
    Given,
    /// The model returns it.
    Returned,
    /// Added: the cross-entropy of the first output.
    CrossEntropy,
    /// Added: the mean of the first output.
    Mean,
    /// There is none.
    None,
}

impl Loss {
    /// The loss of a bound setup.
    pub(crate) fn of(bound: &Bound<'_>, setup: &Setup) -> Loss {
        let has_function = bound.steps.iter().any(|step| matches!(step, BoundStep::Loss));
        match setup.training.loss {
            _ if has_function => Loss::Given,
            _ if bound.variant.loss.is_some() => Loss::Returned,
            AddedLoss::CrossEntropy => Loss::CrossEntropy,
            AddedLoss::Mean => Loss::Mean,
            AddedLoss::None => Loss::None,
        }
    }
}
