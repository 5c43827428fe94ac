//! A cache shared by threads.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, PoisonError};

/// Results by key.
#[derive(Debug)]
pub struct Memo<K, V> {
    results: Mutex<HashMap<K, V>>,
    /// The cache is cleared when it holds this many results.
    capacity: usize,
}

impl<K, V> Default for Memo<K, V> {
    fn default() -> Memo<K, V> {
        Memo::with_capacity(usize::MAX)
    }
}

impl<K, V> Memo<K, V> {
    /// A cache of limited size, for results that take much memory.
    pub fn with_capacity(capacity: usize) -> Memo<K, V> {
        Memo { results: Mutex::default(), capacity }
    }
}

impl<K: Eq + Hash, V: Clone> Memo<K, V> {
    /// The cached result, or that of `find`. Two threads may compute the same result at once: neither waits for the
    /// other. A `None` is not cached.
    pub fn get(&self, key: K, find: impl FnOnce() -> Option<V>) -> Option<V> {
        self.try_get(key, || find().ok_or(())).ok()
    }

    /// The cached result, or that of `find`. An error is not cached.
    pub fn try_get<E>(&self, key: K, find: impl FnOnce() -> Result<V, E>) -> Result<V, E> {
        let cached = self.results.lock().unwrap_or_else(PoisonError::into_inner).get(&key).cloned();
        if let Some(cached) = cached {
            return Ok(cached);
        }
        let found = find()?;
        let mut results = self.results.lock().unwrap_or_else(PoisonError::into_inner);
        if results.len() >= self.capacity {
            results.clear();
        }
        results.insert(key, found.clone());
        Ok(found)
    }
}
