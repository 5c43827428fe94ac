//! Linux: a process by its pidfd.

use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::kill_signal::KillSignal;

/// A process, by its pidfd.
pub struct HeldProcess {
    pid: u32,
    descriptor: OwnedFd,
}

impl HeldProcess {
    /// Opens the process that has this PID now, or says why not.
    pub fn open(pid: u32, _order: KillSignal) -> Result<HeldProcess, String> {
        let number = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or("no such process")?;
        let descriptor = pidfd_open(number, PidfdFlags::empty()).map_err(|error| format!("process {pid}: {error}"))?;
        Ok(HeldProcess { pid, descriptor })
    }

    /// Sends the signal, or says why it could not.
    pub fn send(&self, order: KillSignal) -> Result<(), String> {
        let signal = match order {
            KillSignal::Term => Signal::TERM,
            KillSignal::Kill => Signal::KILL,
        };
        pidfd_send_signal(&self.descriptor, signal).map_err(|error| match error {
            Errno::PERM => format!("process {} is another user's: no permission", self.pid),
            Errno::SRCH => format!("process {} has ended", self.pid),
            error => format!("process {}: {error}", self.pid),
        })
    }
}
