//! How a change affects the training's results.

/// The effect of a change on the training's results, ordered by size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TrainingEffect {
    /// The same results up to the order of summation.
    None,
    /// The same training in another precision.
    Rounding,
    /// A different training: another batch, optimizer or size.
    Training,
}

impl TrainingEffect {
    /// All effects, the smallest first.
    pub const ALL: [TrainingEffect; 3] = [TrainingEffect::None, TrainingEffect::Rounding, TrainingEffect::Training];

    /// The name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            TrainingEffect::None => "none",
            TrainingEffect::Rounding => "rounding",
            TrainingEffect::Training => "training",
        }
    }
}
