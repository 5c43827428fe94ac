//! From what a pickle built to a [`Snapshot`].
//!
//! Missing keys get defaults, documented where they are read; unknown keys are ignored. A wrong value is an error with its
//! path in Python's notation: `device_traces[0][17].size`.

mod annotation;
pub(crate) mod condense;
mod decoder;
mod event;
mod field;
mod frame;
pub(crate) mod key;
mod path;
mod record;
mod segment;
mod setting;
mod trace;

use condense::Condenser;
use decoder::Decoder;
use key::Key;
use path::Path;

use super::error::ReadError;
use super::pickle::heap::Container;
use super::pickle::machine::Loaded;
use super::pickle::{Kind, Value};
use crate::snapshot::{Action, Device, Snapshot};

/// The snapshot that a pickle holds.
pub(crate) fn decode(loaded: Loaded<Condenser>) -> Result<Snapshot, ReadError> {
    let (mut decoder, root) = Decoder::new(loaded);
    let mut snapshot = decoder.root(root)?;
    for (number, device) in snapshot.devices.iter_mut().enumerate() {
        check_sizes(device, number)?;
        device.segments.sort_by_key(|segment| segment.address);
        crate::pools::fill_in(device);
    }
    snapshot.strings = decoder.heap.strings;
    snapshot.stacks = decoder.condenser.stacks;
    Ok(snapshot)
}

/// More than any GPU has. Sums of smaller sizes do not overflow.
const SIZE_LIMIT: u64 = 1 << 44;

fn check_sizes(device: &Device, number: usize) -> Result<(), ReadError> {
    let is_absurd = |address: u64, size: u64| size >= SIZE_LIMIT || address.checked_add(size).is_none();
    let absurd = |path: String, size: u64| ReadError::OutOfRange {
        path,
        found: size.into(),
        expected: "bytes below 2^44 that end within the address space",
    };
    for (index, event) in device.events.iter().enumerate() {
        let address = if event.action == Action::Oom { 0 } else { event.address };
        if is_absurd(address, event.size) {
            return Err(absurd(format!("device_traces[{number}][{index}].size"), event.size));
        }
    }
    match device.segments.iter().find(|segment| is_absurd(segment.address, segment.total_size)) {
        Some(segment) => Err(absurd(format!("segments of device {number}: total_size"), segment.total_size)),
        None => Ok(()),
    }
}

impl Decoder {
    fn root(&mut self, root: Value) -> Result<Snapshot, ReadError> {
        let mut snapshot = Snapshot::default();
        let Some(dict) = root.as_dict() else {
            if root.as_list().is_none() {
                return Err(not_a_snapshot(self.heap.kind(root).name().to_owned()));
            }
            self.segments(root, &mut snapshot, &Path::Root)?;
            return Ok(snapshot);
        };
        let entries = match self.heap.dict(dict) {
            Container::Values(entries) => entries.to_vec(),
            Container::Record(_) => return Err(not_a_snapshot("a single trace entry or frame".to_owned())),
        };
        let find = |wanted: Key| {
            entries.chunks_exact(2).rev().find(|entry| Key::of(entry[0]) == Some(wanted)).map(|entry| entry[1])
        };
        let (traces, segments) = (find(Key::DeviceTraces), find(Key::Segments));
        if traces.is_none() && segments.is_none() {
            return Err(not_a_snapshot(self.describe_keys(&entries)));
        }
        if let Some(value) = traces {
            self.traces(value, &mut snapshot, &Path::Root.key(Key::DeviceTraces))?;
        }
        if let Some(value) = segments {
            self.segments(value, &mut snapshot, &Path::Root.key(Key::Segments))?;
        }
        if let Some(value) = find(Key::AllocatorSettings) {
            snapshot.settings = self.settings(value, &Path::Root.key(Key::AllocatorSettings))?;
        }
        if let Some(value) = find(Key::ExternalAnnotations) {
            snapshot.annotations = self.annotations(value, &Path::Root.key(Key::ExternalAnnotations))?;
        }
        Ok(snapshot)
    }

    fn segments(&mut self, value: Value, snapshot: &mut Snapshot, path: &Path<'_>) -> Result<(), ReadError> {
        let (list, count) = self.open_list(value, path)?;
        for index in 0..count {
            let (device, segment) = self.segment(self.item(list, index), &path.index(index))?;
            if device >= snapshot.devices.len() {
                snapshot.devices.resize_with(device + 1, Device::default);
            }
            snapshot.devices[device].segments.push(segment);
        }
        Ok(())
    }

    fn describe_keys(&self, entries: &[Value]) -> String {
        let mut names: Vec<String> = Vec::new();
        for &key in entries.iter().step_by(2).take(5) {
            names.push(match self.heap.kind(key) {
                Kind::Text(id) => format!("`{}`", self.heap.strings.get(id).chars().take(40).collect::<String>()),
                other => other.name().to_owned(),
            });
        }
        match entries.len() / 2 {
            0 => "an empty dict".to_owned(),
            count if count > names.len() => format!("a dict with the keys {} and others", names.join(", ")),
            _ => format!("a dict with the keys {}", names.join(", ")),
        }
    }
}

fn not_a_snapshot(found: String) -> ReadError {
    ReadError::NotASnapshot { found }
}
