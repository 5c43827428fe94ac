//! Damaged gzip files.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use vramfit_trace::read::{ReadError, read_bytes};

use crate::pickler::snapshot;

pub fn compress(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn a_gzip_file_is_read_like_a_plain_one() {
    let plain = snapshot().pickle();
    assert_eq!(read_bytes(&compress(&plain)).unwrap().devices, read_bytes(&plain).unwrap().devices);
}

#[test]
fn a_gzip_file_in_two_members_is_read_whole() {
    let plain = snapshot().pickle();
    let (first, second) = plain.split_at(100);
    let bytes = [compress(first), compress(second)].concat();
    assert_eq!(read_bytes(&bytes).unwrap().devices, read_bytes(&plain).unwrap().devices);
}

#[test]
fn a_gzip_file_truncated_at_any_byte_is_refused() {
    let bytes = compress(&snapshot().pickle());
    for length in 2..bytes.len() {
        let error = read_bytes(&bytes[..length]).unwrap_err();
        assert!(matches!(error, ReadError::Gzip { .. }), "{length}: {error}");
        assert!(error.to_string().starts_with("gzip: after "), "{error}");
    }
}

#[test]
fn a_gzip_file_with_a_wrong_checksum_is_refused() {
    let mut bytes = compress(&snapshot().pickle());
    let checksum = bytes.len() - 8;
    bytes[checksum] ^= 1;
    let error = read_bytes(&bytes).unwrap_err();
    assert!(matches!(error, ReadError::Gzip { .. }), "{error}");
}

#[test]
fn a_gzip_file_with_any_byte_changed_is_refused_or_holds_the_same() {
    let plain = snapshot().pickle();
    let devices = read_bytes(&plain).unwrap().devices;
    let bytes = compress(&plain);
    for index in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[index] ^= 0x55;
        // Time and operating system in the header have no check, and no effect.
        if let Ok(found) = read_bytes(&changed) {
            assert!(found.devices == devices, "{index}");
        }
    }
}

#[test]
fn gzip_of_something_else_is_refused_by_its_first_bytes() {
    let error = read_bytes(&compress(b"{\"segments\": []}")).unwrap_err();
    assert_eq!(
        error.to_string(),
        "byte 0: found text, perhaps JSON; a pickle of protocol 2 to 5 begins with byte 0x80"
    );
    let error = read_bytes(&compress(&compress(&snapshot().pickle()))).unwrap_err();
    assert!(error.to_string().contains("gzip inside gzip"), "{error}");
}

#[test]
fn an_empty_gzip_file_is_empty() {
    assert!(matches!(read_bytes(&compress(b"")), Err(ReadError::Empty)));
}
