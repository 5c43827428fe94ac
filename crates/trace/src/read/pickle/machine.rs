//! The stack machine that runs a pickle.

use std::cell::Cell;
use std::rc::Rc;

use super::heap::{Condense, Heap};
use super::memo::Memo;
use super::number::decode_long;
use super::opcode::*;
use super::runs::{Runs, run_length};
use super::text::decode_text;
use super::value::Value;
use crate::intern::Strings;
use crate::read::error::ReadError;
use crate::read::input::Input;

/// No string, byte string or number of a snapshot is longer than this.
pub(crate) const LONGEST_VALUE: u64 = 64 << 20;

/// The longest opcode with a fixed length; while this much is at hand, the loop does not look for more.
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
    /// Where in the stack the open marks lie.
    marks: Vec<usize>,
    /// The last of the marks, 0 without one: no opcode takes what lies below it.
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

                NONE => self.stack.push(Value::None),
                NEWTRUE => self.stack.push(Value::Bool(true)),
                NEWFALSE => self.stack.push(Value::Bool(false)),
                BININT => {
                    let number = i32::from_le_bytes(self.input.array()?);
                    self.stack.push(Value::Int(i64::from(number)));
                }
                BININT1 => {
                    let [number] = self.input.array()?;
                    self.stack.push(Value::Int(i64::from(number)));
                }
                BININT2 => {
                    let number = u16::from_le_bytes(self.input.array()?);
                    self.stack.push(Value::Int(i64::from(number)));
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
                    self.stack.push(Value::Float(number));
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
                    let list = self.heap.new_list(&[]);
                    self.push(list)?;
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
                    let list = self.heap.new_list(&self.stack[mark..]);
                    self.stack.truncate(mark);
                    self.push(list)?;
                }

                EMPTY_DICT => {
                    let dict = self.heap.new_dict();
                    self.push(dict)?;
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
                    let dict = self.heap.new_dict().ok_or_else(|| self.too_many())?;
                    self.stack.insert(mark, dict);
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

                EMPTY_SET => self.stack.push(Value::Set),
                ADDITEMS => {
                    let mark = self.close_mark()?;
                    let target = self.target_below(mark)?;
                    if target != Value::Set {
                        return Err(self.wrong_target("set", target));
                    }
                    self.stack.truncate(mark);
                }
                FROZENSET => {
                    let mark = self.close_mark()?;
                    self.stack.truncate(mark);
                    self.stack.push(Value::Set);
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

    /// Where an empty list lies below the MARK at hand, and nothing but values from the memo up to APPENDS follows, as
    /// in a list of frames: fills the list at once, if it can be condensed.
    #[inline]
    fn fill_list(&mut self) -> bool {
        let start = self.stack.len();
        let list = match self.stack.last() {
            Some(&Value::List(list)) if start > self.fence && self.heap.is_empty_list(list) => list,
            _ => return false,
        };
        let Some(runs) = &mut self.runs else { return false };
        let bytes = self.input.at_hand();
        let (length, record) = match runs.find(bytes) {
            Some(found) => found,
            None => {
                let Some(length) = run_length(bytes) else { return false };
                let run = &bytes[..length];
                take_from_memo(run, &self.memo, &mut self.stack);
                let condensed = self.heap.condense_items(&self.stack[start..], &mut self.condenser);
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
        let value = decode_long(self.input.slice(length)?);
        self.stack.push(value);
        Ok(())
    }

    #[inline]
    fn text(&mut self, length: u64) -> Result<(), ReadError> {
        let length = self.check_length(length)?;
        match decode_text(self.input.slice(length)?) {
            Ok(text) => {
                let id = self.heap.strings.intern(&text);
                self.stack.push(Value::Text(id));
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
        self.stack.push(Value::Bytes);
        Ok(())
    }

    /// Adds the values from `start` on to the list that lies below them.
    #[inline]
    fn append(&mut self, start: usize, is_batch: bool) -> Result<(), ReadError> {
        let target = self.target_below(start)?;
        let Value::List(list) = target else { return Err(self.wrong_target("list", target)) };
        let items = &self.stack[start..];
        let added = match is_batch {
            true => self.heap.extend_list_by_batch(list, items, &mut self.condenser),
            false => self.heap.extend_list(list, items),
        };
        if let Err(record) = added {
            return Err(self.changed_after_use(record));
        }
        self.stack.truncate(start);
        Ok(())
    }

    /// Puts the values from `start` on, key, value, key, value …, into the dict that lies below them.
    #[inline]
    fn set_items(&mut self, start: usize) -> Result<(), ReadError> {
        let target = self.target_below(start)?;
        let Value::Dict(dict) = target else { return Err(self.wrong_target("dict", target)) };
        let entries = &self.stack[start..];
        if !entries.len().is_multiple_of(2) {
            return Err(ReadError::KeyWithoutValue {
                offset: self.input.opcode_offset(),
                opcode: self.input.opcode_name(),
                found: entries.len(),
            });
        }
        if let Err(record) = self.heap.extend_dict(dict, entries, &mut self.condenser) {
            return Err(self.changed_after_use(record));
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
        let tuple = self.heap.new_tuple(&self.stack[start..]);
        self.stack.truncate(start);
        self.push(tuple)
    }

    #[inline]
    fn push(&mut self, value: Option<Value>) -> Result<(), ReadError> {
        self.stack.push(value.ok_or_else(|| self.too_many())?);
        Ok(())
    }

    /// Sees to it that `count` values lie above the last mark.
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

    /// Forgets the last mark and says where it lay.
    #[inline]
    fn close_mark(&mut self) -> Result<usize, ReadError> {
        let Some(mark) = self.marks.pop() else {
            return Err(ReadError::NoMark { offset: self.input.opcode_offset(), opcode: self.input.opcode_name() });
        };
        self.fence = self.marks.last().copied().unwrap_or(0);
        Ok(mark)
    }

    fn signed_length(&self, length: i32) -> Result<u64, ReadError> {
        u64::try_from(length).map_err(|_| ReadError::NegativeLength {
            offset: self.input.opcode_offset(),
            opcode: self.input.opcode_name(),
            length: i64::from(length),
        })
    }

    #[inline]
    fn check_length(&self, length: u64) -> Result<usize, ReadError> {
        if length > 0xff {
            self.check_end(length)?;
            if length > LONGEST_VALUE {
                return Err(ReadError::ValueTooLong {
                    offset: self.input.opcode_offset(),
                    opcode: self.input.opcode_name(),
                    length,
                    limit: LONGEST_VALUE,
                });
            }
        }
        Ok(length as usize)
    }

    /// Sees to it that the file has `length` more bytes, as far as its length is known.
    fn check_end(&self, length: u64) -> Result<(), ReadError> {
        let remaining = self.input.remaining();
        if length <= remaining {
            return Ok(());
        }
        Err(ReadError::LengthBeyondEnd {
            offset: self.input.opcode_offset(),
            opcode: self.input.opcode_name(),
            length,
            remaining,
        })
    }

    fn expect_end(&mut self) -> Result<(), ReadError> {
        while self.input.available() == 0 {
            if self.input.is_finished() {
                return Ok(());
            }
            self.input.top_up()?;
        }
        Err(ReadError::TrailingBytes { offset: self.input.offset() })
    }

    fn check_memory(&self) -> Result<(), ReadError> {
        let found = self.heap.memory()
            + self.condenser.memory()
            + self.memo.memory()
            + self.runs.as_ref().map_or(0, Runs::memory)
            + self.stack.capacity() * size_of::<Value>()
            + self.marks.capacity() * size_of::<usize>();
        let stored = self.budget.stored.get();
        let limit = self.budget.fixed.saturating_add(stored.saturating_mul(self.budget.per_byte));
        if found as u64 <= limit {
            return Ok(());
        }
        Err(ReadError::TooMuchMemory { offset: self.input.offset(), found: found as u64, limit, stored })
    }

    #[cold]
    fn too_many(&self) -> ReadError {
        ReadError::TooManyValues { offset: self.input.opcode_offset(), opcode: self.input.opcode_name() }
    }

    #[cold]
    fn underflow(&self, needed: usize, found: usize) -> ReadError {
        ReadError::StackUnderflow {
            offset: self.input.opcode_offset(),
            opcode: self.input.opcode_name(),
            needed,
            found,
        }
    }

    #[cold]
    fn wrong_target(&self, needed: &'static str, found: Value) -> ReadError {
        ReadError::WrongTarget {
            offset: self.input.opcode_offset(),
            opcode: self.input.opcode_name(),
            needed,
            found: found.kind(),
        }
    }

    #[cold]
    fn changed_after_use(&self, record: C::Record) -> ReadError {
        ReadError::ChangedAfterUse {
            offset: self.input.opcode_offset(),
            opcode: self.input.opcode_name(),
            found: C::kind(record),
        }
    }

    #[cold]
    fn refuse(&self, byte: u8) -> ReadError {
        let offset = self.input.opcode_offset();
        match name(byte) {
            Some(opcode) if is_forbidden(byte) => ReadError::ForbiddenOpcode { offset, opcode },
            Some(opcode) if is_text(byte) => ReadError::TextOpcode { offset, opcode },
            _ => ReadError::UnknownOpcode { offset, byte },
        }
    }
}

/// Carries out the BINGETs and LONG_BINGETs that `bytes` begin with, as far as the memo has their values.
fn take_from_memo(mut bytes: &[u8], memo: &Memo, stack: &mut Vec<Value>) {
    loop {
        let (index, after) = match bytes {
            [LONG_BINGET, a, b, c, d, after @ ..] => (u32::from_le_bytes([*a, *b, *c, *d]), after),
            [BINGET, index, after @ ..] => (u32::from(*index), after),
            _ => return,
        };
        let Some(value) = memo.get(index) else { return };
        stack.push(*value);
        bytes = after;
    }
}
