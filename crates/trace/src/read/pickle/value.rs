//! A value that a pickle builds: 8 bytes, copied freely.

use crate::snapshot::StringId;

/// A value, packed: its kind in the lowest four bits, its content in the others. Numbers that do not fit, lists and dicts
/// are in the heap; `Heap::kind` unpacks them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Value(u64);

/// What a value is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Kind {
    None,
    Bool(bool),
    Int(i64),
    /// A whole number above `i64::MAX`.
    Large(u64),
    /// A whole number that 64 bits do not hold; which one is not kept.
    Huge,
    Float(f64),
    Text(StringId),
    /// Bytes; a snapshot has none, so which ones is not kept.
    Bytes,
    /// A set; a snapshot has none, so what is in it is not kept.
    Set,
    /// The number of a list.
    List(u32),
    /// The number of a dict.
    Dict(u32),
    /// A range of the heap's tuple items.
    Tuple {
        start: u32,
        length: u32,
    },
}

/// What is known of a value without the heap.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Packed {
    Kind(Kind),
    /// A number that did not fit, by its index in the heap.
    Wide(u32),
}

const TAG_BITS: u32 = 4;
const TAG_MASK: u64 = (1 << TAG_BITS) - 1;

const NONE: u64 = 0;
const BOOL: u64 = 1;
const INT: u64 = 2;
const WIDE: u64 = 3;
const TEXT: u64 = 4;
const BYTES: u64 = 5;
const SET: u64 = 6;
const LIST: u64 = 7;
const DICT: u64 = 8;
const TUPLE: u64 = 9;

/// Tuples have fewer items than this.
const LONGEST_TUPLE: u32 = 1 << 28;

impl Value {
    pub(crate) const NONE: Value = Value(NONE);
    pub(crate) const TRUE: Value = Value(1 << TAG_BITS | BOOL);
    pub(crate) const FALSE: Value = Value(BOOL);
    pub(crate) const BYTES: Value = Value(BYTES);
    pub(crate) const SET: Value = Value(SET);

    /// A small whole number.
    #[inline]
    pub(crate) fn small(number: i32) -> Value {
        Value((i64::from(number) << TAG_BITS) as u64 | INT)
    }

    /// A whole number, where it fits.
    #[inline]
    pub(super) fn int(number: i64) -> Option<Value> {
        let shifted = number << TAG_BITS;
        (shifted >> TAG_BITS == number).then_some(Value(shifted as u64 | INT))
    }

    pub(super) fn wide(index: u32) -> Value {
        Value::with(index, WIDE)
    }

    #[inline]
    pub(crate) fn text(id: StringId) -> Value {
        Value::with(id.0, TEXT)
    }

    #[inline]
    pub(crate) fn list(list: u32) -> Value {
        Value::with(list, LIST)
    }

    #[inline]
    pub(crate) fn dict(dict: u32) -> Value {
        Value::with(dict, DICT)
    }

    /// A tuple, where it is not too long.
    #[inline]
    pub(super) fn tuple(start: u32, length: u32) -> Option<Value> {
        let payload = u64::from(length) << 32 | u64::from(start);
        (length < LONGEST_TUPLE).then_some(Value(payload << TAG_BITS | TUPLE))
    }

    #[inline]
    fn with(payload: u32, tag: u64) -> Value {
        Value(u64::from(payload) << TAG_BITS | tag)
    }

    #[inline]
    pub(super) fn unpack(self) -> Packed {
        let payload = self.0 >> TAG_BITS;
        let number = payload as u32;
        Packed::Kind(match self.0 & TAG_MASK {
            NONE => Kind::None,
            BOOL => Kind::Bool(payload != 0),
            INT => Kind::Int(self.0 as i64 >> TAG_BITS),
            WIDE => return Packed::Wide(number),
            TEXT => Kind::Text(StringId(number)),
            BYTES => Kind::Bytes,
            SET => Kind::Set,
            LIST => Kind::List(number),
            DICT => Kind::Dict(number),
            _ => Kind::Tuple { start: number, length: (payload >> 32) as u32 },
        })
    }

    /// The number of a list.
    #[inline]
    pub(crate) fn as_list(self) -> Option<u32> {
        (self.0 & TAG_MASK == LIST).then_some((self.0 >> TAG_BITS) as u32)
    }

    /// The number of a dict.
    #[inline]
    pub(crate) fn as_dict(self) -> Option<u32> {
        (self.0 & TAG_MASK == DICT).then_some((self.0 >> TAG_BITS) as u32)
    }

    /// The id of a string.
    #[inline]
    pub(crate) fn as_text(self) -> Option<StringId> {
        (self.0 & TAG_MASK == TEXT).then_some(StringId((self.0 >> TAG_BITS) as u32))
    }
}

impl Kind {
    /// What Python calls this type.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::None => "None",
            Kind::Bool(_) => "bool",
            Kind::Int(_) | Kind::Large(_) | Kind::Huge => "int",
            Kind::Float(_) => "float",
            Kind::Text(_) => "str",
            Kind::Bytes => "bytes",
            Kind::Set => "set",
            Kind::List(_) => "list",
            Kind::Dict(_) => "dict",
            Kind::Tuple { .. } => "tuple",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(value: Value, kind: Kind) {
        assert_eq!(value.unpack(), Packed::Kind(kind));
    }

    #[test]
    fn what_is_packed_is_unpacked() {
        check(Value::NONE, Kind::None);
        check(Value::TRUE, Kind::Bool(true));
        check(Value::FALSE, Kind::Bool(false));
        check(Value::BYTES, Kind::Bytes);
        check(Value::SET, Kind::Set);
        check(Value::text(StringId(u32::MAX)), Kind::Text(StringId(u32::MAX)));
        check(Value::list(u32::MAX), Kind::List(u32::MAX));
        check(Value::dict(7), Kind::Dict(7));
        assert_eq!(Value::wide(u32::MAX).unpack(), Packed::Wide(u32::MAX));
        let tuple = Value::tuple(u32::MAX, LONGEST_TUPLE - 1).unwrap();
        check(tuple, Kind::Tuple { start: u32::MAX, length: LONGEST_TUPLE - 1 });
        assert_eq!(Value::tuple(0, LONGEST_TUPLE), None);
    }

    #[test]
    fn whole_numbers_of_sixty_bits_fit() {
        for number in [0, 1, -1, i64::from(i32::MIN), (1 << 59) - 1, -(1 << 59)] {
            check(Value::int(number).unwrap(), Kind::Int(number));
        }
        for number in [1 << 59, -(1 << 59) - 1, i64::MAX, i64::MIN] {
            assert_eq!(Value::int(number), None);
        }
        check(Value::small(i32::MIN), Kind::Int(i64::from(i32::MIN)));
        check(Value::small(255), Kind::Int(255));
    }

    #[test]
    fn lists_dicts_and_strings_are_told_apart() {
        assert_eq!(Value::list(3).as_list(), Some(3));
        assert_eq!(Value::list(3).as_dict(), None);
        assert_eq!(Value::dict(3).as_dict(), Some(3));
        assert_eq!(Value::dict(3).as_text(), None);
        assert_eq!(Value::text(StringId(3)).as_text(), Some(StringId(3)));
        assert_eq!(Value::small(3).as_list(), None);
    }
}
