//! macOS and others: there is neither NVML nor AMD's sysfs, so only recordings of other machines can be shown.

use std::collections::HashSet;

use crate::process::Counters;
use crate::reading::{Missing, Reading};
use crate::sample::HostProcess;

/// Why there is no library.
pub(crate) const NO_LIBRARY: &str =
    "GPUs are read through NVML on Linux and Windows and through AMD's driver on Linux, neither is on this system";
pub(crate) const NOT_LOADED: &str = NO_LIBRARY;

const ADVICE: &str =
    "run it on the machine with the GPUs, with `--record FILE`, and look at the file here with `--replay FILE`";
pub(crate) const NOT_LOADED_ADVICE: &str = ADVICE;
pub(crate) const MISMATCH_ADVICE: &str = ADVICE;
pub(crate) const NO_PERMISSION_ADVICE: &str = ADVICE;
pub(crate) const NO_ANSWER_ADVICE: &str = ADVICE;
pub(crate) const FAILED_ADVICE: &str = ADVICE;

pub(crate) fn no_library_advice() -> &'static str {
    ADVICE
}

/// A reader for which every process is hidden.
#[derive(Default)]
pub struct ProcessReader;

impl ProcessReader {
    /// Does nothing: no process is cached.
    pub fn forget_all_but(&self, _pids: &HashSet<u32>) {}

    /// Hidden.
    pub fn read(&self, _pid: u32) -> Reading<(HostProcess, Counters)> {
        Err(Missing::HiddenProcess)
    }

    /// Hidden.
    pub fn counters(&self, _pid: u32) -> Reading<Counters> {
        Err(Missing::HiddenProcess)
    }
}

/// This machine's name.
pub fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// Not known.
pub(crate) fn host_memory() -> Reading<u64> {
    Err(Missing::NotSupported)
}

/// Whether a recorded process has the user ID of the user who runs this one.
pub fn is_own(process: &HostProcess) -> bool {
    process.uid == Some(rustix::process::getuid().as_raw())
}

/// There is no driver to have a version.
pub(crate) fn versions() -> (Option<String>, Option<String>) {
    (None, None)
}
