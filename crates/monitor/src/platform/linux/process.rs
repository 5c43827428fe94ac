//! One process from `/proc`: its user, arguments, memory, CPU time, age and container.

use std::collections::HashMap;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::container::container_of;
use super::mappings;
use crate::process::{Counters, rounded};
use crate::pytorch::CudaContext;
use crate::reading::{Missing, Reading};
use crate::sample::HostProcess;

/// Seconds after which a process is taken to have loaded its libraries.
const LIBRARIES_LOADED_AFTER: f64 = 120.0;

/// Reads processes and caches what does not change over a process's life.
pub struct ProcessReader {
    root: PathBuf,
    ticks_per_second: f64,
    page: u64,
    cache: Mutex<Cache>,
}

#[derive(Default)]
struct Cache {
    users: HashMap<u32, String>,
    by_pid: HashMap<u32, CachedProcess>,
}

#[derive(Clone)]
struct CachedProcess {
    started: u64,
    container: Option<String>,
    uses_pytorch: bool,
    /// A young process may still be importing PyTorch, so its mappings are read again.
    has_loaded_libraries: bool,
}

impl Default for ProcessReader {
    fn default() -> ProcessReader {
        ProcessReader::new("/proc")
    }
}

impl ProcessReader {
    /// A reader of `root` in place of `/proc`.
    pub fn new(root: impl Into<PathBuf>) -> ProcessReader {
        ProcessReader {
            root: root.into(),
            ticks_per_second: rustix::param::clock_ticks_per_second() as f64,
            page: rustix::param::page_size() as u64,
            cache: Mutex::default(),
        }
    }

    /// Drops the cache of processes that are on no GPU any more.
    pub fn forget_all_but(&self, pids: &std::collections::HashSet<u32>) {
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        cache.by_pid.retain(|pid, _| pids.contains(pid));
    }

    /// Reads one process. Its CPU use is the average over its life, as `ps` shows it.
    pub fn read(&self, pid: u32) -> Reading<(HostProcess, Counters)> {
        let folder = self.folder(pid);
        let stat = Stat::read(&folder)?;
        let at = Instant::now();
        let uid = owner(&folder)?;
        let arguments = arguments(&fs::read(folder.join("cmdline")).unwrap_or_default());
        let memory = fs::read_to_string(folder.join("statm"))
            .ok()
            .and_then(|text| text.split_whitespace().nth(1)?.parse::<u64>().ok())
            .map_or(0, |pages| pages * self.page);
        let uptime = fs::read_to_string(self.root.join("uptime"))
            .ok()
            .and_then(|text| text.split_whitespace().next()?.parse::<f64>().ok())
            .unwrap_or(0.0);
        let age = (uptime - stat.started as f64 / self.ticks_per_second).max(0.0);
        let cached = self.cached(pid, &stat, age, &folder);
        let lifetime = stat.ticks as f64 / self.ticks_per_second * 100.0 / age.max(0.01);
        let process = HostProcess {
            parent: stat.parent,
            uid: Some(uid),
            user: self.user(uid),
            state: stat.state,
            started: stat.started,
            arguments,
            cpu_percent: Ok(rounded(lifetime)),
            cpu_seconds: age,
            memory,
            age,
            container: cached.container,
            context: cached.uses_pytorch.then(CudaContext::measured),
        };
        Ok((process, self.counted(&stat, at)))
    }

    /// Reads the CPU time only.
    pub fn counters(&self, pid: u32) -> Reading<Counters> {
        let stat = Stat::read(&self.folder(pid))?;
        Ok(self.counted(&stat, Instant::now()))
    }

    fn counted(&self, stat: &Stat, at: Instant) -> Counters {
        let processor = Duration::from_secs_f64(stat.ticks as f64 / self.ticks_per_second);
        Counters { started: stat.started, processor, at }
    }

    fn folder(&self, pid: u32) -> PathBuf {
        self.root.join(pid.to_string())
    }

