//! What a snapshot's dicts become while the pickle is still being read: events, frames and stacks.
//!
//! A trace entry takes about twenty values in a pickle and 64 bytes as an [`Event`]; its list of frames is one of the few
//! distinct stacks of the recording. So both are replaced as soon as they are complete. A dict that is not a valid trace
//! entry is left as it is: the decoder reports it with its path.

use super::event::{self, Entry};
use super::frame;
use super::key::Key;
use super::path::Path;
use super::record::{Heap, Record};
use crate::intern::Stacks;
use crate::read::pickle::heap::Container;
use crate::read::pickle::{Condense, Value};
use crate::snapshot::{Event, FrameId};

/// Turns dicts into records.
#[derive(Debug, Default)]
pub(crate) struct Condenser {
    pub(crate) stacks: Stacks,
    pub(crate) events: Vec<Event>,
    /// The current stack.
    scratch: Vec<FrameId>,
    /// Set when a list of frames is invalid: trying it again for each entry that shares it would take too long, and the
    /// file will be refused anyway.
    is_off: bool,
}

impl Condense for Condenser {
    type Record = Record;

    fn dict(&mut self, entries: &[Value], heap: &mut Heap) -> Option<Record> {
        if self.is_off {
            return None;
        }
        let has = |wanted: Key| entries.iter().step_by(2).any(|&key| Key::of(key) == Some(wanted));
        if has(Key::Action) {
            return self.event(entries, heap);
        }
        if has(Key::Filename) && has(Key::Name) && has(Key::Line) {
            let frame = frame::read_frame(entries, heap, &Path::Root).ok()?;
            return Some(Record::Frame(self.stacks.intern_frame(frame)));
        }
        None
    }

    fn list(&mut self, items: &[Value], heap: &Heap) -> Option<Record> {
        self.scratch.clear();
        for item in items {
            let dict = item.as_dict()?;
            let Container::Record(Record::Frame(frame)) = heap.dict(dict) else { return None };
            self.scratch.push(frame);
        }
        if items.is_empty() {
            return None;
        }
        Some(Record::Stack(self.stacks.intern_stack(&self.scratch)))
    }

    fn kind(record: Record) -> &'static str {
        record.kind()
    }

    fn memory(&self) -> usize {
        self.stacks.memory() + self.events.capacity() * size_of::<Event>()
    }
}

impl Condenser {
    fn event(&mut self, entries: &[Value], heap: &mut Heap) -> Option<Record> {
        let number = u32::try_from(self.events.len()).ok()?;
        match event::read_entry(entries, heap, &mut self.stacks, &Path::Root) {
            Ok(Entry::Event(event)) => {
                self.events.push(event);
                Some(Record::Event(number))
            }
            Ok(Entry::UnknownAction(_)) => None,
            Err(_) => {
                self.is_off = true;
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_of_a_condenser_is_that_of_its_stacks_and_events() {
        let condenser = Condenser { events: Vec::with_capacity(100), ..Condenser::default() };
        assert_eq!(condenser.memory(), condenser.stacks.memory() + 100 * 64);
    }
}
