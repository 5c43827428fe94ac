//! The last few minutes of each GPU, for graphs.

use std::collections::{HashMap, VecDeque};

use crate::sample::Sample;

/// One point of a GPU's graph; `None` where the value was missing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Microseconds since 1970.
    pub at: u64,
    /// Memory in use, in percent.
    pub memory: Option<f32>,
    /// Utilisation in percent.
    pub utilization: Option<f32>,
}

/// The last points of every GPU.
#[derive(Clone, Debug)]
pub struct History {
    length: usize,
    by_gpu: HashMap<usize, VecDeque<Point>>,
}

impl History {
    /// A history of `length` points per GPU.
    pub fn new(length: usize) -> History {
        History { length: length.max(1), by_gpu: HashMap::new() }
    }

    /// Adds a sample's points.
    pub fn add(&mut self, sample: &Sample) {
        for gpu in &sample.gpus {
            let points = self.by_gpu.entry(gpu.index).or_default();
            while points.len() >= self.length {
                points.pop_front();
            }
            let share = |memory: &crate::sample::Memory| (memory.used as f64 * 100.0 / memory.total as f64) as f32;
            points.push_back(Point {
                at: sample.taken_at,
                memory: gpu.memory.as_ref().ok().map(share),
                utilization: gpu.utilization.as_ref().ok().map(|percent| *percent as f32),
            });
        }
    }

    /// One GPU's points, oldest first.
    pub fn of(&self, gpu: usize) -> impl DoubleEndedIterator<Item = &Point> + ExactSizeIterator {
        const NONE: &VecDeque<Point> = &VecDeque::new();
        self.by_gpu.get(&gpu).unwrap_or(NONE).iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reading::Missing;
    use crate::sample::{Gpu, Vendor};

    #[test]
    fn only_the_last_points_are_kept_and_missing_values_stay_missing() {
        let mut history = History::new(3);
        for at in 0..5 {
            let mut gpu = Gpu::without_readings(0, Vendor::Nvidia, &Missing::Lost);
            gpu.utilization = Ok(at);
            history.add(&Sample {
                taken_at: u64::from(at),
                took: 0,
                hostname: String::new(),
                driver_version: Err(Missing::Lost),
                host_memory: Err(Missing::Lost),
                gpus: vec![gpu],
            });
        }
        let points: Vec<Point> = history.of(0).copied().collect();
        assert_eq!(points.iter().map(|point| point.at).collect::<Vec<_>>(), [2, 3, 4]);
        assert!(points.iter().all(|point| point.memory.is_none()));
        assert_eq!(history.of(9).len(), 0);
    }
}
