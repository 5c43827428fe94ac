//! Bytes in which frequent pairs were replaced by symbols, again and again.
//!
//! `validation/workspace_grid/pairs.py` replaces them. A symbol has two bytes. Those below 256 are bytes, each other one stands for two
//! earlier symbols.

use smallvec::SmallVec;

/// The first symbol that stands for others.
const BYTES: u16 = 256;
/// No series has more bytes. A damaged table must not grow without end.
const LONGEST: usize = 1 << 14;

/// The symbols that each symbol from 256 on stands for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pairs<'t>(pub &'t [[u8; 4]]);

impl Pairs<'_> {
    /// The bytes that symbols stand for.
    pub fn bytes(&self, symbols: &[u8]) -> Option<SmallVec<[u8; 256]>> {
        let mut bytes = SmallVec::new();
        let mut waiting: SmallVec<[u16; 32]> = SmallVec::new();
        for symbol in symbols.as_chunks().0 {
            let mut symbol = u16::from_le_bytes(*symbol);
            loop {
                while let Some(index) = symbol.checked_sub(BYTES) {
                    let [low, high, next_low, next_high] = *self.0.get(usize::from(index))?;
                    let (first, second) = (u16::from_le_bytes([low, high]), u16::from_le_bytes([next_low, next_high]));
                    if first.max(second) >= symbol || bytes.len() > LONGEST {
                        return None;
                    }
                    waiting.push(second);
                    symbol = first;
                }
                bytes.push(symbol as u8);
                match waiting.pop() {
                    Some(next) => symbol = next,
                    None => break,
                }
            }
        }
        Some(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_symbol_stands_for_two_earlier_ones_in_order() {
        // 256 is "ab", 257 is "abc".
        let pairs = Pairs(&[[b'a', 0, b'b', 0], [0, 1, b'c', 0]]);
        assert_eq!(pairs.bytes(&[1, 1, b'd', 0, 0, 1]).unwrap()[..], *b"abcdab");
        assert_eq!(pairs.bytes(&[]).unwrap()[..], []);
    }

    #[test]
    fn unknown_symbols_circles_and_endless_growth_are_refused() {
        assert_eq!(Pairs(&[]).bytes(&[0, 1]), None);
        assert_eq!(Pairs(&[[0, 1, b'a', 0]]).bytes(&[0, 1]), None);
        assert_eq!(Pairs(&[[b'a', 0, 1, 1], [b'a', 0, b'b', 0]]).bytes(&[0, 1]), None);
        let mut doubling = vec![[b'a', 0, b'a', 0]];
        for earlier in 256_u16..300 {
            let [low, high] = earlier.to_le_bytes();
            doubling.push([low, high, low, high]);
        }
        let pairs = Pairs(&doubling);
        assert_eq!(pairs.bytes(&300_u16.to_le_bytes()), None);
        assert_eq!(pairs.bytes(&260_u16.to_le_bytes()).unwrap().len(), 32);
    }
}
