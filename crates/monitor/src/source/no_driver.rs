//! Why there is no driver to ask, and what to check.

use crate::platform;

/// Why GPUs cannot be asked for at all.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoDriver {
    /// There is no driver that could be asked.
    #[error("no GPU driver found: {}", platform::NO_LIBRARY)]
    NoLibrary,
    /// NVIDIA's library is there, its kernel module is not.
    #[error("NVIDIA's driver is not loaded: {}", platform::NOT_LOADED)]
    NotLoaded,
    /// Kernel module and library are of different versions.
    #[error(
        "NVIDIA's driver and library are of different versions: kernel module {}, library {}",
        .loaded.as_deref().unwrap_or("unknown"), .library.as_deref().unwrap_or("unknown")
    )]
    Mismatch {
        /// The kernel module's version.
        loaded: Option<String>,
        /// The library's version.
        library: Option<String>,
    },
    /// The user may not open the driver's device files.
    #[error("no permission to talk to NVIDIA's driver")]
    NoPermission,
    /// The driver hangs.
    #[error("NVIDIA's driver gave no answer in {0} s")]
    NoAnswer(u64),
    /// Anything else, in NVML's words.
    #[error("NVIDIA's driver failed to start: {0}")]
    Failed(String),
}

impl NoDriver {
    /// The same with what the machine knows about versions.
    #[must_use]
    pub fn with_versions(self) -> NoDriver {
        match self {
            NoDriver::Mismatch { .. } => {
                let (loaded, library) = platform::versions();
                NoDriver::Mismatch { loaded, library }
            }
            other => other,
        }
    }

    /// What to check on this machine.
    pub fn hint(&self) -> String {
        format!("{}; `--demo` shows a recorded machine without a GPU", platform::advice(self))
    }
}
