//! Segments and their blocks.

use super::decoder::Decoder;
use super::event::missing;
use super::field;
use super::key::Key;
use super::path::Path;
use crate::read::error::ReadError;
use crate::read::pickle::Value;
use crate::snapshot::{Block, BlockState, PoolId, Segment, StackId};

/// The size of every segment of the small pool.
const SMALL_SEGMENT: u64 = 2 << 20;

/// PyTorch counts GPUs in 8 bits; a number beyond this means a damaged file.
pub(crate) const MOST_DEVICES: usize = 1024;

impl Decoder {
    /// The segment that the dict `value` describes, and its GPU.
    ///
    /// A segment needs `address` and `total_size`. The rest may be missing: `device`, `stream` and the pool are then 0,
    /// `is_expandable` is false, `segment_type` follows from the size of small segments, blocks and frames are empty.
    pub(crate) fn segment(&mut self, value: Value, path: &Path<'_>) -> Result<(usize, Segment), ReadError> {
        let (dict, count) = self.open_dict(value, "a segment", path)?;
        let mut device = 0;
        let mut address = None;
        let mut total_size = None;
        let mut is_small = None;
        let mut blocks = Value::NONE;
        let mut frames = Value::NONE;
        let mut segment = Segment {
            address: 0,
            total_size: 0,
            stream: 0,
            is_small: false,
            is_expandable: false,
            pool: PoolId::DEFAULT,
            stack: StackId::NONE,
            blocks: Vec::new(),
        };
        for entry in 0..count {
            let Some((key, value)) = self.entry(dict, entry) else { continue };
            let here = path.key(key);
            let heap = &self.heap;
            match key {
                Key::Device => device = device_number(field::whole(value, heap, &here)?, &here)?,
                Key::Address => address = Some(field::word(value, heap, &here)?),
                Key::TotalSize => total_size = Some(field::size(value, heap, &here)?),
                Key::Stream => segment.stream = field::word(value, heap, &here)?,
                Key::SegmentType => {
                    let word = field::text(value, heap, &here)?;
                    is_small = Some(match heap.strings.get(word) {
                        "small" => true,
                        "large" => false,
                        found => return Err(unknown_word(found, "`small` or `large`", &here)),
                    });
                }
                Key::SegmentPoolId => segment.pool = field::pool(value, heap, &here)?,
                Key::IsExpandable => segment.is_expandable = field::truth(value, heap, &here)?,
                Key::Frames => frames = value,
                Key::Blocks => blocks = value,
                _ => {}
            }
        }
        segment.address = address.ok_or_else(|| missing(path, Key::Address))?;
        segment.total_size = total_size.ok_or_else(|| missing(path, Key::TotalSize))?;
        segment.is_small = is_small.unwrap_or(segment.total_size == SMALL_SEGMENT);
        segment.stack = self.stack(frames, &path.key(Key::Frames))?;
        segment.blocks = self.blocks(blocks, segment.address, segment.total_size, path)?;
        Ok((device, segment))
    }

    fn blocks(
        &mut self,
        value: Value,
        address: u64,
        total_size: u64,
        segment_path: &Path<'_>,
    ) -> Result<Vec<Block>, ReadError> {
        let path = segment_path.key(Key::Blocks);
        let Some(segment_end) = address.checked_add(total_size) else {
            return Err(ReadError::AddressOverflow { path: segment_path.to_string(), address, size: total_size });
        };
        if value == Value::NONE {
            return Ok(Vec::new());
        }
        let (list, count) = self.open_list(value, &path)?;
        let mut blocks = Vec::with_capacity(count);
        let mut next = address;
        for index in 0..count {
            let here = path.index(index);
            let block = self.block(self.item(list, index), next, &here)?;
            if block.address != next {
                return Err(do_not_tile(block.address, next, &here));
            }
            next = match next.checked_add(block.size) {
                Some(end) if end <= segment_end => end,
                end => return Err(do_not_tile(end.unwrap_or(u64::MAX), segment_end, &here)),
            };
            blocks.push(block);
        }
        if count > 0 && next != segment_end {
            return Err(do_not_tile(next, segment_end, &path.index(count - 1)));
        }
        Ok(blocks)
    }

