//! What every part of the decoder needs: opening containers, and a bound on the work.

use super::condense::Condenser;
use super::key::Key;
use super::path::Path;
use super::record::Heap;
use super::{field, frame};
use crate::read::error::ReadError;
use crate::read::pickle::Value;
use crate::read::pickle::heap::Container;
use crate::read::pickle::machine::Loaded;
use crate::snapshot::StackId;

/// Decodes what a pickle built.
pub(crate) struct Decoder {
    pub(crate) heap: Heap,
    pub(crate) condenser: Condenser,
    /// How many more values may be visited. A pickle can refer to one list many times, which PyTorch does for frames
    /// only. Without a limit such a file could take exponential time.
    visits_left: usize,
}

impl Decoder {
    /// The decoder of `loaded`, and the root value.
    pub(crate) fn new(loaded: Loaded<Condenser>) -> (Decoder, Value) {
        let Loaded { root, heap, condenser } = loaded;
        let visits_left = 2 * heap.size();
        (Decoder { heap, condenser, visits_left }, root)
    }

    /// A list's number and length, counted as visited.
    pub(crate) fn open_list(&mut self, value: Value, path: &Path<'_>) -> Result<(u32, usize), ReadError> {
        let list = match value.as_list() {
            Some(list) => list,
            None => return Err(field::wrong_type(value, &self.heap, "a list", path)),
        };
        let length = match self.heap.list(list) {
            Container::Values(items) => items.len(),
            Container::Record(_) => return Err(field::wrong_type(value, &self.heap, "a list", path)),
        };
        self.visit(length, path)?;
        Ok((list, length))
    }

    /// A dict's number and how many entries it has, counted as visited.
    pub(crate) fn open_dict(
        &mut self,
        value: Value,
        expected: &'static str,
        path: &Path<'_>,
    ) -> Result<(u32, usize), ReadError> {
        let dict = match value.as_dict() {
            Some(dict) => dict,
            None => return Err(field::wrong_type(value, &self.heap, expected, path)),
        };
        let values = match self.heap.dict(dict) {
            Container::Values(entries) => entries.len(),
            Container::Record(_) => return Err(field::wrong_type(value, &self.heap, expected, path)),
        };
        self.visit(values, path)?;
        Ok((dict, values / 2))
    }

    /// An item of a list that was opened.
    pub(crate) fn item(&self, list: u32, index: usize) -> Value {
        match self.heap.list(list) {
            Container::Values(items) => items[index],
            Container::Record(_) => Value::NONE,
        }
    }

    /// Counts a container of `length` values as visited.
    pub(crate) fn visit(&mut self, length: usize, path: &Path<'_>) -> Result<(), ReadError> {
        match self.visits_left.checked_sub(length + 1) {
            Some(left) => {
                self.visits_left = left;
                Ok(())
            }
            None => Err(ReadError::SharedTooOften { path: path.to_string() }),
        }
    }

    pub(crate) fn stack(&mut self, frames: Value, path: &Path<'_>) -> Result<StackId, ReadError> {
        frame::read_stack(frames, &mut self.heap, &mut self.condenser.stacks, path)
    }

    /// Key and value of a dict's entry, where the key is one that is read.
    pub(crate) fn entry(&self, dict: u32, index: usize) -> Option<(Key, Value)> {
        let Container::Values(entries) = self.heap.dict(dict) else { return None };
        Some((Key::of(entries[2 * index])?, entries[2 * index + 1]))
    }
}
