//! The CPU time of a process.

use std::time::{Duration, Instant};

/// The CPU time of a process at an instant.
#[derive(Clone, Copy, Debug)]
pub struct Counters {
    /// When the process started, by a clock of the operating system: together with the PID this identifies it.
    pub started: u64,
    /// CPU time used since then.
    pub processor: Duration,
    /// When it was read.
    pub at: Instant,
}

impl Counters {
    /// Percent of a core until `after`, and the seconds in between; `None` if `after` is of another process.
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

/// Rounded to one decimal, as psutil does.
pub(crate) fn rounded(percent: f64) -> f64 {
    (percent * 10.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_is_percent_of_one_core() {
        let at = Instant::now();
        let before = Counters { started: 7, processor: Duration::from_millis(1500), at };
        let later = |milliseconds, processor| Counters {
            processor: Duration::from_millis(processor),
            at: at + Duration::from_millis(milliseconds),
            ..before
        };
        assert_eq!(before.percent_until(&later(2000, 4500)), Some((150.0, 2.0)));
        assert_eq!(before.percent_until(&later(3000, 1510)), Some((0.3, 3.0)));
        assert_eq!(before.percent_until(&later(1000, 0)), Some((0.0, 1.0)), "a clock that went back");
        assert_eq!(before.percent_until(&before), None);
    }
}