    fn cached(&self, pid: u32, stat: &Stat, age: f64, folder: &Path) -> CachedProcess {
        {
            let cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(found) = cache.by_pid.get(&pid)
                && found.started == stat.started
                && (found.uses_pytorch || found.has_loaded_libraries)
            {
                return found.clone();
            }
        }
        // Not under the lock: reading the mappings of a process in trouble may hang.
        let found = CachedProcess {
            started: stat.started,
            container: fs::read_to_string(folder.join("cgroup")).ok().and_then(|text| container_of(&text)),
            uses_pytorch: mappings::has_pytorch(folder),
            has_loaded_libraries: age > LIBRARIES_LOADED_AFTER,
        };
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        cache.by_pid.insert(pid, found.clone());
        found
    }

    fn user(&self, uid: u32) -> String {
        {
            let cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(name) = cache.users.get(&uid) {
                return name.clone();
            }
        }
        // Not under the lock: a name service may be on the network.
        let user = uzers::get_user_by_uid(uid);
        let name = user.map_or_else(|| uid.to_string(), |user| user.name().to_string_lossy().into_owned());
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        cache.users.insert(uid, name.clone());
        name
    }
}

struct Stat {
    state: char,
    parent: u32,
    ticks: u64,
    started: u64,
}

impl Stat {
    fn read(folder: &Path) -> Reading<Stat> {
        let text = fs::read(folder.join("stat")).map_err(|error| match error.kind() {
            ErrorKind::PermissionDenied => Missing::NoPermission,
            _ => Missing::HiddenProcess,
        })?;
        let text = String::from_utf8_lossy(&text);
        Stat::parse(&text).ok_or_else(|| Missing::Failed("unreadable /proc/PID/stat".to_owned()))
    }

    /// The name in parentheses may hold anything, parentheses too, so fields count from the last one.
    fn parse(text: &str) -> Option<Stat> {
        let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
        let number = |position: usize| fields.get(position)?.parse::<u64>().ok();
        Some(Stat {
            state: fields.first()?.chars().next()?,
            parent: u32::try_from(number(1)?).ok()?,
            ticks: number(11)?.saturating_add(number(12)?),
            started: number(19)?,
        })
    }
}

/// The real user ID.
fn owner(folder: &Path) -> Reading<u32> {
    let status = fs::read_to_string(folder.join("status")).map_err(|_| Missing::HiddenProcess)?;
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:"));
    line.and_then(|numbers| numbers.split_whitespace().next()?.parse().ok())
        .ok_or_else(|| Missing::Failed("no Uid in /proc/PID/status".to_owned()))
}

/// The arguments as psutil splits them: by zeros, or by spaces where the process has overwritten them with a title.
fn arguments(bytes: &[u8]) -> Vec<String> {
    if bytes.is_empty() {
        return Vec::new();
    }
    let text = String::from_utf8_lossy(bytes);
    match text.strip_suffix('\0') {
        Some(rest) => {
            let split: Vec<String> = rest.split('\0').map(str::to_owned).collect();
            match split.as_slice() {
                [only] if only.contains(' ') => only.split(' ').map(str::to_owned).collect(),
                _ => split,
            }
        }
        None => text.strip_suffix(' ').unwrap_or(&text).split(' ').map(str::to_owned).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_parentheses_and_spaces_does_not_shift_the_fields() {
        let stat = Stat::parse("42 (a) R (b c)) S 7 42 42 0 -1 0 0 0 0 0 300 20 0 0 20 0 1 0 9000 0 0").unwrap();
        assert_eq!((stat.state, stat.parent, stat.ticks, stat.started), ('S', 7, 320, 9000));
        assert!(Stat::parse("42 (x").is_none());
        assert!(Stat::parse("").is_none());
    }

    #[test]
    fn arguments_are_split_as_psutil_splits_them() {
        assert_eq!(arguments(b"python\0train.py\0\0--x\0"), ["python", "train.py", "", "--x"]);
        assert_eq!(arguments(b"nginx: worker process\0"), ["nginx:", "worker", "process"]);
        assert_eq!(arguments(b"title without zero "), ["title", "without", "zero"]);
        assert!(arguments(b"").is_empty());
        assert_eq!(arguments(b"\xff\xfe\0"), ["\u{fffd}\u{fffd}"]);
    }
}
