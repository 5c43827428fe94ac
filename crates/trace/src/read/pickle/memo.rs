//! The memo: values that a pickle stores once and asks for again by number.

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
    pub(crate) fn get(&self, index: u32) -> Option<Value> {
        match self.dense.get(index as usize) {
            Some(&value) => Some(value),
            None if self.sparse.is_empty() => None,
            None => self.sparse.get(&index).copied(),
        }
    }

    /// Stores `value` as `index`, in place of what was there.
    #[inline]
    pub(crate) fn put(&mut self, index: u32, value: Value) {
        let index_in_dense = index as usize;
        if index_in_dense < self.dense.len() {
            self.dense[index_in_dense] = value;
        } else if index_in_dense == self.dense.len() && self.sparse.is_empty() {
            self.dense.push(value);
        } else {
            self.sparse.insert(index, value);
        }
    }

    /// Stores `value` under the number of values stored so far, as MEMOIZE does; `false` when there are too many.
    #[inline]
    pub(crate) fn memoize(&mut self, value: Value) -> bool {
        let Ok(index) = u32::try_from(self.dense.len() + self.sparse.len()) else { return false };
        self.put(index, value);
        true
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
        memo.put(0, Value::Int(10));
        memo.put(u32::MAX, Value::Int(20));
        memo.put(1, Value::Int(30));
        memo.put(u32::MAX, Value::Int(40));
        assert_eq!(memo.get(0), Some(Value::Int(10)));
        assert_eq!(memo.get(1), Some(Value::Int(30)));
        assert_eq!(memo.get(u32::MAX), Some(Value::Int(40)));
        assert_eq!(memo.get(2), None);
        assert!(memo.memory() < 4096);
    }

    #[test]
    fn memoize_counts_what_is_stored_as_cpython_does() {
        let mut memo = Memo::default();
        assert!(memo.memoize(Value::Int(0)));
        memo.put(7, Value::Int(7));
        assert!(memo.memoize(Value::Int(2)));
        assert_eq!(memo.get(2), Some(Value::Int(2)));
    }
}
