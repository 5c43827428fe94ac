//! One process: whose it is, its arguments, memory, processor time and age. Containers are not told apart, and whether
//! a process uses PyTorch is not known.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use sysinfo::{Pid, Process, ProcessRefreshKind, ProcessesToUpdate, System, Uid, UpdateKind, Users};

use crate::process::{Counters, rounded};
use crate::reading::{Missing, Reading};
use crate::sample::HostProcess;

/// Reads processes and remembers the names of users.
#[derive(Default)]
pub struct ProcessReader {
    users: Mutex<HashMap<Uid, String>>,
}

impl ProcessReader {
    /// Nothing is remembered of a process.
    pub fn forget_all_but(&self, _pids: &HashSet<u32>) {}

    /// Everything about one process. Its processor time is the average over its life.
    pub fn read(&self, pid: u32) -> Reading<(HostProcess, Counters)> {
        let kind = ProcessRefreshKind::nothing()
            .with_cpu()
            .with_memory()
            .with_cmd(UpdateKind::Always)
            .with_exe(UpdateKind::Always)
            .with_user(UpdateKind::Always);
        with_process(pid, kind, |process| {
            let counters = counted(process)?;
            let age = process.run_time() as f64;
            // Whole seconds are told; a process of this second is not of no age.
            let seconds = age.max(1.0);
            let host = HostProcess {
                parent: process.parent().map_or(0, Pid::as_u32),
                uid: None,
                user: process.user_id().map_or_else(|| "?".to_owned(), |user| self.name_of(user)),
                state: '-',
                started: counters.started,
                arguments: arguments(process),
                cpu_percent: Ok(rounded(counters.processor.as_secs_f64() / seconds * 100.0)),
                cpu_seconds: seconds,
                memory: process.memory(),
                age,
                container: None,
                context: None,
            };
            Ok((host, counters))
        })
    }

    /// Processor time only.
    pub fn counters(&self, pid: u32) -> Reading<Counters> {
        with_process(pid, ProcessRefreshKind::nothing().with_cpu(), counted)
    }

    fn name_of(&self, user: &Uid) -> String {
        {
            let known = self.users.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(name) = known.get(user) {
                return name.clone();
            }
        }
        // Not under the lock: names may come over the network.
        let users = Users::new_with_refreshed_list().ok();
        let found = users.as_ref().and_then(|users| users.get_user_by_id(user)).map(|user| user.name().to_owned());
        let name = found.unwrap_or_else(|| user.to_string());
        let mut known = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        known.insert(user.clone(), name.clone());
        name
    }
}

/// Whether a process belongs to the user who runs this one.
pub fn is_own(process: &HostProcess) -> bool {
    static OWN: OnceLock<Option<String>> = OnceLock::new();
    let own = OWN.get_or_init(|| {
        let own = ProcessReader::default().read(std::process::id());
        own.ok().map(|(own, _)| own.user)
    });
    own.as_ref() == Some(&process.user)
}

/// Looks at one process, with no memory of it from before: so nothing is held open in between.
fn with_process<T>(pid: u32, kind: ProcessRefreshKind, look: impl FnOnce(&Process) -> Reading<T>) -> Reading<T> {
    let mut system = System::new().map_err(|error| Missing::Failed(error.to_string()))?;
    let pid = Pid::from_u32(pid);
    system.refresh_processes_specifics(ProcessesToUpdate::Some(&[pid]), true, kind);
    look(system.process(pid).ok_or(Missing::HiddenProcess)?)
}

fn counted(process: &Process) -> Reading<Counters> {
    // A process that may not be opened has a name only.
    let started = Some(process.start_time()).filter(|seconds| *seconds > 0).ok_or(Missing::NoPermission)?;
    let processor = Duration::from_millis(process.accumulated_cpu_time());
    Ok(Counters { started, processor, at: Instant::now() })
}

/// The arguments, or where they may not be read the program.
fn arguments(process: &Process) -> Vec<String> {
    let arguments: Vec<String> = process.cmd().iter().map(|part| part.to_string_lossy().into_owned()).collect();
    if !arguments.is_empty() {
        return arguments;
    }
    let program = process.exe().map(|path| path.to_string_lossy()).filter(|path| !path.is_empty());
    vec![program.unwrap_or_else(|| process.name().to_string_lossy()).into_owned()]
}
