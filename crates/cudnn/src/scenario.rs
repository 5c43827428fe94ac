//! Which value a simulation assumes where only a range is known.

/// What a simulation assumes where a size is not certain, such as a workspace that was not recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Scenario {
    /// The likeliest value.
    #[default]
    Expected,
    /// The smallest possible value.
    Lower,
    /// The largest possible value.
    Upper,
}
