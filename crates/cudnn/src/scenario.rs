//! Which end of what is possible a simulation assumes.

/// What a simulation assumes where something is not known for certain, such as an unrecorded workspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Scenario {
    /// The likeliest value.
    #[default]
    Expected,
    /// The least that is possible.
    Lower,
    /// The most that is possible.
    Upper,
}
