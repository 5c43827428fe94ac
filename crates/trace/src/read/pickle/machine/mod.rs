//! The stack machine that runs a pickle.

mod checks;

use std::cell::Cell;
use std::rc::Rc;

use crate::intern::Strings;
use crate::read::error::ReadError;
use crate::read::input::Input;
use crate::read::opcode::*;
use crate::read::pickle::heap::{Condense, Full, Heap};
use crate::read::pickle::memo::Memo;
use crate::read::pickle::number::decode_long;
use crate::read::pickle::runs::{Runs, run_length};
use crate::read::pickle::text::decode_text;
use crate::read::pickle::value::{Kind, Value};

/// The longest opcode with a fixed length; while this much is buffered, the loop does not read more.
const LOOKAHEAD: usize = 16;

/// How much memory a pickle may take: the more, the more has been read of the file.
#[derive(Clone, Debug)]
pub(crate) struct Budget {
    /// Bytes of memory, whatever the file's size.
    pub(crate) fixed: u64,
    /// Bytes of memory more for each byte read.
    pub(crate) per_byte: u64,
    /// How many bytes have been read of the file as stored, which may be compressed.
    pub(crate) stored: Rc<Cell<u64>>,
}

/// What a pickle built.
pub(crate) struct Loaded<C: Condense> {
    pub(crate) root: Value,
    pub(crate) heap: Heap<C::Record>,
    pub(crate) condenser: C,
}

/// Runs the pickle in `input` to its end.
pub(crate) fn load<C: Condense>(
    input: &mut Input<'_>,
    strings: Strings,
    condenser: C,
    budget: Budget,
) -> Result<Loaded<C>, ReadError> {
    let mut machine = Machine {
        input,
        stack: Vec::new(),
        marks: Vec::new(),
        fence: 0,
        memo: Memo::default(),
        runs: Some(Runs::new()),
        heap: Heap::new(strings),
        condenser,
        budget,
    };
    let root = machine.run()?;
    let Machine { heap, condenser, .. } = machine;
    Ok(Loaded { root, heap, condenser })
}

struct Machine<'a, 'b, C: Condense> {
    input: &'a mut Input<'b>,
    stack: Vec<Value>,
    /// Stack heights at the open marks.
    marks: Vec<usize>,
    /// The last of the marks, 0 without one: no opcode takes values below it.
    fence: usize,
    memo: Memo,
    /// Lists built before; none once a memo entry was replaced.
    runs: Option<Runs<C::Record>>,
    heap: Heap<C::Record>,
    condenser: C,
    budget: Budget,
}

impl<C: Condense> Machine<'_, '_, C> {
    fn run(&mut self) -> Result<Value, ReadError> {
        loop {
            if self.input.available() < LOOKAHEAD {
                self.input.top_up()?;
                self.check_memory()?;
            }
            let Some(opcode) = self.input.next_opcode()? else {
                return Err(ReadError::NoStop { offset: self.input.offset() });
            };
            match opcode {
                BINGET => {
                    let [index] = self.input.array()?;
                    self.get(u32::from(index))?;
                }
                LONG_BINGET => {
                    let index = u32::from_le_bytes(self.input.array()?);
                    self.get(index)?;
                }
                MEMOIZE => {
                    let index = self.memo.next().ok_or_else(|| self.too_many())?;
                    self.store(index)?;
                }
                BINPUT => {
                    let [index] = self.input.array()?;
                    self.store(u32::from(index))?;
                }
                LONG_BINPUT => {
                    let index = u32::from_le_bytes(self.input.array()?);
                    self.store(index)?;
                }

                NONE => self.stack.push(Value::NONE),
                NEWTRUE => self.stack.push(Value::TRUE),
                NEWFALSE => self.stack.push(Value::FALSE),
                BININT => {
                    let number = i32::from_le_bytes(self.input.array()?);
                    self.stack.push(Value::small(number));
                }
                BININT1 => {
                    let [number] = self.input.array()?;
                    self.stack.push(Value::small(i32::from(number)));
                }
                BININT2 => {
                    let number = u16::from_le_bytes(self.input.array()?);
                    self.stack.push(Value::small(i32::from(number)));
                }
                LONG1 => {
                    let [length] = self.input.array()?;
                    self.long(u64::from(length))?;
                }
                LONG4 => {
                    let length = i32::from_le_bytes(self.input.array()?);
                    let length = self.signed_length(length)?;
                    self.long(length)?;
                }
                BINFLOAT => {
                    let number = f64::from_be_bytes(self.input.array()?);
                    self.push_number(Kind::Float(number))?;
                }

                SHORT_BINUNICODE | SHORT_BINSTRING => {
                    let [length] = self.input.array()?;
                    self.text(u64::from(length))?;
                }
                BINUNICODE => {
                    let length = u32::from_le_bytes(self.input.array()?);
                    self.text(u64::from(length))?;
                }
                BINUNICODE8 => {
                    let length = u64::from_le_bytes(self.input.array()?);
                    self.text(length)?;
                }
                BINSTRING => {
                    let length = i32::from_le_bytes(self.input.array()?);
                    let length = self.signed_length(length)?;
                    self.text(length)?;
                }
                SHORT_BINBYTES => {
                    let [length] = self.input.array()?;
                    self.bytes(u64::from(length))?;
                }
                BINBYTES => {
                    let length = u32::from_le_bytes(self.input.array()?);
                    self.bytes(u64::from(length))?;
                }
                BINBYTES8 | BYTEARRAY8 => {
                    let length = u64::from_le_bytes(self.input.array()?);
                    self.bytes(length)?;
                }

                EMPTY_LIST => {
                    let list = self.heap.new_list().map_err(|Full| self.too_many())?;
                    self.stack.push(Value::list(list));
                }
                APPEND => {
                    self.need(2)?;
                    self.append(self.stack.len() - 1, false)?;
                }
                APPENDS => {
                    let mark = self.close_mark()?;
                    self.append(mark, true)?;
                }
                LIST => {
                    let mark = self.close_mark()?;
                    let list = self.heap.new_list().map_err(|Full| self.too_many())?;
                    self.stack.insert(mark, Value::list(list));
                    self.append(mark + 1, true)?;
                }

                EMPTY_DICT => {
                    let dict = self.heap.new_dict().map_err(|Full| self.too_many())?;
                    self.stack.push(Value::dict(dict));
                }
                SETITEM => {
                    self.need(3)?;
                    self.set_items(self.stack.len() - 2)?;
                }
                SETITEMS => {
                    let mark = self.close_mark()?;
                    self.set_items(mark)?;
                }
                DICT => {
                    let mark = self.close_mark()?;
                    let dict = self.heap.new_dict().map_err(|Full| self.too_many())?;
                    self.stack.insert(mark, Value::dict(dict));
                    self.set_items(mark + 1)?;
                }

                EMPTY_TUPLE => self.tuple(self.stack.len())?,
                TUPLE1 => self.short_tuple(1)?,
                TUPLE2 => self.short_tuple(2)?,
                TUPLE3 => self.short_tuple(3)?,
                TUPLE => {
                    let mark = self.close_mark()?;
                    self.tuple(mark)?;
                }

                EMPTY_SET => self.stack.push(Value::SET),
                ADDITEMS => {
                    let mark = self.close_mark()?;
                    let target = self.target_below(mark)?;
                    if target != Value::SET {
                        return Err(self.wrong_target("set", target));
                    }
                    self.stack.truncate(mark);
                }
                FROZENSET => {
                    let mark = self.close_mark()?;
                    self.stack.truncate(mark);
                    self.stack.push(Value::SET);
                }

                MARK if self.fill_list() => {}
                MARK => {
                    self.fence = self.stack.len();
                    self.marks.push(self.fence);
                }
                POP_MARK => {
                    let mark = self.close_mark()?;
                    self.stack.truncate(mark);
                }
                POP if self.marks.last() == Some(&self.stack.len()) => {
                    self.close_mark()?;
                }
                POP => {
                    self.need(1)?;
                    self.stack.pop();
                }
                DUP => {
                    let value = self.top()?;
                    self.stack.push(value);
                }

                PROTO => {
                    let [found] = self.input.array()?;
                    if !(2..=5).contains(&found) {
                        return Err(ReadError::Protocol { offset: self.input.opcode_offset(), found });
                    }
                }
                FRAME => {
                    let length = u64::from_le_bytes(self.input.array()?);
                    self.check_end(length)?;
                }
                STOP => {
                    let root = self.top()?;
                    self.expect_end()?;
                    return Ok(root);
                }
                _ => return Err(self.refuse(opcode)),
            }
        }
    }

