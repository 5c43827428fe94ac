//! What a change risks: the groups of plans, in the order in which an experienced person tries them.

use crate::effect::TrainingEffect;

/// What a change risks, the smallest risk first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Risk {
    /// The same results up to the order of summation.
    None,
    /// Autocast: weights and optimizer state stay as they are.
    MixedPrecision,
    /// Another optimizer, or fewer weights that are trained.
    WeightState,
    /// The whole model in a smaller element type.
    SmallerDtype,
    /// A smaller batch, sequence, image or model; or micro-batches where samples of a batch depend on each other.
    SmallerTraining,
}

impl Risk {
    /// All risks, the smallest first.
    pub const ALL: [Risk; 5] =
        [Risk::None, Risk::MixedPrecision, Risk::WeightState, Risk::SmallerDtype, Risk::SmallerTraining];

    /// The name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Risk::None => "none",
            Risk::MixedPrecision => "mixed-precision",
            Risk::WeightState => "weight-state",
            Risk::SmallerDtype => "smaller-dtype",
            Risk::SmallerTraining => "smaller-training",
        }
    }

    /// How a change of this risk affects the training's results.
    pub fn effect(self) -> TrainingEffect {
        match self {
            Risk::None => TrainingEffect::None,
            Risk::MixedPrecision | Risk::SmallerDtype => TrainingEffect::Rounding,
            Risk::WeightState | Risk::SmallerTraining => TrainingEffect::Training,
        }
    }
}
