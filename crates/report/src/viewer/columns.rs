//! Columns of whole numbers, packed: seven bits a byte, the lowest first, the eighth bit saying that more follow.

use serde_json::{Map, Value, json};

/// Columns one after the other, with a table of contents.
#[derive(Default)]
pub struct Columns {
    bytes: Vec<u8>,
    contents: Map<String, Value>,
}

impl Columns {
    /// Adds a column of numbers.
    pub fn add(&mut self, name: &str, values: impl Iterator<Item = u64>) {
        let begin = self.bytes.len();
        let mut count = 0u64;
        for mut value in values {
            count += 1;
            while value >= 0x80 {
                self.bytes.push((value & 0x7f) as u8 | 0x80);
                value >>= 7;
            }
            self.bytes.push(value as u8);
        }
        self.contents.insert(name.into(), json!([begin, count]));
    }

    /// Adds a column as the differences from each value to the next, so that what grows slowly stays small.
    pub fn add_differences(&mut self, name: &str, values: impl Iterator<Item = u64>) {
        let mut last = 0u64;
        self.add(
            name,
            values.map(|value| {
                let difference = value.wrapping_sub(last) as i64;
                last = value;
                // Small numbers of either sign become small numbers.
                (difference << 1 ^ difference >> 63) as u64
            }),
        );
    }

    /// All columns behind `head`, to which their table of contents is added.
    pub fn finish(self, mut head: Map<String, Value>) -> Vec<u8> {
        head.insert("columns".into(), Value::Object(self.contents));
        let head = Value::Object(head).to_string();
        let mut packed = (head.len() as u64).to_le_bytes().to_vec();
        packed.extend(head.as_bytes());
        packed.extend(self.bytes);
        packed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_take_as_many_bytes_as_they_need() {
        let mut columns = Columns::default();
        columns.add("plain", [0, 127, 128, u64::MAX].into_iter());
        assert_eq!(columns.bytes[..4], [0, 127, 0x80, 1]);
        assert_eq!(columns.bytes.len(), 4 + 10);
        columns.add_differences("differences", [5, 3, 3].into_iter());
        assert_eq!(columns.bytes[14..], [10, 3, 0]);
        assert_eq!(columns.contents["differences"], json!([14, 3]));
    }
}
