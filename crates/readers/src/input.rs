//! The text of a file: its bytes, decompressed where they are gzip, and known to be UTF-8.

use std::borrow::Cow;
use std::io::Read;

use flate2::bufread::GzDecoder;

use super::error::ReadError;
use super::kind::Kind;

const GZIP: [u8; 2] = [0x1f, 0x8b];

/// No more than this is allocated because a length field says so.
pub(super) const FIRST_ALLOCATION: usize = 16 << 20;

/// All bytes of a file as stored, up to `limit`.
pub(super) fn stored_bytes(file: impl Read, limit: u64) -> Result<Vec<u8>, ReadError> {
    let mut bytes = Vec::new();
    file.take(limit + 1).read_to_end(&mut bytes).map_err(ReadError::Io)?;
    if bytes.len() as u64 > limit { Err(ReadError::TooLarge { limit }) } else { Ok(bytes) }
}

/// The text in `bytes`, up to `limit` bytes of it.
pub(super) fn text(bytes: &[u8], limit: u64, needed: Kind) -> Result<Cow<'_, str>, ReadError> {
    if bytes.is_empty() {
        return Err(ReadError::Empty { needed });
    }
    let plain = if bytes.starts_with(&GZIP) {
        Cow::Owned(decompressed(bytes, limit)?)
    } else if bytes.len() as u64 > limit {
        return Err(ReadError::TooLarge { limit });
    } else {
        Cow::Borrowed(bytes)
    };
    match plain.iter().find(|byte| !byte.is_ascii_whitespace()) {
        Some(b'{') => {}
        Some(_) => return Err(ReadError::NotAModel { found: describe(&plain), needed }),
        None => return Err(ReadError::Empty { needed }),
    }
    let not_text = |error: std::str::Utf8Error| ReadError::NotText { offset: error.valid_up_to() };
    Ok(match plain {
        Cow::Borrowed(bytes) => Cow::Borrowed(std::str::from_utf8(bytes).map_err(not_text)?),
        Cow::Owned(bytes) => Cow::Owned(String::from_utf8(bytes).map_err(|error| not_text(error.utf8_error()))?),
    })
}

fn decompressed(bytes: &[u8], limit: u64) -> Result<Vec<u8>, ReadError> {
    // The last four bytes of a gzip file are its decompressed length; if they are wrong, the buffer grows.
    let said = bytes.last_chunk::<4>().map_or(0, |length| u32::from_le_bytes(*length) as usize);
    let mut plain = Vec::with_capacity(said.saturating_add(1).min(FIRST_ALLOCATION));
    let mut decoder = GzDecoder::new(bytes);
    let read = decoder.by_ref().take(limit + 1).read_to_end(&mut plain);
    read.map_err(|source| ReadError::Gzip { offset: plain.len() as u64, source })?;
    if plain.len() as u64 > limit {
        return Err(ReadError::TooLarge { limit });
    }
    let rest = decoder.into_inner();
    if rest.is_empty() { Ok(plain) } else { Err(ReadError::TrailingBytes { count: rest.len() }) }
}

/// Whether a file with these first bytes may be a capture or a config.json. If not, the rest need not be read.
pub(super) fn may_be_object(first: &[u8]) -> bool {
    first.starts_with(&GZIP) || first.iter().find(|byte| !byte.is_ascii_whitespace()).is_none_or(|byte| *byte == b'{')
}

/// What the first bytes are, for messages.
pub(super) fn describe(bytes: &[u8]) -> String {
    const KNOWN: [(&[u8], &str); 6] = [
        (b"\xef\xbb\xbf", "a byte order mark, which JSON does not allow"),
        (b"PK\x03\x04", "a zip archive, as torch.save and torch.export.save write"),
        (b"\x80", "a pickle"),
        (b"\x1f\x8b", "gzip within gzip"),
        (b"\x7fELF", "a program"),
        (b"[", "a JSON list"),
    ];
    match KNOWN.iter().find(|(start, _)| bytes.starts_with(start)) {
        Some((_, name)) => (*name).to_owned(),
        None => format!("`{}`", bytes[..bytes.len().min(8)].escape_ascii()),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::{Kind, ReadError, stored_bytes};

    const LIMIT: u64 = 1000;

    fn text(bytes: &[u8], limit: u64) -> Result<std::borrow::Cow<'_, str>, ReadError> {
        super::text(bytes, limit, Kind::Capture)
    }

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(bytes).expect("memory takes all");
        encoder.finish().expect("memory takes all")
    }

    fn object(length: usize) -> Vec<u8> {
        format!("{{{}}}", " ".repeat(length - 2)).into_bytes()
    }

    #[test]
    fn as_many_bytes_as_the_limit_are_read() {
        assert_eq!(text(&object(1000), LIMIT).expect("it is short enough").len(), 1000);
        assert_eq!(text(&gzip(&object(1000)), LIMIT).expect("it is short enough").len(), 1000);
        assert_eq!(stored_bytes(&object(1000)[..], LIMIT).expect("it is short enough").len(), 1000);
    }

    #[test]
    fn one_byte_more_than_the_limit_is_refused() {
        let message = "the file has more than 1000 bytes, decompressed if it is gzip; at most that many are read";
        let plain = text(&object(1001), LIMIT).map(|_| ()).expect_err("it is too long");
        let packed = text(&gzip(&object(1001)), LIMIT).map(|_| ()).expect_err("it is too long");
        let stored = stored_bytes(&object(1001)[..], LIMIT).map(|_| ()).expect_err("it is too long");
        for error in [plain, packed, stored] {
            assert!(matches!(error, ReadError::TooLarge { limit: LIMIT }));
            assert_eq!(error.to_string(), message);
        }
    }

    #[test]
    fn a_wrong_length_field_costs_nothing() {
        let mut bytes = gzip(&object(100));
        let length = bytes.len();
        bytes[length - 4..].fill(0xff);
        assert!(matches!(text(&bytes, LIMIT), Err(ReadError::Gzip { offset: 100, .. })));
    }
}
