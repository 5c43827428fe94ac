//! macOS and others: NVIDIA's and AMD's drivers have no counterpart there, so nothing can be asked now; recordings of other
//! machines can be shown.

use std::collections::HashSet;
use std::sync::Arc;

use crate::process::Counters;
use crate::reading::{Missing, Reading};
use crate::sample::HostProcess;
use crate::source::{NoDriver, Source};

/// No driver is here.
pub(crate) const NO_LIBRARY: &str =
    "GPUs are read through NVML on Linux and Windows and through AMD's driver on Linux, neither is on this system";
/// The same: there is no library that could be here without its driver.
pub(crate) const NOT_LOADED: &str = NO_LIBRARY;

/// A reader for which every process is hidden: there is no GPU that one could be on.
#[derive(Default)]
pub struct ProcessReader;

impl ProcessReader {
    /// Nothing is remembered of a process.
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

/// Whether a process of a recording has the number of the user who runs this one.
pub fn is_own(process: &HostProcess) -> bool {
    process.uid == Some(rustix::process::getuid().as_raw())
}

/// None.
pub(crate) fn nvidia() -> Result<Arc<dyn Source>, NoDriver> {
    Err(NoDriver::NoLibrary)
}

/// None.
pub(crate) fn amd() -> Option<Arc<dyn Source>> {
    None
}

/// What one can do on this machine.
pub(crate) fn advice(_reason: &NoDriver) -> &'static str {
    "run it on the machine with the GPUs, with `--record FILE`, and look at the file here with `--replay FILE`"
}

/// None.
pub(crate) fn versions() -> (Option<String>, Option<String>) {
    (None, None)
}
