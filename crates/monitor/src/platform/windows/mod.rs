//! Windows: NVML from the driver's own folder, processes from the Windows API. AMD's GPUs are read on Linux only.

mod driver;
mod process;

use sysinfo::System;

pub(crate) use driver::{
    FAILED_ADVICE, MISMATCH_ADVICE, NO_ANSWER_ADVICE, NO_LIBRARY, NO_PERMISSION_ADVICE, NOT_LOADED, NOT_LOADED_ADVICE,
    no_library_advice, nvml_libraries, versions,
};
pub use process::{ProcessReader, is_own};

use crate::reading::{Missing, Reading};

/// This machine's name.
pub fn host_name() -> String {
    let named = || std::env::var("COMPUTERNAME").ok();
    System::host_name().ok().filter(|name| !name.is_empty()).or_else(named).unwrap_or_else(|| "localhost".to_owned())
}

/// Bytes of main memory.
pub(crate) fn host_memory() -> Reading<u64> {
    let mut system = System::new().map_err(|error| Missing::Failed(error.to_string()))?;
    system.refresh_memory();
    Some(system.total_memory()).filter(|bytes| *bytes > 0).ok_or(Missing::NotSupported)
}
