//! Progress and cancellation of a search.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use vramfit_training::parallel;

/// Shared between a search and the thread that waits for it.
#[derive(Default)]
pub struct Control {
    stop: AtomicBool,
    simulated: AtomicU64,
    is_over: Option<IsOver>,
}

/// Whether the time for a search is over.
pub type IsOver = Box<dyn Fn() -> bool + Send + Sync>;

impl Control {
    /// A search that stops by itself once its time is over.
    pub fn until(is_over: IsOver) -> Control {
        Control { is_over: Some(is_over), ..Control::default() }
    }

    /// Stops the search; it returns the best result so far.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Whether the search was stopped.
    pub fn is_stopped(&self) -> bool {
        if !self.stop.load(Ordering::Relaxed) && self.is_over.as_ref().is_some_and(|is_over| is_over()) {
            self.stop();
        }
        self.stop.load(Ordering::Relaxed)
    }

    /// The number of simulated candidates.
    pub fn simulated(&self) -> u64 {
        self.simulated.load(Ordering::Relaxed)
    }

    pub(crate) fn note_simulated(&self) {
        self.simulated.fetch_add(1, Ordering::Relaxed);
    }

    /// Maps items in parallel, in order. Items not started when the search is stopped give `None`.
    pub fn map<T: Sync, R: Send>(&self, items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<Option<R>> {
        parallel::map(items, |item| (!self.is_stopped()).then(|| work(item)))
    }
}
