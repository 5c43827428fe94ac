//! Numbers, texts and lists as bytes, there and back.

use super::error::UnpackError;
use vramfit_graph::dtype::Dtype;
use vramfit_graph::model::{ExpressionId, Size, TensorId};

/// Something that can be written and read again.
pub(super) trait Packed: Sized {
    fn write(&self, writer: &mut Writer);
    fn read(reader: &mut Reader<'_>) -> Result<Self, UnpackError>;
}

/// What has been written.
#[derive(Default)]
pub(super) struct Writer {
    pub(super) bytes: Vec<u8>,
}

/// What is left to read.
pub(super) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Writer {
    /// Seven bits a byte, the lowest first.
    pub(super) fn number(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.bytes.push(value as u8);
    }

    /// Numbers near zero, of either sign, are short.
    pub(super) fn signed(&mut self, value: i64) {
        self.number(((value << 1) ^ (value >> 63)) as u64);
    }
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Reader { bytes, at: 0 }
    }

    pub(super) fn is_at_end(&self) -> bool {
        self.at == self.bytes.len()
    }

    pub(super) fn malformed(&self, needed: &'static str) -> UnpackError {
        UnpackError::Malformed { at: self.at, length: self.bytes.len(), needed }
    }

    pub(super) fn byte(&mut self) -> Result<u8, UnpackError> {
        let byte = *self.bytes.get(self.at).ok_or_else(|| self.malformed("another byte"))?;
        self.at += 1;
        Ok(byte)
    }

    pub(super) fn number(&mut self) -> Result<u64, UnpackError> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(self.malformed("a number of 64 bits"))
    }

    pub(super) fn signed(&mut self) -> Result<i64, UnpackError> {
        let value = self.number()?;
        Ok((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    /// How many of something follow, each of one byte at least.
    pub(super) fn count(&mut self) -> Result<usize, UnpackError> {
        let count = self.number()?;
        let left = self.bytes.len() - self.at;
        usize::try_from(count)
            .ok()
            .filter(|count| *count <= left)
            .ok_or_else(|| self.malformed("a count of what is left"))
    }

    pub(super) fn take(&mut self, count: usize) -> Result<&'a [u8], UnpackError> {
        let taken = self.bytes.get(self.at..self.at + count).ok_or_else(|| self.malformed("more bytes"))?;
        self.at += count;
        Ok(taken)
    }
}

impl Packed for i64 {
    fn write(&self, writer: &mut Writer) {
        writer.signed(*self);
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, UnpackError> {
        reader.signed()
    }
}

impl Packed for u32 {
    fn write(&self, writer: &mut Writer) {
        writer.number(u64::from(*self));
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, UnpackError> {
        u32::try_from(reader.number()?).map_err(|_| reader.malformed("a number of 32 bits"))
    }
}

impl Packed for usize {
    fn write(&self, writer: &mut Writer) {
        writer.number(*self as u64);
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, UnpackError> {
        usize::try_from(reader.number()?).map_err(|_| reader.malformed("a smaller number"))
    }
}

impl Packed for bool {
    fn write(&self, writer: &mut Writer) {
        writer.bytes.push(u8::from(*self));
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, UnpackError> {
        match reader.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(reader.malformed("0 or 1")),
        }
    }
}

impl Packed for f64 {
    fn write(&self, writer: &mut Writer) {
        writer.bytes.extend(self.to_le_bytes());
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, UnpackError> {
        let bytes = reader.take(8)?.try_into().map_err(|_| reader.malformed("eight bytes"))?;
        Ok(f64::from_le_bytes(bytes))
    }
}

impl Packed for String {
    fn write(&self, writer: &mut Writer) {
        writer.number(self.len() as u64);
        writer.bytes.extend(self.as_bytes());
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, UnpackError> {
        let count = reader.count()?;
        let bytes = reader.take(count)?;
        str::from_utf8(bytes).map(str::to_owned).map_err(|_| reader.malformed("a text in UTF-8"))
    }
}

impl<T: Packed> Packed for Vec<T> {
    fn write(&self, writer: &mut Writer) {
        writer.number(self.len() as u64);
        self.iter().for_each(|item| item.write(writer));
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, UnpackError> {
        (0..reader.count()?).map(|_| T::read(reader)).collect()
    }
}

impl<T: Packed> Packed for Option<T> {
    fn write(&self, writer: &mut Writer) {
        self.is_some().write(writer);
        if let Some(value) = self {
            value.write(writer);
        }
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, UnpackError> {
        if bool::read(reader)? { T::read(reader).map(Some) } else { Ok(None) }
    }
}

impl<A: Packed, B: Packed> Packed for (A, B) {
    fn write(&self, writer: &mut Writer) {
        self.0.write(writer);
        self.1.write(writer);
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, UnpackError> {
        Ok((A::read(reader)?, B::read(reader)?))
    }
}

impl Packed for TensorId {
    fn write(&self, writer: &mut Writer) {
        self.0.write(writer);
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, UnpackError> {
        u32::read(reader).map(TensorId)
    }
}

impl Packed for Dtype {
    fn write(&self, writer: &mut Writer) {
        writer.bytes.push(Dtype::ALL.iter().position(|dtype| dtype == self).unwrap_or_default() as u8);
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, UnpackError> {
        let number = reader.byte()?;
        Dtype::ALL.get(usize::from(number)).copied().ok_or_else(|| reader.malformed("the number of an element type"))
    }
}

impl Packed for Size {
    fn write(&self, writer: &mut Writer) {
        match self {
            Size::Known(value) => {
                false.write(writer);
                value.write(writer);
            }
            Size::Symbolic(ExpressionId(number)) => {
                true.write(writer);
                number.write(writer);
            }
        }
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, UnpackError> {
        if bool::read(reader)? {
            u32::read(reader).map(|number| Size::Symbolic(ExpressionId(number)))
        } else {
            i64::read(reader).map(Size::Known)
        }
    }
}

/// Writes and reads a struct's fields one after another.
macro_rules! packed_struct {
    ($type:ident { $($field:ident),+ $(,)? }) => {
        impl Packed for $type {
            fn write(&self, writer: &mut Writer) {
                $(self.$field.write(writer);)+
            }

            fn read(reader: &mut Reader<'_>) -> Result<Self, UnpackError> {
                Ok($type { $($field: Packed::read(reader)?),+ })
            }
        }
    };
}
pub(super) use packed_struct;
