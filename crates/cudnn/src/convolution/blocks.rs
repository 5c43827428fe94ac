//! Records of layers in blocks. A lookup inflates only the block that has the layer.
//!
//! `validation/workspace_grid/blocks.py` makes them and describes their layout.

use super::deflated::{Deflated, DeflatedLengths};
use super::numbers::Numbers;

/// Records of layers by [key](super::layer_key).
#[derive(Debug)]
pub(super) struct Blocks<'t>(Vec<Block<'t>>);

#[derive(Debug)]
struct Block<'t> {
    first_key: &'t [u8],
    records: Deflated<'t>,
}

/// Records one after another.
struct Records<'b>(Numbers<'b>);

impl<'b> Iterator for Records<'b> {
    type Item = &'b [u8];

    fn next(&mut self) -> Option<&'b [u8]> {
        let length = self.0.next_length()?;
        self.0.bytes(length)
    }
}

impl<'t> Blocks<'t> {
    /// Reads the blocks, which are the rest of a payload.
    pub fn read(payload: &mut Numbers<'t>) -> Option<Blocks<'t>> {
        let mut heads = Vec::new();
        for _ in 0..payload.next()? {
            let lengths = DeflatedLengths::read(payload)?;
            let key = payload.next_length()?;
            heads.push((payload.bytes(key)?, lengths));
        }
        let block = |(first_key, lengths)| Some(Block { first_key, records: Deflated::read(payload, lengths)? });
        heads.into_iter().map(block).collect::<Option<_>>().map(Blocks)
    }

    /// What a layer's record has after its key.
    pub fn find(&self, key: &[u8]) -> Option<Numbers<'_>> {
        let block = self.0.partition_point(|block| block.first_key <= key).checked_sub(1)?;
        Records(Numbers(self.0[block].records.bytes())).find_map(|record| record.strip_prefix(key)).map(Numbers)
    }
}

#[cfg(test)]
impl Blocks<'_> {
    /// Every record, its key first.
    pub fn records(&self) -> impl Iterator<Item = &[u8]> {
        self.0.iter().flat_map(|block| Records(Numbers(block.records.bytes())))
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::convolution::deflated::tests::deflate;

    /// One block of records, which are sorted: key and rest.
    pub fn block(records: &[(&[u8], &[u8])]) -> Vec<u8> {
        let records_bytes = records.iter().flat_map(|(key, rest)| {
            let length = (key.len() + rest.len()) as u8;
            [&[length], *key, *rest].concat()
        });
        let records_bytes: Vec<u8> = records_bytes.collect();
        let (deflated, key) = (deflate(&records_bytes), records[0].0);
        let [deflated_length, length] = [deflated.len(), records_bytes.len()].map(|length| {
            assert!(length < 1 << 14);
            [length as u8 & 127 | 128, (length >> 7) as u8]
        });
        [&[1], &deflated_length[..], &length, &[key.len() as u8], key, &deflated].concat()
    }

    #[test]
    fn a_record_is_found_by_its_key() {
        let bytes = block(&[(b"aa", b"1"), (b"ab", b"23"), (b"c", b"")]);
        let blocks = Blocks::read(&mut Numbers(&bytes)).unwrap();
        let find = |key: &str| blocks.find(key.as_bytes()).map(|rest| rest.0);
        assert_eq!((find("aa"), find("ab"), find("c")), (Some(&b"1"[..]), Some(&b"23"[..]), Some(&b""[..])));
        assert_eq!((find("ac"), find("A"), find("d")), (None, None, None));
        assert_eq!(blocks.records().count(), 3);
    }
}
