//! Signals to processes: only after a confirmation, only to the process that was meant.

use vramfit_monitor::platform::ProcessReader;

use super::rows::Row;
use crate::platform::{HeldProcess, Order};

/// A process that may be told to end.
pub struct Target {
    /// Its number, to be shown.
    pub pid: u32,
    /// Whose and what, to be shown.
    pub who: String,
    /// What it would be told.
    pub order: Order,
    process: HeldProcess,
}

impl Target {
    /// The process of a row, or why it cannot be aimed at.
    pub fn aim(row: &Row, order: Order) -> Result<Target, String> {
        let pid = row.process.pid;
        let Ok(host) = &row.process.host else { return Err(format!("process {pid} is hidden from here")) };
        let process = HeldProcess::open(pid, order)?;
        let now = ProcessReader::default().counters(pid).map_err(|reason| format!("process {pid}: {reason}"))?;
        if now.started != host.started {
            return Err(format!("process {pid} has ended"));
        }
        Ok(Target { pid, who: format!("{}: {}", host.user, row.command()), order, process })
    }

    /// Sends it, with the rights this program has.
    pub fn send(&self) -> String {
        match self.process.send(self.order) {
            Ok(()) => format!("{} sent to process {}", self.order.name(), self.pid),
            Err(reason) => reason,
        }
    }
}
