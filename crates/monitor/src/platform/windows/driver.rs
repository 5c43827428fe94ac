//! The driver's libraries and versions, and what to say when it is missing.

use std::env;
use std::path::PathBuf;

/// Why there is no library.
pub(crate) const NO_LIBRARY: &str = "NVIDIA's library nvml.dll is not here (AMD's GPUs are read on Linux only)";
/// Why the driver is not loaded.
pub(crate) const NOT_LOADED: &str = "nvml.dll is here, the driver does not run";

/// Where NVML may be, as absolute paths: a bare name would also be searched for in the working directory. Drivers before
/// 2018 have the second.
pub(crate) fn nvml_libraries() -> Vec<PathBuf> {
    let path = |variable: &str, usual: &str, below: &[&str]| {
        let root = env::var_os(variable).map_or_else(|| PathBuf::from(usual), PathBuf::from);
        below.iter().fold(root, |path, part| path.join(part))
    };
    vec![
        path("SystemRoot", r"C:\Windows", &["System32", "nvml.dll"]),
        path("ProgramFiles", r"C:\Program Files", &["NVIDIA Corporation", "NVSMI", "nvml.dll"]),
    ]
}

pub(crate) const NOT_LOADED_ADVICE: &str =
    "check `nvidia-smi`, and the GPU's state in the Device Manager; a driver that hangs needs a restart";
pub(crate) const MISMATCH_ADVICE: &str = "the driver was updated while the old one still runs: restart Windows";
pub(crate) const NO_PERMISSION_ADVICE: &str = "try it in a terminal that was started as administrator";
pub(crate) const NO_ANSWER_ADVICE: &str = NOT_LOADED_ADVICE;
pub(crate) const FAILED_ADVICE: &str = NOT_LOADED_ADVICE;

pub(crate) fn no_library_advice() -> &'static str {
    r"check `Get-CimInstance Win32_VideoController` for a GPU and install its driver, which puts nvml.dll into C:\Windows\System32"
}

/// Unknown: Windows has no kernel module with a version of its own.
pub(crate) fn versions() -> (Option<String>, Option<String>) {
    (None, None)
}
