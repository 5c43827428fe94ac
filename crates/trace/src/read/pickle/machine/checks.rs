//! What the machine checks, and the errors it returns.

use super::Machine;
use crate::read::error::ReadError;
use crate::read::opcode::{is_forbidden, is_text, name};
use crate::read::pickle::heap::{Condense, Refused};
use crate::read::pickle::runs::Runs;
use crate::read::pickle::value::Value;

/// No string, byte string or number of a snapshot is longer than this.
const LONGEST_VALUE: u64 = 64 << 20;

impl<C: Condense> Machine<'_, '_, C> {
    pub(super) fn signed_length(&self, length: i32) -> Result<u64, ReadError> {
        u64::try_from(length).map_err(|_| ReadError::NegativeLength {
            offset: self.input.opcode_offset(),
            opcode: self.input.opcode_name(),
            length: i64::from(length),
        })
    }

    #[inline]
    pub(super) fn check_length(&self, length: u64) -> Result<usize, ReadError> {
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

    /// Checks that the file has `length` more bytes, if its length is known.
    pub(super) fn check_end(&self, length: u64) -> Result<(), ReadError> {
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

    pub(super) fn expect_end(&mut self) -> Result<(), ReadError> {
        while self.input.available() == 0 {
            if self.input.is_finished() {
                return Ok(());
            }
            self.input.top_up()?;
        }
        Err(ReadError::TrailingBytes { offset: self.input.offset() })
    }

    pub(super) fn check_memory(&self) -> Result<(), ReadError> {
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
    pub(super) fn too_many(&self) -> ReadError {
        ReadError::TooManyValues { offset: self.input.opcode_offset(), opcode: self.input.opcode_name() }
    }

    #[cold]
    pub(super) fn underflow(&self, needed: usize, found: usize) -> ReadError {
        ReadError::StackUnderflow {
            offset: self.input.opcode_offset(),
            opcode: self.input.opcode_name(),
            needed,
            found,
        }
    }

    #[cold]
    pub(super) fn wrong_target(&self, needed: &'static str, found: Value) -> ReadError {
        ReadError::WrongTarget {
            offset: self.input.opcode_offset(),
            opcode: self.input.opcode_name(),
            needed,
            found: self.heap.kind(found).name(),
        }
    }

    #[cold]
    pub(super) fn not_added(&self, refused: Refused<C::Record>) -> ReadError {
        let Refused::Condensed(record) = refused else { return self.too_many() };
        ReadError::ChangedAfterUse {
            offset: self.input.opcode_offset(),
            opcode: self.input.opcode_name(),
            found: C::kind(record),
        }
    }

    #[cold]
    pub(super) fn refuse(&self, byte: u8) -> ReadError {
        let offset = self.input.opcode_offset();
        match name(byte) {
            Some(opcode) if is_forbidden(byte) => ReadError::ForbiddenOpcode { offset, opcode },
            Some(opcode) if is_text(byte) => ReadError::TextOpcode { offset, opcode },
            _ => ReadError::UnknownOpcode { offset, byte },
        }
    }
}
