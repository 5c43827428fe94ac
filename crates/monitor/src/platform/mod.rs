//! What only the operating system knows. Each system has one file or folder with the same names in it: `host_name`,
//! `host_memory`, [`ProcessReader`], `is_own`, `nvidia` and `amd` (the drivers it has), and of [`NoDriver`] the words that
//! differ (`NO_LIBRARY`, `NOT_LOADED`, `advice`, `versions`).
//!
//! [`NoDriver`]: crate::source::NoDriver

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
use linux as system;

#[cfg(windows)]
mod windows;
#[cfg(windows)]
use windows as system;

#[cfg(not(any(target_os = "linux", windows)))]
mod elsewhere;
#[cfg(not(any(target_os = "linux", windows)))]
use elsewhere as system;

pub(crate) use system::{NO_LIBRARY, NOT_LOADED, advice, amd, host_memory, nvidia, versions};
pub use system::{ProcessReader, host_name, is_own};
