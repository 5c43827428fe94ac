//! What opcodes do to the stack, the memo and the heap.

use super::Machine;
use crate::read::error::ReadError;
use crate::read::opcode::{BINGET, LONG_BINGET};
use crate::read::pickle::heap::{Condense, Full};
use crate::read::pickle::memo::Memo;
use crate::read::pickle::number::decode_long;
use crate::read::pickle::runs::run_length;
use crate::read::pickle::text::decode_text;
use crate::read::pickle::value::{Kind, Value};

impl<C: Condense> Machine<'_, '_, C> {
    #[inline(always)]
    pub(super) fn get(&mut self, index: u32) -> Result<(), ReadError> {
        match self.memo.get(index) {
            Some(value) => {
                self.stack.push(*value);
                Ok(())
            }
            None => Err(ReadError::NoMemoEntry {
                offset: self.input.opcode_offset(),
                opcode: self.input.opcode_name(),
                index,
            }),
        }
    }

    /// After a MARK above an empty list, if only values from the memo follow up to APPENDS, as in a list of frames: fills
    /// the list at once, if it can be condensed.
    #[inline]
    pub(super) fn fill_list(&mut self) -> bool {
        let start = self.stack.len();
        let list = match self.stack.last().and_then(|value| value.as_list()) {
            Some(list) if start > self.fence && self.heap.is_empty_list(list) => list,
            _ => return false,
        };
        let Some(runs) = &mut self.runs else { return false };
        let bytes = self.input.buffered();
        let (length, record) = match runs.find(bytes) {
            Some(found) => found,
            None => {
                let Some(length) = run_length(bytes) else { return false };
                let run = &bytes[..length];
                let is_whole = take_from_memo(run, &self.memo, &mut self.stack);
                let items = &self.stack[start..];
                let condensed = if is_whole { self.heap.condense_items(items, &mut self.condenser) } else { None };
                self.stack.truncate(start);
                let Some(record) = condensed else { return false };
                runs.insert(run, record);
                (length, record)
            }
        };
        self.heap.condense_list(list, record);
        self.input.advance(length);
        true
    }

    /// Stores the value on top in the memo.
    #[inline]
    pub(super) fn store(&mut self, index: u32) -> Result<(), ReadError> {
        let value = self.top()?;
        if self.memo.put(index, value) {
            self.runs = None;
        }
        Ok(())
    }

    #[inline]
    pub(super) fn long(&mut self, length: u64) -> Result<(), ReadError> {
        let length = self.check_length(length)?;
        let number = decode_long(self.input.slice(length)?);
        self.push_number(number)
    }

    #[inline]
    pub(super) fn push_number(&mut self, number: Kind) -> Result<(), ReadError> {
        let value = self.heap.number(number).map_err(|Full| self.too_many())?;
        self.stack.push(value);
        Ok(())
    }

    #[inline]
    pub(super) fn text(&mut self, length: u64) -> Result<(), ReadError> {
        let length = self.check_length(length)?;
        match decode_text(self.input.slice(length)?) {
            Ok(text) => {
                let id = self.heap.strings.intern(&text);
                self.stack.push(Value::text(id));
                Ok(())
            }
            Err(valid) => Err(ReadError::InvalidText {
                offset: self.input.opcode_offset(),
                opcode: self.input.opcode_name(),
                valid,
            }),
        }
    }

    pub(super) fn bytes(&mut self, length: u64) -> Result<(), ReadError> {
        let length = self.check_length(length)?;
        self.input.slice(length)?;
        self.stack.push(Value::BYTES);
        Ok(())
    }

    /// Adds the values from `start` on to the list below them.
    #[inline]
    pub(super) fn append(&mut self, start: usize, is_batch: bool) -> Result<(), ReadError> {
        let target = self.target_below(start)?;
        let Some(list) = target.as_list() else { return Err(self.wrong_target("list", target)) };
        let items = &self.stack[start..];
        let added = match is_batch {
            true => self.heap.extend_list_by_batch(list, items, &mut self.condenser),
            false => self.heap.extend_list(list, items),
        };
        if let Err(refused) = added {
            return Err(self.not_added(refused));
        }
        self.stack.truncate(start);
        Ok(())
    }

    /// Adds the values from `start` on, key, value, key, value …, to the dict below them.
    #[inline]
    pub(super) fn set_items(&mut self, start: usize) -> Result<(), ReadError> {
        let target = self.target_below(start)?;
        let Some(dict) = target.as_dict() else { return Err(self.wrong_target("dict", target)) };
        let entries = &self.stack[start..];
        if !entries.len().is_multiple_of(2) {
            return Err(ReadError::KeyWithoutValue {
                offset: self.input.opcode_offset(),
                opcode: self.input.opcode_name(),
                found: entries.len(),
            });
        }
        if let Err(refused) = self.heap.extend_dict(dict, entries, &mut self.condenser) {
            return Err(self.not_added(refused));
        }
        self.stack.truncate(start);
        Ok(())
    }

    #[inline]
    pub(super) fn short_tuple(&mut self, length: usize) -> Result<(), ReadError> {
        self.need(length)?;
        self.tuple(self.stack.len() - length)
    }

    /// Makes the values from `start` on a tuple.
    #[inline]
    pub(super) fn tuple(&mut self, start: usize) -> Result<(), ReadError> {
        let tuple = self.heap.new_tuple(&self.stack[start..]).map_err(|Full| self.too_many())?;
        self.stack.truncate(start);
        self.stack.push(tuple);
        Ok(())
    }

    /// Checks that there are `count` values above the last mark.
    #[inline]
    pub(super) fn need(&self, count: usize) -> Result<(), ReadError> {
        let found = self.stack.len() - self.fence;
        if found < count { Err(self.underflow(count, found)) } else { Ok(()) }
    }

    #[inline]
    pub(super) fn top(&self) -> Result<Value, ReadError> {
        self.need(1)?;
        Ok(self.stack[self.stack.len() - 1])
    }

    /// The value below `start`, to which those from `start` on are to be added.
    #[inline]
    pub(super) fn target_below(&self, start: usize) -> Result<Value, ReadError> {
        if start <= self.fence {
            return Err(self.underflow(1, 0));
        }
        Ok(self.stack[start - 1])
    }

    /// Removes the last mark and returns its stack height.
    #[inline]
    pub(super) fn close_mark(&mut self) -> Result<usize, ReadError> {
        let Some(mark) = self.marks.pop() else {
            return Err(ReadError::NoMark { offset: self.input.opcode_offset(), opcode: self.input.opcode_name() });
        };
        self.fence = self.marks.last().copied().unwrap_or(0);
        Ok(mark)
    }
}

/// Carries out the BINGETs and LONG_BINGETs of a run; whether the memo had all of their values.
fn take_from_memo(mut run: &[u8], memo: &Memo, stack: &mut Vec<Value>) -> bool {
    loop {
        let (index, after) = match run {
            [LONG_BINGET, a, b, c, d, after @ ..] => (u32::from_le_bytes([*a, *b, *c, *d]), after),
            [BINGET, index, after @ ..] => (u32::from(*index), after),
            _ => return true,
        };
        let Some(value) = memo.get(index) else { return false };
        stack.push(*value);
        run = after;
    }
}
