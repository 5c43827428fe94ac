//! A value that a pickle builds: 16 bytes, copied freely.

use crate::snapshot::StringId;

/// A value. Lists and dicts are named by their number in the heap.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Value {
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
    List(u32),
    Dict(u32),
    /// A range of the heap's tuple items.
    Tuple {
        start: u32,
        length: u32,
    },
}

impl Value {
    /// What Python calls this type.
    pub(crate) fn kind(self) -> &'static str {
        match self {
            Value::None => "None",
            Value::Bool(_) => "bool",
            Value::Int(_) | Value::Large(_) | Value::Huge => "int",
            Value::Float(_) => "float",
            Value::Text(_) => "str",
            Value::Bytes => "bytes",
            Value::Set => "set",
            Value::List(_) => "list",
            Value::Dict(_) => "dict",
            Value::Tuple { .. } => "tuple",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_takes_sixteen_bytes_in_the_memo_too() {
        assert_eq!(size_of::<Value>(), 16);
        assert_eq!(size_of::<Option<Value>>(), 16);
    }
}
