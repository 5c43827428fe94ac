//! The lists, dicts and tuples of a pickle, by number.

use super::value::{Kind, Packed, Value};
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

    /// What a record is, for error messages.
    fn kind(record: Self::Record) -> &'static str;

    /// About how many bytes of memory the records take.
    fn memory(&self) -> usize;
}

/// What a list or a dict holds.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Container<'a, R> {
    /// A list's items; or a dict's entries: key, value, key, value …, where a later one replaces an earlier one.
    Values(&'a [Value]),
    /// What it was condensed to.
    Record(R),
}

/// A list or a dict. There are millions, most of them condensed, so values are kept elsewhere.
#[derive(Clone, Copy, Debug)]
enum Slot<R> {
    Empty,
    /// The number of its values in [`Heap::values`].
    Values(u32),
    Record(R),
}

/// The containers of a pickle, and its strings.
#[derive(Debug)]
pub(crate) struct Heap<R> {
    pub(crate) strings: Strings,
    lists: Vec<Slot<R>>,
    dicts: Vec<Slot<R>>,
    /// What the lists and dicts hold that are neither empty nor condensed.
    values: Vec<Vec<Value>>,
    tuple_items: Vec<Value>,
    /// Numbers that do not fit into a value.
    wide: Vec<Kind>,
    /// How many values there are in `values`.
    held: usize,
}

/// There are more than 2^32 containers of a kind.
#[derive(Debug)]
pub(crate) struct Full;

/// Why a container cannot be added to.
#[derive(Debug)]
pub(crate) enum Refused<R> {
    /// It was condensed to this.
    Condensed(R),
    /// There are too many containers.
    Full,
}

impl<R: Copy> Heap<R> {
    pub(crate) fn new(strings: Strings) -> Self {
        Heap {
            strings,
            lists: Vec::new(),
            dicts: Vec::new(),
            values: Vec::new(),
            tuple_items: Vec::new(),
            wide: Vec::new(),
            held: 0,
        }
    }

    /// A value for a number.
    #[inline]
    pub(crate) fn number(&mut self, number: Kind) -> Result<Value, Full> {
        if let Kind::Int(number) = number
            && let Some(value) = Value::int(number)
        {
            return Ok(value);
        }
        self.wide_number(number)
    }

    #[cold]
    fn wide_number(&mut self, number: Kind) -> Result<Value, Full> {
        let index = u32::try_from(self.wide.len()).map_err(|_| Full)?;
        self.wide.push(number);
        Ok(Value::wide(index))
    }

    /// What a value is.
    #[inline]
    pub(crate) fn kind(&self, value: Value) -> Kind {
        match value.unpack() {
            Packed::Kind(kind) => kind,
            Packed::Wide(index) => self.wide[index as usize],
        }
    }

    /// A new list without items.
    #[inline]
    pub(crate) fn new_list(&mut self) -> Result<u32, Full> {
        let list = u32::try_from(self.lists.len()).map_err(|_| Full)?;
        self.lists.push(Slot::Empty);
        Ok(list)
    }

    /// A new dict without entries.
    #[inline]
    pub(crate) fn new_dict(&mut self) -> Result<u32, Full> {
        let dict = u32::try_from(self.dicts.len()).map_err(|_| Full)?;
        self.dicts.push(Slot::Empty);
        Ok(dict)
    }

    /// A new tuple of `items`.
    #[inline]
    pub(crate) fn new_tuple(&mut self, items: &[Value]) -> Result<Value, Full> {
        let length = u32::try_from(items.len()).map_err(|_| Full)?;
        // Tuples do not change, so one that equals the last may share its items: pools are the same event after event.
        let is_same = self.tuple_items.ends_with(items);
        let start = if is_same { self.tuple_items.len() - items.len() } else { self.tuple_items.len() };
        let start = u32::try_from(start).map_err(|_| Full)?;
        if !is_same {
            self.tuple_items.extend_from_slice(items);
        }
        Value::tuple(start, length).ok_or(Full)
    }

    /// Adds `items` to a list.
    #[inline]
    pub(crate) fn extend_list(&mut self, list: u32, items: &[Value]) -> Result<(), Refused<R>> {
        let slot = self.lists[list as usize];
        self.lists[list as usize] = self.extend(slot, items)?;
        Ok(())
    }

    /// Adds a batch of `items`, as APPENDS does, to a list.
    #[inline]
    pub(crate) fn extend_list_by_batch<C: Condense<Record = R>>(
        &mut self,
        list: u32,
        items: &[Value],
        condenser: &mut C,
    ) -> Result<(), Refused<R>> {
        if self.is_empty_list(list)
            && let Some(record) = self.condense_items(items, condenser)
        {
            self.lists[list as usize] = Slot::Record(record);
            return Ok(());
        }
        self.extend_list(list, items)
    }

