//! Why no driver can be queried, and what to check.

use super::system;

/// Why no driver can be queried.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoDriver {
    /// Neither vendor's driver is installed.
    #[error("no GPU driver found: {}", system::NO_LIBRARY)]
    NoLibrary,
    /// NVIDIA's library is installed, its kernel module is not loaded.
    #[error("NVIDIA's driver is not loaded: {}", system::NOT_LOADED)]
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
    /// Fills in the versions of a mismatch.
    #[must_use]
    pub(crate) fn with_versions(self) -> NoDriver {
        match self {
            NoDriver::Mismatch { .. } => {
                let (loaded, library) = system::versions();
                NoDriver::Mismatch { loaded, library }
            }
            other => other,
        }
    }

    /// What to check on this machine.
    pub fn hint(&self) -> String {
        let advice = match self {
            NoDriver::NoLibrary => system::no_library_advice(),
            NoDriver::NotLoaded => system::NOT_LOADED_ADVICE,
            NoDriver::Mismatch { .. } => system::MISMATCH_ADVICE,
            NoDriver::NoPermission => system::NO_PERMISSION_ADVICE,
            NoDriver::NoAnswer(_) => system::NO_ANSWER_ADVICE,
            NoDriver::Failed(_) => system::FAILED_ADVICE,
        };
        format!("{advice}; `--demo` shows a recorded machine without a GPU")
    }
}
