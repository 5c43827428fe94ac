//! Bytes of a table that are inflated when they are first read.

use std::sync::OnceLock;

use flate2::{Decompress, FlushDecompress};

use super::numbers::Numbers;

/// What claims to be larger is damaged.
const LARGEST: usize = 1 << 20;

/// A deflated part of a table.
#[derive(Debug)]
pub(super) struct Deflated<'t> {
    deflated: &'t [u8],
    length: usize,
    inflated: OnceLock<Vec<u8>>,
}

/// How long a part is, deflated and inflated.
#[derive(Clone, Copy, Debug)]
pub(super) struct DeflatedLengths {
    deflated: usize,
    inflated: usize,
}

impl DeflatedLengths {
    pub fn read(numbers: &mut Numbers<'_>) -> Option<DeflatedLengths> {
        let deflated = numbers.next_length()?;
        let inflated = numbers.next_length().filter(|&length| length <= LARGEST)?;
        Some(DeflatedLengths { deflated, inflated })
    }
}

impl<'t> Deflated<'t> {
    /// The part that follows.
    pub fn read(parts: &mut Numbers<'t>, lengths: DeflatedLengths) -> Option<Deflated<'t>> {
        let deflated = parts.bytes(lengths.deflated)?;
        Some(Deflated { deflated, length: lengths.inflated, inflated: OnceLock::new() })
    }

    /// The inflated bytes; fewer or none if the part is damaged.
    pub fn bytes(&self) -> &[u8] {
        self.inflated.get_or_init(|| {
            let mut bytes = Vec::with_capacity(self.length);
            let inflated = Decompress::new(false).decompress_vec(self.deflated, &mut bytes, FlushDecompress::Finish);
            inflated.map(|_| bytes).unwrap_or_default()
        })
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::DeflateEncoder;

    use super::*;

    pub fn deflate(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = DeflateEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn read(parts: &[u8], inflated: usize) -> Vec<u8> {
        let lengths = DeflatedLengths { deflated: parts.len(), inflated };
        Deflated::read(&mut Numbers(parts), lengths).unwrap().bytes().to_vec()
    }

    #[test]
    fn a_part_is_inflated_to_no_more_than_its_length() {
        let parts = deflate(b"abcabcabcabc");
        assert_eq!(read(&parts, 12), b"abcabcabcabc");
        assert!(read(&parts, 5).len() <= 5);
        assert_eq!(read(&[255; 9], 12), []);
    }

    #[test]
    fn lengths_beyond_the_largest_part_are_refused() {
        assert!(DeflatedLengths::read(&mut Numbers(&[9, 0x80, 0x80, 0x40])).is_some());
        assert!(DeflatedLengths::read(&mut Numbers(&[9, 0x81, 0x80, 0x40])).is_none());
    }
}
