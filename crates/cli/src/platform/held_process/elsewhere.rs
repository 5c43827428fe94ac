//! macOS and others: only recordings are shown, so no process can be signalled.

use std::convert::Infallible;

use super::kill_signal::KillSignal;

/// Cannot be opened.
pub struct HeldProcess(Infallible);

impl HeldProcess {
    /// Always an error.
    pub fn open(pid: u32, _order: KillSignal) -> Result<HeldProcess, String> {
        Err(format!("process {pid}: processes can be ended on Linux and Windows only"))
    }

    /// Never called.
    pub fn send(&self, _order: KillSignal) -> Result<(), String> {
        match self.0 {}
    }
}
