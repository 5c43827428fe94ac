//! A few values by name; the one that was not used for the longest time goes first.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

/// The values, the most recently used first. Looking one up takes time in proportion to their number, so it is for hundreds.
pub struct Recent<T> {
    most: usize,
    values: Mutex<VecDeque<(String, T)>>,
}

impl<T: Clone> Recent<T> {
    /// At most so many values.
    pub fn new(most: usize) -> Recent<T> {
        Recent { most, values: Mutex::default() }
    }

    /// The value of a name, which is then the most recently used.
    pub fn get(&self, name: &str) -> Option<T> {
        let mut values = self.values.lock().unwrap_or_else(PoisonError::into_inner);
        let found = values.iter().position(|(known, _)| known == name)?;
        let (name, value) = values.remove(found)?;
        values.push_front((name, value.clone()));
        Some(value)
    }

    /// Keeps a value; where there are too many, drops the least recently used one.
    pub fn put(&self, name: String, value: T) {
        let mut values = self.values.lock().unwrap_or_else(PoisonError::into_inner);
        values.retain(|(known, _)| *known != name);
        values.push_front((name, value));
        values.truncate(self.most);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_used_for_the_longest_time_goes_first() {
        let recent = Recent::new(2);
        recent.put("a".to_owned(), 1);
        recent.put("b".to_owned(), 2);
        assert_eq!(recent.get("a"), Some(1));
        recent.put("c".to_owned(), 3);
        assert_eq!((recent.get("a"), recent.get("b"), recent.get("c")), (Some(1), None, Some(3)));
        recent.put("a".to_owned(), 4);
        assert_eq!(recent.get("a"), Some(4));
    }
}
