//! Results that are computed once, whichever thread asks.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, PoisonError};

/// Results by what they were computed from.
#[derive(Debug)]
pub struct Memo<K, V> {
    known: Mutex<HashMap<K, V>>,
    /// With so many results all are dropped.
    capacity: usize,
}

impl<K, V> Default for Memo<K, V> {
    fn default() -> Memo<K, V> {
        Memo::of_at_most(usize::MAX)
    }
}

impl<K, V> Memo<K, V> {
    /// For results that take much memory.
    pub fn of_at_most(capacity: usize) -> Memo<K, V> {
        Memo { known: Mutex::default(), capacity }
    }
}

impl<K: Eq + Hash, V: Clone> Memo<K, V> {
    /// The result, from `find` where it is not known yet. Two threads that ask at once may both compute it: none waits
    /// for the other. What cannot be found is looked for again.
    pub fn get(&self, key: K, find: impl FnOnce() -> Option<V>) -> Option<V> {
        self.try_get(key, || find().ok_or(())).ok()
    }

    /// The same where it can be said why there is no result.
    pub fn try_get<E>(&self, key: K, find: impl FnOnce() -> Result<V, E>) -> Result<V, E> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner).get(&key).cloned();
        if let Some(known) = known {
            return Ok(known);
        }
        let found = find()?;
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= self.capacity {
            known.clear();
        }
        known.insert(key, found.clone());
        Ok(found)
    }
}