    #[inline(always)]
    fn get(&mut self, index: u32) -> Result<(), ReadError> {
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
    fn fill_list(&mut self) -> bool {
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
    fn store(&mut self, index: u32) -> Result<(), ReadError> {
        let value = self.top()?;
        if self.memo.put(index, value) {
            self.runs = None;
        }
        Ok(())
    }

    #[inline]
    fn long(&mut self, length: u64) -> Result<(), ReadError> {
        let length = self.check_length(length)?;
        let number = decode_long(self.input.slice(length)?);
        self.push_number(number)
    }

    #[inline]
    fn push_number(&mut self, number: Kind) -> Result<(), ReadError> {
        let value = self.heap.number(number).map_err(|Full| self.too_many())?;
        self.stack.push(value);
        Ok(())
    }

    #[inline]
    fn text(&mut self, length: u64) -> Result<(), ReadError> {
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

    fn bytes(&mut self, length: u64) -> Result<(), ReadError> {
        let length = self.check_length(length)?;
        self.input.slice(length)?;
        self.stack.push(Value::BYTES);
        Ok(())
    }

    /// Adds the values from `start` on to the list below them.
    #[inline]
    fn append(&mut self, start: usize, is_batch: bool) -> Result<(), ReadError> {
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
    fn set_items(&mut self, start: usize) -> Result<(), ReadError> {
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
    fn short_tuple(&mut self, length: usize) -> Result<(), ReadError> {
        self.need(length)?;
        self.tuple(self.stack.len() - length)
    }

    /// Makes the values from `start` on a tuple.
    #[inline]
    fn tuple(&mut self, start: usize) -> Result<(), ReadError> {
        let tuple = self.heap.new_tuple(&self.stack[start..]).map_err(|Full| self.too_many())?;
        self.stack.truncate(start);
        self.stack.push(tuple);
        Ok(())
    }

    /// Checks that there are `count` values above the last mark.
    #[inline]
    fn need(&self, count: usize) -> Result<(), ReadError> {
        let found = self.stack.len() - self.fence;
        if found < count { Err(self.underflow(count, found)) } else { Ok(()) }
    }

    #[inline]
    fn top(&self) -> Result<Value, ReadError> {
        self.need(1)?;
        Ok(self.stack[self.stack.len() - 1])
    }

    /// The value below `start`, to which those from `start` on are to be added.
    #[inline]
    fn target_below(&self, start: usize) -> Result<Value, ReadError> {
        if start <= self.fence {
            return Err(self.underflow(1, 0));
        }
        Ok(self.stack[start - 1])
    }

    /// Removes the last mark and returns its stack height.
    #[inline]
    fn close_mark(&mut self) -> Result<usize, ReadError> {
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
