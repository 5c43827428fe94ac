//! Trace entries.

use super::field;
use super::frame;
use super::key::Key;
use super::path::Path;
use super::record::Heap;
use crate::intern::{Stacks, Strings};
use crate::read::error::ReadError;
use crate::read::pickle::Value;
use crate::snapshot::{Action, Event, PoolId, StackId, StringId};

/// What PyTorch writes as `compile_context` outside compiled regions.
const NO_COMPILE_CONTEXT: &str = "N/A";

/// Where both are recorded, `compile_context` and `user_metadata` are joined by this.
const NOTE_SEPARATOR: &str = "; ";

/// When two notes are joined, each is cut to this many bytes, so that a few long ones cannot multiply.
const LONGEST_JOINED_NOTE: usize = 1024;

/// What a trace entry turned out to be.
pub(crate) enum Entry {
    /// An event.
    Event(Event),
    /// An action that is none of the nine.
    UnknownAction(StringId),
}

/// The event that a dict's `entries` describe.
///
/// An event needs its `action`; all but `snapshot` and `oom` need `addr`, all but `snapshot` need `size`. The rest may
/// be missing, as it is in older recordings: `stream` is then 0, `time_us` 0, the pool the default one, and frames and
/// notes are empty.
pub(crate) fn read_entry(
    entries: &[Value],
    heap: &mut Heap,
    stacks: &mut Stacks,
    path: &Path<'_>,
) -> Result<Entry, ReadError> {
    let mut action = None;
    let mut address = None;
    let mut size = None;
    let mut stream = 0;
    let mut time_us = 0;
    let mut pool = PoolId::DEFAULT;
    let mut frames = Value::NONE;
    let mut compile_context = StringId::default();
    let mut user_metadata = StringId::default();
    for entry in entries.chunks_exact(2) {
        let Some(key) = Key::of(entry[0]) else { continue };
        let value = entry[1];
        let here = path.key(key);
        match key {
            Key::Action => action = Some(field::text(value, heap, &here)?),
            Key::Addr | Key::DeviceFree => address = Some(field::word(value, heap, &here)?),
            Key::Size => size = Some(field::size(value, heap, &here)?),
            Key::Stream => stream = field::word(value, heap, &here)?,
            Key::TimeUs => time_us = field::whole(value, heap, &here)?,
            Key::PoolId => pool = field::pool(value, heap, &here)?,
            Key::Frames => frames = value,
            Key::CompileContext => compile_context = field::optional_text(value, heap, &here)?,
            Key::UserMetadata => user_metadata = field::optional_text(value, heap, &here)?,
            _ => {}
        }
    }
    let word = action.ok_or_else(|| missing(path, Key::Action))?;
    let Some(action) = Action::from_name(heap.strings.get(word)) else { return Ok(Entry::UnknownAction(word)) };
    let address = match address {
        None if !matches!(action, Action::Snapshot | Action::Oom) => return Err(missing(path, Key::Addr)),
        address => address.unwrap_or(0),
    };
    let size = match size {
        None if action != Action::Snapshot => return Err(missing(path, Key::Size)),
        size => size.unwrap_or(0),
    };
    let note = join_notes(compile_context, user_metadata, &mut heap.strings);
    let stack = match frames {
        Value::NONE => StackId::NONE,
        _ => frame::read_stack(frames, heap, stacks, &path.key(Key::Frames))?,
    };
    Ok(Entry::Event(Event { action, address, size, stream, pool, time_us, stack, note }))
}

pub(crate) fn missing(path: &Path<'_>, key: Key) -> ReadError {
    ReadError::MissingKey { path: path.to_string(), key: key.name() }
}

fn join_notes(compile_context: StringId, user_metadata: StringId, strings: &mut Strings) -> StringId {
    let is_compiled = compile_context != StringId::default() && strings.get(compile_context) != NO_COMPILE_CONTEXT;
    match (is_compiled, user_metadata != StringId::default()) {
        (false, _) => user_metadata,
        (true, false) => compile_context,
        (true, true) => {
            let first = cut(strings.get(compile_context));
            let second = cut(strings.get(user_metadata));
            let joined = format!("{first}{NOTE_SEPARATOR}{second}");
            strings.intern(&joined)
        }
    }
}

fn cut(note: &str) -> &str {
    &note[..note.floor_char_boundary(LONGEST_JOINED_NOTE)]
}
