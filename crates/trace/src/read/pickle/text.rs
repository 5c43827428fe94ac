//! Strings as pickle writes them: UTF-8, in which lone surrogates may represent undecodable bytes of a file name.

use std::borrow::Cow;

/// The text that `bytes` hold, each lone surrogate replaced by U+FFFD; or how many bytes are good.
#[inline]
pub(crate) fn decode_text(bytes: &[u8]) -> Result<Cow<'_, str>, usize> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Ok(Cow::Borrowed(text)),
        Err(_) => decode_with_surrogates(bytes).map(Cow::Owned),
    }
}

#[cold]
fn decode_with_surrogates(bytes: &[u8]) -> Result<String, usize> {
    let mut text = String::with_capacity(bytes.len());
    let mut done = 0;
    loop {
        let error = match std::str::from_utf8(&bytes[done..]) {
            Ok(rest) => {
                text.push_str(rest);
                return Ok(text);
            }
            Err(error) => error,
        };
        let good = done + error.valid_up_to();
        text.push_str(&String::from_utf8_lossy(&bytes[done..good]));
        if !matches!(bytes[good..], [0xed, 0xa0..=0xbf, 0x80..=0xbf, ..]) {
            return Err(good);
        }
        text.push(char::REPLACEMENT_CHARACTER);
        done = good + 3;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_text_is_borrowed() {
        assert!(matches!(decode_text("größe".as_bytes()), Ok(Cow::Borrowed("größe"))));
    }

    #[test]
    fn a_lone_surrogate_becomes_the_replacement_character() {
        assert_eq!(decode_text(b"a\xed\xb3\xbfb\xed\xa0\x80").unwrap(), "a\u{fffd}b\u{fffd}");
    }

    #[test]
    fn other_bytes_are_refused_with_the_length_of_the_good_part() {
        assert_eq!(decode_text(b"ab\xff"), Err(2));
        assert_eq!(decode_text(b"ab\xed\xb3\xbfc\xc3"), Err(6));
        assert_eq!(decode_text(b"\xed\xa0"), Err(0));
    }
}
