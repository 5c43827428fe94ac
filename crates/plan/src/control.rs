//! Work on all cores that can be watched and stopped.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use vramfit_training::parallel;

/// What whoever waits for a search sees and says.
#[derive(Debug, Default)]
pub struct Control {
    stop: AtomicBool,
    simulated: AtomicU64,
}

impl Control {
    /// Asks for the best so far.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Whether that was asked.
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// How many candidates have been simulated.
    pub fn simulated(&self) -> u64 {
        self.simulated.load(Ordering::Relaxed)
    }

    pub(crate) fn note_simulated(&self) {
        self.simulated.fetch_add(1, Ordering::Relaxed);
    }

    /// `work` on each item, on all cores; the results in the items' order, `None` for those not done when stopped.
    pub fn map<T: Sync, R: Send>(&self, items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<Option<R>> {
        parallel::map(items, |item| (!self.is_stopped()).then(|| work(item)))
    }
}
