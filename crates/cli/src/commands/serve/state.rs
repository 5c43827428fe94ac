//! The newest sample and the history, updated by a background thread.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use vramfit_monitor::history::History;
use vramfit_monitor::sample::Sample;

use crate::failure;
use crate::feed::Samples;

/// Points per GPU: ten minutes at one sample per second.
const HISTORY: usize = 600;

/// The data that requests are answered from.
#[derive(Default)]
pub struct State {
    taken: Mutex<Option<Taken>>,
}

/// The newest sample and the history.
pub struct Taken {
    /// The newest sample.
    pub sample: Sample,
    /// When it was taken.
    pub at: Instant,
    /// The number of samples so far.
    pub count: u64,
    /// The number of driver calls that hang.
    pub stuck: usize,
    /// The last minutes.
    pub history: History,
}

impl State {
    /// Reads the data; `None` before the first sample.
    pub fn with<T>(&self, look: impl FnOnce(Option<&Taken>) -> T) -> T {
        look(self.taken.lock().unwrap_or_else(PoisonError::into_inner).as_ref())
    }

    fn put(&self, sample: Sample, stuck: usize) {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let (count, mut history) = match taken.take() {
            Some(last) => (last.count, last.history),
            None => (0, History::new(HISTORY)),
        };
        history.add(&sample);
        *taken = Some(Taken { sample, at: Instant::now(), count: count + 1, stuck, history });
    }
}

/// Takes samples until the process ends; a request never waits for one. At the end of a recording the last sample stays.
pub fn keep_sampling(first: Option<Sample>, mut samples: Samples, interval: Duration, state: &Arc<State>) {
    if let Some(first) = first {
        state.put(first, samples.stuck_count());
    }
    let state = Arc::clone(state);
    thread::spawn(move || {
        let mut next = Instant::now();
        loop {
            next = (next + samples.pause(interval)).max(Instant::now());
            thread::sleep(next.saturating_duration_since(Instant::now()));
            match samples.next() {
                Ok(Some(sample)) => state.put(sample, samples.stuck_count()),
                Ok(None) => return,
                // Keep serving if the disk is full; report it once.
                Err(failure) => {
                    failure::print(&failure);
                    samples.stop_recording();
                }
            }
        }
    });
}
