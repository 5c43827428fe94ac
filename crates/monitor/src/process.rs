//! Processes as the operating system shows them.

use std::time::{Duration, Instant};

pub use crate::platform::{ProcessReader, is_own};

/// Processor time of a process at an instant.
#[derive(Clone, Copy, Debug)]
pub struct Counters {
    /// When the process began, by a clock of the operating system's: with the PID, its identity.
    pub started: u64,
    /// Processor time used since then.
    pub processor: Duration,
    /// When it was read.
    pub at: Instant,
}

impl Counters {
    /// Percent of a core until a later reading and the seconds between them; `None` where it is not the same process.
    pub fn percent_until(&self, after: &Counters) -> Option<(f64, f64)> {
        if self.started != after.started {
            return None;
        }
        let seconds = after.at.saturating_duration_since(self.at).as_secs_f64();
        if seconds <= 0.0 {
            return None;
        }
        let processor = after.processor.saturating_sub(self.processor).as_secs_f64();
        Some((rounded(processor / seconds * 100.0), seconds))
    }
}

/// One digit after the point, as psutil gives it.
pub(crate) fn rounded(percent: f64) -> f64 {
    (percent * 10.0).round() / 10.0
}

#[cfg(all(test, any(target_os = "linux", windows)))]
mod tests {
    use super::*;
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
    fn a_process_that_is_not_there_is_hidden() {
        let reader = ProcessReader::default();
        assert_eq!(reader.read(u32::MAX).unwrap_err(), Missing::HiddenProcess);
        assert_eq!(reader.counters(u32::MAX).unwrap_err(), Missing::HiddenProcess);
    }

    #[test]
    fn processor_time_is_percent_of_one_core() {
        let at = Instant::now();
        let before = Counters { started: 7, processor: Duration::from_millis(1500), at };
        let later = |milliseconds, processor| Counters {
            processor: Duration::from_millis(processor),
            at: at + Duration::from_millis(milliseconds),
            ..before
        };
        assert_eq!(before.percent_until(&later(2000, 4500)), Some((150.0, 2.0)));
        assert_eq!(before.percent_until(&later(3000, 1510)), Some((0.3, 3.0)));
        assert_eq!(before.percent_until(&later(1000, 0)), Some((0.0, 1.0)), "a clock that went back is no use");
        assert_eq!(before.percent_until(&before), None);
    }
}
