//! What a change does to the training itself.

/// From none to the largest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Effect {
    /// The same numbers, but for the order in which they are added up.
    None,
    /// The same training in another precision.
    Rounding,
    /// Another training.
    Training,
}

impl Effect {
    /// All, from none to the largest.
    pub const ALL: [Effect; 3] = [Effect::None, Effect::Rounding, Effect::Training];

    /// Its name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Effect::None => "none",
            Effect::Rounding => "rounding",
            Effect::Training => "training",
        }
    }
}
