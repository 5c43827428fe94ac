//! One process from the Windows API: its user, arguments, memory, CPU time and age. Its container, and whether it uses
//! PyTorch, are not known.

use std::collections::HashSet;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use sysinfo::{Pid, Process, ProcessRefreshKind, ProcessesToUpdate, System, Uid, UpdateKind};

use crate::process::{Counters, rounded};
use crate::reading::{Missing, Reading};
use crate::sample::HostProcess;

/// Reads processes.
#[derive(Default)]
pub struct ProcessReader;

impl ProcessReader {
    /// Does nothing: no process is cached.
    pub fn forget_all_but(&self, _pids: &HashSet<u32>) {}

    /// Reads one process. Its CPU use is the average over its life.
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
            // Windows reports whole seconds; a process started within this one must not have age zero.
            let seconds = age.max(1.0);
            let host = HostProcess {
                parent: process.parent().map_or(0, Pid::as_u32),
                uid: None,
                user: process.user_id().map_or_else(|| "?".to_owned(), |user| name_of(user)),
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

    /// Reads the CPU time only.
    pub fn counters(&self, pid: u32) -> Reading<Counters> {
        with_process(pid, ProcessRefreshKind::nothing().with_cpu(), counted)
    }
}

/// This user's name; for another user the identifier. Do not use sysinfo's list of users: it aborts the program where
/// Windows lists no session, as under Wine.
fn name_of(user: &Uid) -> String {
    static OWN: OnceLock<Option<Uid>> = OnceLock::new();
    let own = OWN.get_or_init(|| {
        let kind = ProcessRefreshKind::nothing().with_user(UpdateKind::Always);
        with_process(std::process::id(), kind, |process| Ok(process.user_id().cloned())).ok().flatten()
    });
    let name = std::env::var("USERNAME").ok().filter(|name| !name.is_empty() && own.as_ref() == Some(user));
    name.unwrap_or_else(|| user.to_string())
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

/// Reads one process afresh each time, so that no handle stays open in between.
fn with_process<T>(pid: u32, kind: ProcessRefreshKind, look: impl FnOnce(&Process) -> Reading<T>) -> Reading<T> {
    let mut system = System::new().map_err(|error| Missing::Failed(error.to_string()))?;
    let pid = Pid::from_u32(pid);
    system.refresh_processes_specifics(ProcessesToUpdate::Some(&[pid]), true, kind);
    look(system.process(pid).ok_or(Missing::HiddenProcess)?)
}

fn counted(process: &Process) -> Reading<Counters> {
    // Of a process that may not be opened only the name is known.
    let started = Some(process.start_time()).filter(|seconds| *seconds > 0).ok_or(Missing::NoPermission)?;
    let processor = Duration::from_millis(process.accumulated_cpu_time());
    Ok(Counters { started, processor, at: Instant::now() })
}

/// The arguments, or the program's path without permission to read them.
fn arguments(process: &Process) -> Vec<String> {
    let arguments: Vec<String> = process.cmd().iter().map(|part| part.to_string_lossy().into_owned()).collect();
    if !arguments.is_empty() {
        return arguments;
    }
    let program = process.exe().map(|path| path.to_string_lossy()).filter(|path| !path.is_empty());
    vec![program.unwrap_or_else(|| process.name().to_string_lossy()).into_owned()]
}
