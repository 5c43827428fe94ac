//! Work on all cores that can be watched and stopped.

use std::num::NonZero;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread;

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
        let results: Vec<Mutex<Option<R>>> = items.iter().map(|_| Mutex::new(None)).collect();
        let next = AtomicUsize::new(0);
        let worker = || {
            while !self.is_stopped() {
                let index = next.fetch_add(1, Ordering::Relaxed);
                let Some(item) = items.get(index) else { return };
                let result = work(item);
                if let Ok(mut place) = results[index].lock() {
                    *place = Some(result);
                }
            }
        };
        thread::scope(|scope| {
            for _ in 1..cores().min(items.len()) {
                scope.spawn(worker);
            }
            worker();
        });
        results.into_iter().map(|place| place.into_inner().ok().flatten()).collect()
    }
}

/// How many threads work at once.
pub fn cores() -> usize {
    thread::available_parallelism().map_or(1, NonZero::get)
}
