//! Numbers of varying length.

/// Numbers one after another, encoded as in a [key](super::layer_key).
pub(super) struct Numbers<'t>(pub &'t [u8]);

impl<'t> Numbers<'t> {
    pub fn next(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..u64::BITS).step_by(7) {
            let (&byte, rest) = self.0.split_first()?;
            self.0 = rest;
            number |= u64::from(byte & 127) << shift;
            if byte < 128 {
                return Some(number);
            }
        }
        None
    }

    /// A number of bytes.
    pub fn next_length(&mut self) -> Option<usize> {
        usize::try_from(self.next()?).ok()
    }

    /// Bytes that follow, as they are.
    pub fn bytes(&mut self, length: usize) -> Option<&'t [u8]> {
        let (bytes, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(bytes)
    }

    /// The lowest bit is the sign.
    pub fn next_signed(&mut self) -> Option<i64> {
        let number = self.next()?;
        Some((number >> 1).cast_signed() ^ -(number & 1).cast_signed())
    }
}
