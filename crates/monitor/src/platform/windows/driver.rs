//! Where NVIDIA's driver keeps its library, and what to say where it is not.

use std::env;
use std::path::PathBuf;
use std::sync::Arc;

use crate::source::nvml::NvmlSource;
use crate::source::{NoDriver, Source};

/// The driver is not here.
pub(crate) const NO_LIBRARY: &str = "NVIDIA's library nvml.dll is not here (AMD's GPUs are read on Linux only)";
/// The library is, the driver is not.
pub(crate) const NOT_LOADED: &str = "nvml.dll is here, the driver does not run";

/// NVIDIA's driver. It may hang.
pub(crate) fn nvidia() -> Result<Arc<dyn Source>, NoDriver> {
    let mut reason = NoDriver::NoLibrary;
    for library in libraries() {
        match NvmlSource::open(library.as_os_str()) {
            Ok(source) => return Ok(Arc::new(source)),
            Err(NoDriver::NoLibrary) => {}
            Err(other) => reason = other,
        }
    }
    Err(reason)
}

/// Whole paths: a name alone would also be looked for in the folder one happens to be in. Drivers before 2018 have the
/// second.
fn libraries() -> Vec<PathBuf> {
    let place = |variable: &str, usual: &str, below: &[&str]| {
        let root = env::var_os(variable).map_or_else(|| PathBuf::from(usual), PathBuf::from);
        below.iter().fold(root, |path, part| path.join(part))
    };
    vec![
        place("SystemRoot", r"C:\Windows", &["System32", "nvml.dll"]),
        place("ProgramFiles", r"C:\Program Files", &["NVIDIA Corporation", "NVSMI", "nvml.dll"]),
    ]
}

/// What to check on this machine.
pub(crate) fn advice(reason: &NoDriver) -> &'static str {
    match reason {
        NoDriver::NoLibrary => {
            r"check `Get-CimInstance Win32_VideoController` for a GPU and install its driver, which puts nvml.dll into C:\Windows\System32"
        }
        NoDriver::Mismatch { .. } => "the driver was updated while the old one still runs: restart Windows",
        NoDriver::NoPermission => "try it in a terminal that was started as administrator",
        NoDriver::NotLoaded | NoDriver::NoAnswer(_) | NoDriver::Failed(_) => {
            "check `nvidia-smi`, and the GPU's state in the Device Manager; a driver that hangs needs a restart"
        }
    }
}

/// Unknown: Windows has no kernel module with a version of its own.
pub(crate) fn versions() -> (Option<String>, Option<String>) {
    (None, None)
}
