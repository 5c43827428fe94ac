//! Linux: `/proc`, NVML and AMD's sysfs.

mod container;
mod driver;
mod mappings;
mod process;

use std::sync::Arc;

pub(crate) use driver::{NO_LIBRARY, NOT_LOADED, advice, versions};
pub use process::ProcessReader;

use crate::reading::{Missing, Reading};
use crate::sample::HostProcess;
use crate::source::amd::{AmdSource, Roots};
use crate::source::nvml::NvmlSource;
use crate::source::{NoDriver, Source};

/// This machine's name.
pub fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// Bytes of memory that this machine has.
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

/// NVIDIA's driver. It may hang.
pub(crate) fn nvidia() -> Result<Arc<dyn Source>, NoDriver> {
    NvmlSource::open("libnvidia-ml.so.1".as_ref()).map(|source| Arc::new(source) as Arc<dyn Source>)
}

/// AMD's driver, where it has a GPU.
pub(crate) fn amd() -> Option<Arc<dyn Source>> {
    AmdSource::open(Roots::default()).map(|source| Arc::new(source) as Arc<dyn Source>)
}
