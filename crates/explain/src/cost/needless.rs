//! Memory that could be free: which bytes, from which event to which.

/// Stretches of time in which memory is held without need.
#[derive(Clone, Debug, Default)]
pub struct Needless {
    /// First event, the event that frees it, bytes.
    stretches: Vec<(u32, u32, u64)>,
}

impl Needless {
    /// Adds `bytes` held from `first` until `end`.
    pub fn add(&mut self, first: u32, end: u32, bytes: u64) {
        if first < end {
            self.stretches.push((first, end, bytes));
        }
    }

    /// The most bytes at once.
    pub fn most_at_once(&self) -> u64 {
        let mut changes: Vec<(u32, bool, u64)> = Vec::with_capacity(self.stretches.len() * 2);
        for &(first, end, bytes) in &self.stretches {
            changes.push((first, true, bytes));
            changes.push((end, false, bytes));
        }
        // At one event what goes is gone before the next comes.
        changes.sort_unstable();
        let (mut held, mut most) = (0u64, 0u64);
        for (_, comes, bytes) in changes {
            held = if comes { held.saturating_add(bytes) } else { held.saturating_sub(bytes) };
            most = most.max(held);
        }
        most
    }

    /// The highest of `levels` without this memory. `at_start` is the level before the first event.
    pub fn peak_without(&self, levels: &[u64], at_start: u64) -> u64 {
        let mut less = vec![0i128; levels.len() + 1];
        let last = levels.len();
        for &(first, end, bytes) in &self.stretches {
            less[(first as usize).min(last)] += i128::from(bytes);
            less[(end as usize).min(last)] -= i128::from(bytes);
        }
        let (mut now, mut highest) = (0i128, at_start);
        for (&level, change) in levels.iter().zip(less) {
            now += change;
            highest = highest.max(level.saturating_sub(u64::try_from(now).unwrap_or(0)));
        }
        highest
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::OUTSIDE;

    #[test]
    fn the_peak_moves_to_where_nothing_is_needless() {
        let mut needless = Needless::default();
        needless.add(1, 3, 40);
        needless.add(2, OUTSIDE, 10);
        needless.add(3, 3, 500);
        assert_eq!(needless.most_at_once(), 50);
        assert_eq!(needless.peak_without(&[10, 60, 100, 70], 5), 60);
        assert_eq!(needless.peak_without(&[10, 60, 100, 55], 5), 50);
        assert_eq!(Needless::default().peak_without(&[10, 60], 70), 70);
    }

    #[test]
    fn what_goes_and_what_comes_at_one_event_are_never_both_held() {
        let mut needless = Needless::default();
        needless.add(0, 5, 7);
        needless.add(5, 9, 6);
        assert_eq!(needless.most_at_once(), 7);
    }
}
