//! What only the operating system knows. Each system has one file or folder with the same names in it: `host_name`,
//! `host_memory`, [`ProcessReader`], `is_own`, `nvml_libraries` where NVML exists, and the texts of [`NoDriver`] that
//! differ (`NO_LIBRARY`, `NOT_LOADED`, `versions`, and one `…_advice` for each reason).

mod no_driver;

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

pub use no_driver::NoDriver;
pub(crate) use system::host_memory;
#[cfg(any(target_os = "linux", windows))]
pub(crate) use system::nvml_libraries;
pub use system::{ProcessReader, host_name, is_own};

#[cfg(all(test, any(target_os = "linux", windows)))]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::process::Counters;
    use crate::reading::Missing;

    #[test]
    fn this_process_is_read_with_its_own_user_and_memory() {
        let reader = ProcessReader::default();
        let (process, before) = reader.read(std::process::id()).unwrap();
        assert!(is_own(&process), "{process:?}");
        assert!(process.memory > 1 << 20);
        assert!(process.age < 3600.0 * 24.0);
        assert!(!process.arguments.is_empty());
        assert_eq!(process.context, None);
        std::thread::sleep(Duration::from_millis(1));
        let after = reader.counters(std::process::id()).unwrap();
        assert!(before.percent_until(&after).is_some());
        assert!(Counters { started: 1, ..before }.percent_until(&after).is_none());
    }

    #[test]
    fn a_process_that_does_not_exist_is_hidden() {
        let reader = ProcessReader::default();
        assert_eq!(reader.read(u32::MAX).unwrap_err(), Missing::HiddenProcess);
        assert_eq!(reader.counters(u32::MAX).unwrap_err(), Missing::HiddenProcess);
    }
}
