//! Linux: `/proc`, and NVML from the linker's path.

mod container;
mod driver;
mod mappings;
mod process;

pub(crate) use driver::{
    FAILED_ADVICE, MISMATCH_ADVICE, NO_ANSWER_ADVICE, NO_LIBRARY, NO_PERMISSION_ADVICE, NOT_LOADED, NOT_LOADED_ADVICE,
    no_library_advice, nvml_libraries, versions,
};
pub use process::ProcessReader;

use crate::reading::{Missing, Reading};
use crate::sample::HostProcess;

/// This machine's name.
pub fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// Bytes of main memory.
pub(crate) fn host_memory() -> Reading<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").map_err(|error| Missing::Failed(error.to_string()))?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kibibytes = line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
    kibibytes.map(|number| number << 10).ok_or(Missing::NotSupported)
}

/// Whether a process belongs to the user who runs this one.
pub fn is_own(process: &HostProcess) -> bool {
    process.uid == Some(rustix::process::getuid().as_raw())
}
