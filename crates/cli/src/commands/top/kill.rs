//! Signals to processes: only after a confirmation, only to the process that was meant.

use std::os::fd::OwnedFd;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use vramfit_monitor::process::ProcessReader;

use super::rows::Row;

/// A process that a signal may be sent to. It is held by a descriptor, not by its number: should it end before the
/// answer is given, nobody else with that number is hit.
pub struct Target {
    /// Its number, to be shown.
    pub pid: u32,
    /// Whose and what, to be shown.
    pub who: String,
    /// TERM or KILL.
    pub signal: Signal,
    process: OwnedFd,
}

impl Target {
    /// The process of a row, or why it cannot be aimed at.
    pub fn aim(row: &Row, signal: Signal) -> Result<Target, String> {
        let pid = row.process.pid;
        let Ok(host) = &row.process.host else { return Err(format!("process {pid} is hidden from here")) };
        let number = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or("no such process")?;
        let process = pidfd_open(number, PidfdFlags::empty()).map_err(|error| format!("process {pid}: {error}"))?;
        let now = ProcessReader::default().counters(pid).map_err(|reason| format!("process {pid}: {reason}"))?;
        if now.started != host.started {
            return Err(format!("process {pid} has ended"));
        }
        Ok(Target { pid, who: format!("{}: {}", host.user, row.command()), signal, process })
    }

    /// The signal's name.
    pub fn signal_name(&self) -> &'static str {
        if self.signal == Signal::KILL { "KILL" } else { "TERM" }
    }

    /// Sends it, with the rights this program has.
    pub fn send(&self) -> String {
        match pidfd_send_signal(&self.process, self.signal) {
            Ok(()) => format!("{} sent to process {}", self.signal_name(), self.pid),
            Err(rustix::io::Errno::PERM) => format!("process {} is another user's: no permission", self.pid),
            Err(rustix::io::Errno::SRCH) => format!("process {} has ended", self.pid),
            Err(error) => format!("process {}: {error}", self.pid),
        }
    }
}
