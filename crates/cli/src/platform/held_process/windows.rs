//! Windows: a process by its handle. Its PID is not reused while the handle is open.

use sysinfo::{Pid, ProcessRefreshKind, ProcessesToUpdate, System};

use super::kill_signal::KillSignal;

/// A process, by its handle.
pub struct HeldProcess {
    pid: u32,
    /// Has this one process, and keeps its handle.
    system: System,
}

impl HeldProcess {
    /// Opens the process that has this PID now, or says why not.
    pub fn open(pid: u32, order: KillSignal) -> Result<HeldProcess, String> {
        if order == KillSignal::Term {
            return Err("Windows cannot ask a program to end, only end it: K does".to_owned());
        }
        let mut system = System::new().map_err(|error| format!("process {pid}: {error}"))?;
        let number = Pid::from_u32(pid);
        system.refresh_processes_specifics(ProcessesToUpdate::Some(&[number]), true, ProcessRefreshKind::nothing());
        let process = system.process(number).ok_or_else(|| format!("process {pid} has ended"))?;
        // The start time is known only through an open handle.
        if process.start_time() == 0 {
            return Err(format!("process {pid} is another user's: no permission"));
        }
        Ok(HeldProcess { pid, system })
    }

    /// Ends it, or says why it could not.
    pub fn send(&self, _order: KillSignal) -> Result<(), String> {
        let process = self.system.process(Pid::from_u32(self.pid));
        match process.is_some_and(|process| process.kill()) {
            true => Ok(()),
            false => Err(format!("process {} could not be ended: it has ended, or is another user's", self.pid)),
        }
    }
}
