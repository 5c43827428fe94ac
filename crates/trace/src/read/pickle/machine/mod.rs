//! The stack machine that runs a pickle.

mod checks;
mod stack;

use std::cell::Cell;
use std::rc::Rc;

use crate::intern::Strings;
use crate::read::error::ReadError;
use crate::read::input::Input;
use crate::read::opcode::*;
use crate::read::pickle::heap::{Condense, Full, Heap};
use crate::read::pickle::memo::Memo;
use crate::read::pickle::runs::Runs;
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
}
