//! The memo: values that a pickle stores once and refers to by number.

use std::collections::HashMap;

use super::value::Value;

/// Values by number. Picklers count up from 0; a number out of line goes into a map, so that it allocates nothing.
#[derive(Debug, Default)]
pub(crate) struct Memo {
    dense: Vec<Value>,
    sparse: HashMap<u32, Value>,
}

impl Memo {
    /// The value stored as `index`.
    #[inline]
    pub(crate) fn get(&self, index: u32) -> Option<&Value> {
        match self.dense.get(index as usize) {
            None if !self.sparse.is_empty() => self.sparse.get(&index),
            value => value,
        }
    }

    /// Stores `value` as `index`; whether it replaces another.
    #[inline]
    pub(crate) fn put(&mut self, index: u32, value: Value) -> bool {
        let index_in_dense = index as usize;
        if index_in_dense < self.dense.len() {
            self.dense[index_in_dense] = value;
            true
        } else if index_in_dense == self.dense.len() && self.sparse.is_empty() {
            self.dense.push(value);
            false
        } else {
            self.sparse.insert(index, value).is_some()
        }
    }

    /// How many values are stored: the number that MEMOIZE gives the next. `None` when there are too many.
    #[inline]
    pub(crate) fn next(&self) -> Option<u32> {
        u32::try_from(self.dense.len() + self.sparse.len()).ok()
    }

    /// About how many bytes of memory the memo takes.
    pub(crate) fn memory(&self) -> usize {
        self.dense.capacity() * size_of::<Value>() + self.sparse.capacity() * (size_of::<(u32, Value)>() + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_out_of_line_is_found_again_and_allocates_little() {
        let mut memo = Memo::default();
        memo.put(0, Value::small(10));
        memo.put(u32::MAX, Value::small(20));
        memo.put(1, Value::small(30));
        memo.put(u32::MAX, Value::small(40));
        assert_eq!(memo.get(0), Some(&Value::small(10)));
        assert_eq!(memo.get(1), Some(&Value::small(30)));
        assert_eq!(memo.get(u32::MAX), Some(&Value::small(40)));
        assert_eq!(memo.get(2), None);
        assert!(memo.memory() < 4096);
    }

    #[test]
    fn the_next_number_is_the_count_as_in_cpython() {
        let mut memo = Memo::default();
        memo.put(0, Value::small(0));
        memo.put(7, Value::small(7));
        assert_eq!(memo.next(), Some(2));
    }

    #[test]
    fn the_memory_of_a_memo_is_that_of_its_tables() {
        let mut memo = Memo::default();
        assert_eq!(memo.memory(), 0);
        for index in 0..1000 {
            memo.put(index, Value::NONE);
        }
        let dense = memo.memory();
        assert_eq!(dense, 8 * memo.dense.capacity());
        assert!(dense >= 8000);
        for index in 5000..6000 {
            memo.put(index, Value::NONE);
        }
        // A number, a value and a byte of the table itself.
        assert_eq!(memo.memory() - dense, 17 * memo.sparse.capacity());
        assert!(memo.sparse.capacity() >= 1000);
    }

    #[test]
    fn storing_says_whether_an_entry_is_replaced() {
        let mut memo = Memo::default();
        assert!(!memo.put(0, Value::NONE));
        assert!(memo.put(0, Value::NONE));
        assert!(!memo.put(9, Value::NONE));
        assert!(memo.put(9, Value::NONE));
    }
}
