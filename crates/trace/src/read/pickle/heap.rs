//! Where lists, dicts and tuples live, each named by a number.

use super::value::Value;
use crate::intern::Strings;

/// Picklers write long lists in batches of this many items; a smaller batch is a list's last.
const FULL_BATCH: usize = 1000;

/// Replaces dicts and lists by smaller records while a pickle is read.
pub(crate) trait Condense {
    /// What replaces them.
    type Record: Copy;

    /// Called when an empty dict gets its first `entries` (key, value, key, value …). With a record the entries are
    /// dropped and the dict is complete; with `None` they are kept as they are.
    fn dict(&mut self, entries: &[Value], heap: &mut Heap<Self::Record>) -> Option<Self::Record>;

    /// Called when an empty list gets all of its `items` at once. With a record the items are dropped and the list is
    /// complete; with `None` they are kept as they are.
    fn list(&mut self, items: &[Value], heap: &Heap<Self::Record>) -> Option<Self::Record>;

    /// What a record stands for, in error messages.
    fn kind(record: Self::Record) -> &'static str;

    /// About how many bytes of memory the records take.
    fn memory(&self) -> usize;
}

/// A list or a dict.
#[derive(Debug)]
pub(crate) enum Container<R> {
    /// A list's items; or a dict's entries: key, value, key, value …, where a later one replaces an earlier one.
    Values(Vec<Value>),
    /// What it was condensed to.
    Record(R),
}

/// The containers of a pickle, and its strings.
#[derive(Debug)]
pub(crate) struct Heap<R> {
    pub(crate) strings: Strings,
    lists: Vec<Container<R>>,
    dicts: Vec<Container<R>>,
    tuple_items: Vec<Value>,
    /// How many values were put into lists and dicts that are not condensed.
    held: usize,
}

impl<R: Copy> Heap<R> {
    pub(crate) fn new(strings: Strings) -> Self {
        Heap { strings, lists: Vec::new(), dicts: Vec::new(), tuple_items: Vec::new(), held: 0 }
    }

    /// A new list of `items`; `None` when there are too many lists.
    #[inline]
    pub(crate) fn new_list(&mut self, items: &[Value]) -> Option<Value> {
        let id = u32::try_from(self.lists.len()).ok()?;
        self.lists.push(Container::Values(items.to_vec()));
        self.held += items.len();
        Some(Value::List(id))
    }

    /// A new dict without entries; `None` when there are too many dicts.
    #[inline]
    pub(crate) fn new_dict(&mut self) -> Option<Value> {
        let id = u32::try_from(self.dicts.len()).ok()?;
        self.dicts.push(Container::Values(Vec::new()));
        Some(Value::Dict(id))
    }

    /// A new tuple of `items`; `None` when there are too many.
    #[inline]
    pub(crate) fn new_tuple(&mut self, items: &[Value]) -> Option<Value> {
        let length = u32::try_from(items.len()).ok()?;
        // Tuples do not change, so one that equals the last may share its items: pools are the same for event after event.
        if self.tuple_items.ends_with(items) {
            let start = u32::try_from(self.tuple_items.len() - items.len()).ok()?;
            return Some(Value::Tuple { start, length });
        }
        let start = u32::try_from(self.tuple_items.len()).ok()?;
        self.tuple_items.extend_from_slice(items);
        Some(Value::Tuple { start, length })
    }

    /// Adds `items` to a list; the record it was condensed to, if it was.
    #[inline]
    pub(crate) fn extend_list(&mut self, list: u32, items: &[Value]) -> Result<(), R> {
        match &mut self.lists[list as usize] {
            Container::Values(values) if values.is_empty() => *values = items.to_vec(),
            Container::Values(values) => values.extend_from_slice(items),
            Container::Record(record) => return Err(*record),
        }
        self.held += items.len();
        Ok(())
    }

