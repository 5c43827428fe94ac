//! What was found once is not looked for again, whichever thread asks.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, PoisonError};

/// Answers by what was asked.
#[derive(Debug)]
pub struct Memo<K, V> {
    known: Mutex<HashMap<K, V>>,
    /// With so many it begins anew.
    most: usize,
}

impl<K, V> Default for Memo<K, V> {
    fn default() -> Memo<K, V> {
        Memo::of_at_most(usize::MAX)
    }
}

impl<K, V> Memo<K, V> {
    /// For answers that take much room.
    pub fn of_at_most(most: usize) -> Memo<K, V> {
        Memo { known: Mutex::default(), most }
    }
}

impl<K: Eq + Hash, V: Clone> Memo<K, V> {
    /// The answer, found by `find` where it is not known yet. Two threads that ask at once may both look for it: none waits for the
    /// other.
    pub fn get(&self, key: K, find: impl FnOnce() -> Option<V>) -> Option<V> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner).get(&key).cloned();
        known.or_else(|| {
            let found = find()?;
            let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            if known.len() >= self.most {
                known.clear();
            }
            known.insert(key, found.clone());
            Some(found)
        })
    }
}
