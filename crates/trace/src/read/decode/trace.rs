//! `device_traces`: a list of trace entries a GPU.

use std::collections::BTreeMap;

use super::decoder::Decoder;
use super::event::{self, Entry};
use super::field;
use super::path::Path;
use super::record::Record;
use super::segment::MOST_DEVICES;
use crate::read::error::ReadError;
use crate::read::pickle::Value;
use crate::read::pickle::heap::Container;
use crate::snapshot::{Device, Event, Snapshot, StringId};

impl Decoder {
    pub(crate) fn traces(&mut self, value: Value, snapshot: &mut Snapshot, path: &Path<'_>) -> Result<(), ReadError> {
        if value == Value::NONE {
            return Ok(());
        }
        let (list, count) = self.open_list(value, path)?;
        if count > MOST_DEVICES {
            return Err(ReadError::OutOfRange {
                path: path.to_string(),
                found: count as i128,
                expected: "a list for each GPU, at most 1024",
            });
        }
        snapshot.devices.resize_with(count, Device::default);
        let mut unknown_actions = BTreeMap::new();
        for index in 0..count {
            let trace = self.item(list, index);
            snapshot.devices[index].events = self.trace(trace, &mut unknown_actions, &path.index(index))?;
        }
        let text = |word| self.heap.strings.get(word).to_owned();
        snapshot.unknown_actions = unknown_actions.into_iter().map(|(word, count)| (text(word), count)).collect();
        Ok(())
    }

    fn trace(
        &mut self,
        value: Value,
        unknown_actions: &mut BTreeMap<StringId, u64>,
        path: &Path<'_>,
    ) -> Result<Vec<Event>, ReadError> {
        let (list, count) = self.open_list(value, path)?;
        if count == self.condenser.events.len() && self.is_every_event_in_order(list, count) {
            return Ok(std::mem::take(&mut self.condenser.events));
        }
        let mut events = Vec::with_capacity(count);
        for index in 0..count {
            let item = self.item(list, index);
            let here = path.index(index);
            match self.trace_entry(item, &here)? {
                Entry::Event(event) => events.push(event),
                Entry::UnknownAction(word) => *unknown_actions.entry(word).or_default() += 1,
            }
        }
        Ok(events)
    }

    /// Whether a list is all the events there are, as it is where one GPU was recorded: then they need not be copied.
    fn is_every_event_in_order(&self, list: u32, count: usize) -> bool {
        (0..count).all(|index| match self.item(list, index).as_dict().map(|dict| self.heap.dict(dict)) {
            Some(Container::Record(Record::Event(number))) => number as usize == index,
            _ => false,
        })
    }

    fn trace_entry(&mut self, value: Value, path: &Path<'_>) -> Result<Entry, ReadError> {
        let Some(dict) = value.as_dict() else {
            return Err(field::wrong_type(value, &self.heap, "a trace entry", path));
        };
        let entries = match self.heap.dict(dict) {
            Container::Record(Record::Event(number)) => {
                return match self.condenser.events.get(number as usize) {
                    Some(&event) => Ok(Entry::Event(event)),
                    None => Err(ReadError::SharedTooOften { path: path.to_string() }),
                };
            }
            Container::Record(_) => return Err(field::wrong_type(value, &self.heap, "a trace entry", path)),
            Container::Values(entries) => entries.to_vec(),
        };
        self.visit(entries.len(), path)?;
        event::read_entry(&entries, &mut self.heap, &mut self.condenser.stacks, path)
    }
}