    /// Adds `entries` to a dict.
    #[inline]
    pub(crate) fn extend_dict<C: Condense<Record = R>>(
        &mut self,
        dict: u32,
        entries: &[Value],
        condenser: &mut C,
    ) -> Result<(), Refused<R>> {
        let slot = self.dicts[dict as usize];
        if matches!(slot, Slot::Empty)
            && let Some(record) = condenser.dict(entries, self)
        {
            self.dicts[dict as usize] = Slot::Record(record);
            return Ok(());
        }
        self.dicts[dict as usize] = self.extend(slot, entries)?;
        Ok(())
    }

    fn extend(&mut self, slot: Slot<R>, added: &[Value]) -> Result<Slot<R>, Refused<R>> {
        match slot {
            Slot::Record(record) => return Err(Refused::Condensed(record)),
            Slot::Empty if added.is_empty() => return Ok(slot),
            Slot::Empty => {
                let number = u32::try_from(self.values.len()).map_err(|_| Refused::Full)?;
                self.values.push(added.to_vec());
                self.held += added.len();
                return Ok(Slot::Values(number));
            }
            Slot::Values(number) => self.values[number as usize].extend_from_slice(added),
        }
        self.held += added.len();
        Ok(slot)
    }

    /// Whether a list has no items and is not condensed.
    #[inline]
    pub(crate) fn is_empty_list(&self, list: u32) -> bool {
        matches!(self.lists[list as usize], Slot::Empty)
    }

    /// The record for a list with `items`, its first batch, if there is one and no other batch follows.
    #[inline]
    pub(crate) fn condense_items<C: Condense<Record = R>>(&self, items: &[Value], condenser: &mut C) -> Option<R> {
        if items.len() < FULL_BATCH { condenser.list(items, self) } else { None }
    }

    #[inline]
    pub(crate) fn list(&self, list: u32) -> Container<'_, R> {
        self.container(self.lists[list as usize])
    }

    #[inline]
    pub(crate) fn dict(&self, dict: u32) -> Container<'_, R> {
        self.container(self.dicts[dict as usize])
    }

    #[inline]
    fn container(&self, slot: Slot<R>) -> Container<'_, R> {
        match slot {
            Slot::Empty => Container::Values(&[]),
            Slot::Values(number) => Container::Values(&self.values[number as usize]),
            Slot::Record(record) => Container::Record(record),
        }
    }

    pub(crate) fn tuple(&self, start: u32, length: u32) -> &[Value] {
        &self.tuple_items[start as usize..][..length as usize]
    }

    /// Takes the items out of a list, which is without them until they are put back or it is condensed.
    pub(crate) fn take_list(&mut self, list: u32) -> Vec<Value> {
        self.take_values(self.lists[list as usize])
    }

    /// Undoes [`Heap::take_list`].
    pub(crate) fn put_back_list(&mut self, list: u32, items: Vec<Value>) {
        if let Slot::Values(number) = self.lists[list as usize] {
            self.held += items.len();
            self.values[number as usize] = items;
        }
    }

    fn take_values(&mut self, slot: Slot<R>) -> Vec<Value> {
        let Slot::Values(number) = slot else { return Vec::new() };
        let values = std::mem::take(&mut self.values[number as usize]);
        self.held -= values.len();
        values
    }

    /// Replaces a list by a record.
    #[inline]
    pub(crate) fn condense_list(&mut self, list: u32, record: R) {
        self.take_values(self.lists[list as usize]);
        self.lists[list as usize] = Slot::Record(record);
    }

    /// Replaces a dict by a record.
    pub(crate) fn condense_dict(&mut self, dict: u32, record: R) {
        self.take_values(self.dicts[dict as usize]);
        self.dicts[dict as usize] = Slot::Record(record);
    }

    /// How many containers and values in them there are.
    pub(crate) fn size(&self) -> usize {
        self.held + self.tuple_items.len() + self.lists.len() + self.dicts.len()
    }

    /// About how many bytes of memory the heap takes.
    pub(crate) fn memory(&self) -> usize {
        (self.held + self.tuple_items.capacity()) * size_of::<Value>()
            + (self.lists.capacity() + self.dicts.capacity()) * size_of::<Slot<R>>()
            + self.values.capacity() * size_of::<Vec<Value>>()
            + self.wide.capacity() * size_of::<Kind>()
            + self.strings.memory()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As many alternatives as a snapshot's records have.
    #[derive(Clone, Copy)]
    #[expect(dead_code, reason = "only its size matters")]
    enum Record {
        First(u32),
        Second(u32),
        Third(u32),
    }

    #[test]
    fn a_condensed_container_takes_eight_bytes() {
        assert_eq!(size_of::<Slot<Record>>(), 8);
    }
}
