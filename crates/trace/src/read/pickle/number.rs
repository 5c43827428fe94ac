//! Whole numbers of any length, as LONG1 and LONG4 write them.

use super::value::Kind;

/// The number that `bytes` say: two's complement, lowest byte first, no bytes meaning 0.
#[inline]
pub(crate) fn decode_long(bytes: &[u8]) -> Kind {
    match bytes.len() {
        1..8 => {
            let mut word = [0; 8];
            word[8 - bytes.len()..].copy_from_slice(bytes);
            Kind::Int(i64::from_le_bytes(word) >> (64 - 8 * bytes.len()))
        }
        _ => decode_other_long(bytes),
    }
}

fn decode_other_long(bytes: &[u8]) -> Kind {
    let is_negative = bytes.last().is_some_and(|&byte| byte >= 0x80);
    let fill = if is_negative { 0xff } else { 0x00 };
    let (low, high) = bytes.split_at(bytes.len().min(8));
    let mut word = [fill; 8];
    word[..low.len()].copy_from_slice(low);
    if high.iter().any(|&byte| byte != fill) {
        return Kind::Huge;
    }
    let is_word_negative = word[7] >= 0x80;
    match (is_negative, is_word_negative) {
        (false, true) => Kind::Large(u64::from_le_bytes(word)),
        (true, false) => Kind::Huge,
        _ => Kind::Int(i64::from_le_bytes(word)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_bytes_give_the_numbers_that_python_writes() {
        assert_eq!(decode_long(b""), Kind::Int(0));
        assert_eq!(decode_long(b"\xff\x00"), Kind::Int(255));
        assert_eq!(decode_long(b"\xff\x7f"), Kind::Int(32767));
        assert_eq!(decode_long(b"\x00\xff"), Kind::Int(-256));
        assert_eq!(decode_long(b"\x80"), Kind::Int(-128));
        assert_eq!(decode_long(b"\x00\x00\x00\x00\x12\x7f"), Kind::Int(0x7f12_0000_0000));
    }

    #[test]
    fn the_edges_of_sixty_four_bits_are_kept_apart() {
        assert_eq!(decode_long(&i64::MAX.to_le_bytes()), Kind::Int(i64::MAX));
        assert_eq!(decode_long(&i64::MIN.to_le_bytes()), Kind::Int(i64::MIN));
        assert_eq!(decode_long(b"\x00\x00\x00\x00\x00\x00\x00\x80\x00"), Kind::Large(1 << 63));
        assert_eq!(decode_long(b"\xff\xff\xff\xff\xff\xff\xff\xff\x00"), Kind::Large(u64::MAX));
        assert_eq!(decode_long(b"\x00\x00\x00\x00\x00\x00\x00\x00\x01"), Kind::Huge);
        assert_eq!(decode_long(b"\xff\xff\xff\xff\xff\xff\xff\x7f\xff"), Kind::Huge);
        assert_eq!(decode_long(b"\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"), Kind::Int(1));
        assert_eq!(decode_long(&[0xff; 20]), Kind::Int(-1));
    }
}
