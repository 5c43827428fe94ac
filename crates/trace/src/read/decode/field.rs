//! Single values out of a pickle: whole numbers, words, truth values, pools.

use super::path::Path;
use super::record::Heap;
use crate::read::error::ReadError;
use crate::read::pickle::heap::Container;
use crate::read::pickle::{Kind, Value};
use crate::snapshot::{PoolId, StringId};

pub(crate) fn wrong_type(value: Value, heap: &Heap, expected: &'static str, path: &Path<'_>) -> ReadError {
    let kind = heap.kind(value);
    let condensed = match kind {
        Kind::List(list) => heap.list(list),
        Kind::Dict(dict) => heap.dict(dict),
        _ => Container::Values(&[]),
    };
    let found = match condensed {
        Container::Record(record) => record.kind(),
        Container::Values(_) => kind.name(),
    };
    ReadError::WrongType { path: path.to_string(), expected, found }
}

/// A number of bytes.
#[inline]
pub(crate) fn size(value: Value, heap: &Heap, path: &Path<'_>) -> Result<u64, ReadError> {
    match heap.kind(value) {
        Kind::Int(number) if number >= 0 => Ok(number as u64),
        Kind::Large(number) => Ok(number),
        Kind::Int(number) => Err(ReadError::OutOfRange {
            path: path.to_string(),
            found: i128::from(number),
            expected: "a number of bytes, 0 or more",
        }),
        _ => Err(not_whole(value, heap, path)),
    }
}

/// An address or a stream: 64 bits, which some writers cast to a signed number.
#[inline]
pub(crate) fn word(value: Value, heap: &Heap, path: &Path<'_>) -> Result<u64, ReadError> {
    match heap.kind(value) {
        Kind::Int(number) => Ok(number as u64),
        Kind::Large(number) => Ok(number),
        _ => Err(not_whole(value, heap, path)),
    }
}

/// A signed whole number.
#[inline]
pub(crate) fn whole(value: Value, heap: &Heap, path: &Path<'_>) -> Result<i64, ReadError> {
    match heap.kind(value) {
        Kind::Int(number) => Ok(number),
        Kind::Large(number) => Err(ReadError::OutOfRange {
            path: path.to_string(),
            found: i128::from(number),
            expected: "a whole number below 2^63",
        }),
        _ => Err(not_whole(value, heap, path)),
    }
}

#[cold]
fn not_whole(value: Value, heap: &Heap, path: &Path<'_>) -> ReadError {
    if heap.kind(value) == Kind::Huge {
        return ReadError::WrongType {
            path: path.to_string(),
            expected: "a whole number of 64 bits",
            found: "an int beyond 64 bits",
        };
    }
    wrong_type(value, heap, "a whole number", path)
}

/// A truth value.
pub(crate) fn truth(value: Value, heap: &Heap, path: &Path<'_>) -> Result<bool, ReadError> {
    match heap.kind(value) {
        Kind::Bool(truth) => Ok(truth),
        _ => Err(wrong_type(value, heap, "a bool", path)),
    }
}

/// A string.
#[inline]
pub(crate) fn text(value: Value, heap: &Heap, path: &Path<'_>) -> Result<StringId, ReadError> {
    match heap.kind(value) {
        Kind::Text(id) => Ok(id),
        _ => Err(wrong_type(value, heap, "a str", path)),
    }
}

/// A string, or `None` for the empty one.
#[inline]
pub(crate) fn optional_text(value: Value, heap: &Heap, path: &Path<'_>) -> Result<StringId, ReadError> {
    match heap.kind(value) {
        Kind::None => Ok(StringId::default()),
        _ => text(value, heap, path),
    }
}

/// A pool's identity: a pair of whole numbers, or `None` for the default pool.
#[inline]
pub(crate) fn pool(value: Value, heap: &Heap, path: &Path<'_>) -> Result<PoolId, ReadError> {
    let parts = match heap.kind(value) {
        Kind::None => return Ok(PoolId::DEFAULT),
        Kind::Tuple { start, length } => heap.tuple(start, length),
        Kind::List(list) => match heap.list(list) {
            Container::Values(items) => items,
            Container::Record(_) => &[],
        },
        _ => return Err(wrong_type(value, heap, "a pair of whole numbers", path)),
    };
    let &[first, second] = parts else {
        return Err(ReadError::OutOfRange { path: path.to_string(), found: parts.len() as i128, expected: "2 items" });
    };
    Ok(PoolId(word(first, heap, &path.index(0))?, word(second, heap, &path.index(1))?))
}