    /// The block that the dict `value` describes; `next` is where the one before ended.
    ///
    /// A block needs `size` and `state`. Its address may be missing, as before PyTorch 2.1, and is then `next`; the
    /// requested size is then that of its `history`, else the size.
    fn block(&mut self, value: Value, next: u64, path: &Path<'_>) -> Result<Block, ReadError> {
        let (dict, count) = self.open_dict(value, "a block", path)?;
        let mut address = next;
        let mut size = None;
        let mut requested_size = None;
        let mut state = None;
        let mut frames = Value::NONE;
        let mut history = Value::NONE;
        for entry in 0..count {
            let Some((key, value)) = self.entry(dict, entry) else { continue };
            let here = path.key(key);
            let heap = &self.heap;
            match key {
                Key::Address => address = field::word(value, heap, &here)?,
                Key::Size => size = Some(field::size(value, heap, &here)?),
                Key::RequestedSize => requested_size = Some(field::size(value, heap, &here)?),
                Key::State => {
                    let word = field::text(value, heap, &here)?;
                    state = Some(match heap.strings.get(word) {
                        "active_allocated" => BlockState::Allocated,
                        "active_pending_free" | "active_awaiting_free" => BlockState::PendingFree,
                        "inactive" => BlockState::Free,
                        found => {
                            let expected = "`active_allocated`, `active_pending_free` or `inactive`";
                            return Err(unknown_word(found, expected, &here));
                        }
                    });
                }
                Key::Frames => frames = value,
                Key::History => history = value,
                _ => {}
            }
        }
        let size = size.ok_or_else(|| missing(path, Key::Size))?;
        let state = state.ok_or_else(|| missing(path, Key::State))?;
        let mut stack = self.stack(frames, &path.key(Key::Frames))?;
        if history != Value::NONE {
            let (real_size, history_frames) = self.history(history, &path.key(Key::History))?;
            requested_size = requested_size.or(real_size);
            if frames == Value::NONE {
                stack = history_frames;
            }
        }
        Ok(Block { address, size, requested_size: requested_size.unwrap_or(size), state, stack })
    }

    /// The size and stack of the newest entry of a block's `history`, which PyTorch 2.0 wrote in place of its own.
    fn history(&mut self, value: Value, path: &Path<'_>) -> Result<(Option<u64>, StackId), ReadError> {
        let (list, count) = self.open_list(value, path)?;
        if count == 0 {
            return Ok((None, StackId::NONE));
        }
        let here = path.index(0);
        let (dict, count) = self.open_dict(self.item(list, 0), "a dict", &here)?;
        let mut real_size = None;
        let mut frames = Value::NONE;
        for entry in 0..count {
            match self.entry(dict, entry) {
                Some((key @ Key::RealSize, value)) => {
                    real_size = Some(field::size(value, &self.heap, &here.key(key))?);
                }
                Some((Key::Frames, value)) => frames = value,
                _ => {}
            }
        }
        Ok((real_size, self.stack(frames, &here.key(Key::Frames))?))
    }
}

/// The index of a GPU.
fn device_number(number: i64, path: &Path<'_>) -> Result<usize, ReadError> {
    match usize::try_from(number) {
        Ok(device) if device < MOST_DEVICES => Ok(device),
        _ => Err(ReadError::OutOfRange {
            path: path.to_string(),
            found: i128::from(number),
            expected: "the number of a GPU, 0 to 1023",
        }),
    }
}

fn unknown_word(found: &str, expected: &'static str, path: &Path<'_>) -> ReadError {
    let shown: String = found.chars().take(60).collect();
    ReadError::UnknownWord { path: path.to_string(), found: shown, expected }
}

fn do_not_tile(found: u64, expected: u64, path: &Path<'_>) -> ReadError {
    ReadError::BlocksDoNotTile { path: path.to_string(), found, expected }
}
