//! Signals that suspend, resume or end the program.

/// A signal from the terminal or another process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(windows, allow(dead_code, reason = "Windows cannot suspend a program from its terminal"))]
pub enum ControlSignal {
    /// Suspend, as by Ctrl-Z.
    Pause,
    /// Continue after a suspension.
    Resume,
    /// End, as by Ctrl-C.
    End,
}

/// The signals to watch for; others keep their default action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchedSignals {
    /// `End` only.
    Ends,
    /// `End` and `Pause`.
    Pauses,
    /// All of them.
    All,
}
