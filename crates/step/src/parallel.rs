//! Independent work on all cores.

use std::cell::Cell;
use std::num::NonZero;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

thread_local! {
    /// Whether this thread is one of those that work for a [`map`]: what it maps itself it does alone.
    static IS_WORKER: Cell<bool> = const { Cell::new(false) };
}

/// `work` on each item, on all cores; the results in the items' order.
///
/// # Panics
/// As `work` does.
pub fn map<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let threads = cores().min(items.len());
    if threads <= 1 || IS_WORKER.get() {
        return items.iter().map(work).collect();
    }
    let results: Mutex<Vec<(usize, R)>> = Mutex::new(Vec::with_capacity(items.len()));
    let next = AtomicUsize::new(0);
    let worker = || {
        let was_worker = IS_WORKER.replace(true);
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(index) else { break };
            let result = work(item);
            if let Ok(mut results) = results.lock() {
                results.push((index, result));
            }
        }
        IS_WORKER.set(was_worker);
    };
    thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(worker);
        }
        worker();
    });
    let mut results = results.into_inner().unwrap_or_default();
    results.sort_unstable_by_key(|(index, _)| *index);
    results.into_iter().map(|(_, result)| result).collect()
}

/// How many threads work at once.
pub fn cores() -> usize {
    thread::available_parallelism().map_or(1, NonZero::get)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_the_order_of_the_items_also_within_a_map() {
        let items: Vec<u64> = (0..1000).collect();
        let sums = map(&items, |&item| map(&items[..10], |&other| item + other).into_iter().sum::<u64>());
        assert_eq!(sums, items.iter().map(|item| 10 * item + 45).collect::<Vec<u64>>());
    }
}
