//! Which shortcuts a simulation may take. They only save time: the answers are the same without them.
//!
//! `benches/shortcuts.rs` measures what each gains, `docs/simulation-speed.md` has the numbers, and the validation crate
//! holds simulations with them against simulations without.

/// The shortcuts that a simulation may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shortcuts {
    /// A step that leaves the process as the step before it did is repeated instead of simulated.
    pub repeated_steps: bool,
    /// The second step is derived from the first: only its update is simulated. Needs `repeated_steps`.
    pub derived_step: bool,
    /// A micro-batch that leaves the process as the one before it did is copied instead of simulated.
    pub copied_micro_batches: bool,
    /// Repeated steps and micro-batches are not answered request by request once memory has reached a steady state.
    pub steady_state: bool,
}

impl Shortcuts {
    /// All shortcuts.
    pub const ALL: Shortcuts =
        Shortcuts { repeated_steps: true, derived_step: true, copied_micro_batches: true, steady_state: true };

    /// No shortcuts: every step is simulated and every request answered.
    pub const NONE: Shortcuts =
        Shortcuts { repeated_steps: false, derived_step: false, copied_micro_batches: false, steady_state: false };
}