    /// Whether a list has no items and is not condensed.
    #[inline]
    pub(crate) fn is_empty_list(&self, list: u32) -> bool {
        matches!(&self.lists[list as usize], Container::Values(values) if values.is_empty())
    }

    /// The record that stands for a list with `items`, its first batch, if there is one and no other batch follows.
    #[inline]
    pub(crate) fn condense_items<C: Condense<Record = R>>(&self, items: &[Value], condenser: &mut C) -> Option<R> {
        if items.len() < FULL_BATCH { condenser.list(items, self) } else { None }
    }

    /// Adds a batch of `items`, as APPENDS does, to a list; the record it was condensed to, if it was.
    #[inline]
    pub(crate) fn extend_list_by_batch<C: Condense<Record = R>>(
        &mut self,
        list: u32,
        items: &[Value],
        condenser: &mut C,
    ) -> Result<(), R> {
        if self.is_empty_list(list)
            && let Some(record) = self.condense_items(items, condenser)
        {
            self.lists[list as usize] = Container::Record(record);
            return Ok(());
        }
        self.extend_list(list, items)
    }

    /// Adds `entries` to a dict; the record it was condensed to, if it was.
    #[inline]
    pub(crate) fn extend_dict<C: Condense<Record = R>>(
        &mut self,
        dict: u32,
        entries: &[Value],
        condenser: &mut C,
    ) -> Result<(), R> {
        match &mut self.dicts[dict as usize] {
            Container::Values(values) if values.is_empty() => {
                if let Some(record) = condenser.dict(entries, self) {
                    self.dicts[dict as usize] = Container::Record(record);
                    return Ok(());
                }
                self.dicts[dict as usize] = Container::Values(entries.to_vec());
            }
            Container::Values(values) => values.extend_from_slice(entries),
            Container::Record(record) => return Err(*record),
        }
        self.held += entries.len();
        Ok(())
    }

    pub(crate) fn list(&self, list: u32) -> &Container<R> {
        &self.lists[list as usize]
    }

    pub(crate) fn dict(&self, dict: u32) -> &Container<R> {
        &self.dicts[dict as usize]
    }

    pub(crate) fn tuple(&self, start: u32, length: u32) -> &[Value] {
        &self.tuple_items[start as usize..][..length as usize]
    }

    /// Takes the items out of a list, which is empty until they are put back or it is condensed.
    pub(crate) fn take_list(&mut self, list: u32) -> Vec<Value> {
        match &mut self.lists[list as usize] {
            Container::Values(items) => {
                self.held -= items.len();
                std::mem::take(items)
            }
            Container::Record(_) => Vec::new(),
        }
    }

    /// Undoes [`Heap::take_list`].
    pub(crate) fn put_back_list(&mut self, list: u32, items: Vec<Value>) {
        self.held += items.len();
        self.lists[list as usize] = Container::Values(items);
    }

    /// Replaces an empty list by a record.
    pub(crate) fn condense_list(&mut self, list: u32, record: R) {
        self.lists[list as usize] = Container::Record(record);
    }

    /// Replaces a dict by a record.
    pub(crate) fn condense_dict(&mut self, dict: u32, record: R) {
        if let Container::Values(values) = std::mem::replace(&mut self.dicts[dict as usize], Container::Record(record))
        {
            self.held -= values.len();
        }
    }

    /// How many containers and values in them there are.
    pub(crate) fn size(&self) -> usize {
        self.held + self.tuple_items.len() + self.lists.len() + self.dicts.len()
    }

    /// About how many bytes of memory the heap takes.
    pub(crate) fn memory(&self) -> usize {
        (self.held + self.tuple_items.capacity()) * size_of::<Value>()
            + (self.lists.capacity() + self.dicts.capacity()) * size_of::<Container<R>>()
            + self.strings.memory()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_container_takes_no_more_than_its_vector() {
        assert_eq!(size_of::<Container<u64>>(), size_of::<Vec<Value>>());
    }
}
