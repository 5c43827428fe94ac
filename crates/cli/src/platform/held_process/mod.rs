//! A process that can be told to end. It is held by what the operating system gives for it, not by its number: should it
//! end before, nobody else who gets that number is hit.

#[cfg_attr(target_os = "linux", path = "linux.rs")]
#[cfg_attr(windows, path = "windows.rs")]
#[cfg_attr(not(any(target_os = "linux", windows)), path = "elsewhere.rs")]
mod system;

pub use system::HeldProcess;

/// What a process is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// To end, in its own way.
    Term,
    /// Nothing: it is ended.
    Kill,
}

impl Order {
    /// The signal's name.
    pub fn name(self) -> &'static str {
        match self {
            Order::Term => "TERM",
            Order::Kill => "KILL",
        }
    }
}
