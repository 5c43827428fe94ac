//! Frames and lists of frames.

use super::field;
use super::key::Key;
use super::path::Path;
use super::record::{Heap, Record};
use crate::intern::Stacks;
use crate::read::error::ReadError;
use crate::read::pickle::Value;
use crate::read::pickle::heap::Container;
use crate::snapshot::{Frame, FrameId, StackId, StringId};

/// The frame that a dict's `entries` describe. A missing file or function is the empty string, a missing line 0; keys
/// such as `fx_node_name` are ignored.
pub(crate) fn read_frame(entries: &[Value], heap: &Heap, path: &Path<'_>) -> Result<Frame, ReadError> {
    let mut frame = Frame { file: StringId::default(), line: 0, function: StringId::default() };
    for entry in entries.chunks_exact(2) {
        let value = entry[1];
        match Key::of(entry[0]) {
            Some(key @ Key::Filename) => frame.file = field::optional_text(value, heap, &path.key(key))?,
            Some(key @ Key::Name) => frame.function = field::optional_text(value, heap, &path.key(key))?,
            Some(key @ Key::Line) => {
                let line = match value {
                    Value::NONE => 0,
                    _ => field::whole(value, heap, &path.key(key))?,
                };
                // Native frames have lines such as -1 where there is no debug information.
                frame.line = u32::try_from(line).unwrap_or(0);
            }
            _ => {}
        }
    }
    Ok(frame)
}

/// The stack that the value of a `frames` key describes; `None` and an empty list give [`StackId::NONE`]. The list is
/// condensed, so that what is shared is read once.
pub(crate) fn read_stack(
    value: Value,
    heap: &mut Heap,
    stacks: &mut Stacks,
    path: &Path<'_>,
) -> Result<StackId, ReadError> {
    let list = match value.as_list() {
        Some(list) => list,
        None if value == Value::NONE => return Ok(StackId::NONE),
        None => return Err(field::wrong_type(value, heap, "a list of frames", path)),
    };
    if let Container::Record(record) = heap.list(list) {
        return match record {
            Record::Stack(stack) => Ok(stack),
            _ => Err(field::wrong_type(value, heap, "a list of frames", path)),
        };
    }
    let items = heap.take_list(list);
    let mut frames = Vec::with_capacity(items.len());
    for (index, &item) in items.iter().enumerate() {
        match read_frame_item(item, heap, stacks, &path.index(index)) {
            Ok(frame) => frames.push(frame),
            Err(error) => {
                heap.put_back_list(list, items);
                return Err(error);
            }
        }
    }
    if items.is_empty() {
        return Ok(StackId::NONE);
    }
    let stack = stacks.intern_stack(&frames);
    heap.condense_list(list, Record::Stack(stack));
    Ok(stack)
}

#[inline]
fn read_frame_item(item: Value, heap: &mut Heap, stacks: &mut Stacks, path: &Path<'_>) -> Result<FrameId, ReadError> {
    let Some(dict) = item.as_dict() else { return Err(field::wrong_type(item, heap, "a frame", path)) };
    let frame = match heap.dict(dict) {
        Container::Record(Record::Frame(frame)) => return Ok(frame),
        Container::Record(_) => return Err(field::wrong_type(item, heap, "a frame", path)),
        Container::Values(entries) => read_frame(entries, heap, path)?,
    };
    let frame = stacks.intern_frame(frame);
    heap.condense_dict(dict, Record::Frame(frame));
    Ok(frame)
}
