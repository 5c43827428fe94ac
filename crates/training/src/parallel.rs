//! Independent tasks on all cores.
//!
//! A task may start others: a thread that waits for them runs other tasks meanwhile.

use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{LazyLock, Mutex};
use std::thread;

use rayon::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};

/// Bytes of a thread's stack: a waiting thread runs other tasks on top of its own.
const STACK: usize = 16 << 20;

/// The threads; `None` where there is only one core or threads cannot be started.
static POOL: LazyLock<Option<ThreadPool>> = LazyLock::new(|| {
    let pool = ThreadPoolBuilder::new().num_threads(cores()).stack_size(STACK);
    (cores() > 1).then(|| pool.build().ok()).flatten()
});

/// Runs `work` on each item on all cores; the results are in the order of the items.
///
/// # Panics
/// As `work` does.
pub fn map<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    match POOL.as_ref().filter(|_| items.len() > 1) {
        Some(pool) => pool.install(|| items.par_iter().with_max_len(1).map(&work).collect()),
        None => items.iter().map(work).collect(),
    }
}

/// As [`map`], for a process that does nothing else: this thread, whose memory is already mapped, works too, and other threads
/// are started for this call only.
///
/// # Panics
/// As `work` does.
pub fn map_once<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let threads = cores().min(items.len());
    if threads <= 1 || rayon::current_thread_index().is_some() {
        return map(items, work);
    }
    let results: Mutex<Vec<(usize, R)>> = Mutex::new(Vec::with_capacity(items.len()));
    let next = AtomicUsize::new(0);
    let worker = || {
        while let index = next.fetch_add(1, Ordering::Relaxed)
            && let Some(item) = items.get(index)
        {
            let result = work(item);
            if let Ok(mut results) = results.lock() {
                results.push((index, result));
            }
        }
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

/// Runs both at the same time.
///
/// # Panics
/// As either does.
pub fn both<A: Send, B: Send>(one: impl FnOnce() -> A + Send, other: impl FnOnce() -> B + Send) -> (A, B) {
    match POOL.as_ref() {
        Some(pool) => pool.install(|| rayon::join(one, other)),
        None => (one(), other()),
    }
}

/// How many threads run at the same time.
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
        assert_eq!(map_once(&items, |&item| 10 * item + 45), sums);
        let (one, other) = both(|| map(&items, |item| item + 1), || map(&items, |item| item + 2));
        assert!(one.iter().zip(&other).all(|(one, other)| one + 1 == *other));
    }
}
