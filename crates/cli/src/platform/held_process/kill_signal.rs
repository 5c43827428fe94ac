//! The signals that end a process.

/// A signal that ends a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KillSignal {
    /// Asks the process to end.
    Term,
    /// Ends it at once.
    Kill,
}

impl KillSignal {
    /// The signal's name.
    pub fn name(self) -> &'static str {
        match self {
            KillSignal::Term => "TERM",
            KillSignal::Kill => "KILL",
        }
    }
}
