//! Signals to processes: only after a confirmation, and only to the process that was shown.

use vramfit_monitor::platform::ProcessReader;

use super::rows::Row;
use crate::platform::{HeldProcess, KillSignal};

/// A process that may be signalled.
pub struct Target {
    /// Its PID, for display.
    pub pid: u32,
    /// User and command, for display.
    pub who: String,
    /// The signal.
    pub order: KillSignal,
    process: HeldProcess,
}

impl Target {
    /// The process of a row, or why it cannot be signalled.
    pub fn aim(row: &Row, order: KillSignal) -> Result<Target, String> {
        let pid = row.process.pid;
        let Ok(host) = &row.process.host else { return Err(format!("process {pid} is hidden from here")) };
        let process = HeldProcess::open(pid, order)?;
        let now = ProcessReader::default().counters(pid).map_err(|reason| format!("process {pid}: {reason}"))?;
        if now.started != host.started {
            return Err(format!("process {pid} has ended"));
        }
        Ok(Target { pid, who: format!("{}: {}", host.user, row.command()), order, process })
    }

    /// Sends the signal; returns a sentence about the outcome.
    pub fn send(&self) -> String {
        match self.process.send(self.order) {
            Ok(()) => format!("{} sent to process {}", self.order.name(), self.pid),
            Err(reason) => reason,
        }
    }
}
