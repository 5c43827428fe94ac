//! Zip archives that are truncated, lie about themselves, or are something else.

use std::io::Write;

use vramfit_readers::{ReadError, ZipError, read_bytes};

use super::small::{bytes, zip};

fn message(bytes: &[u8]) -> String {
    read_bytes(bytes).map(|_| ()).unwrap_err().to_string()
}

fn deflated(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

const ENTRY: &str = "archive/models/model.json";

#[test]
fn a_truncated_archive_is_refused_at_every_length() {
    let whole = bytes("tiny-2.15.pt2");
    for length in (4..whole.len()).step_by(97) {
        let error = read_bytes(&whole[..length]).map(|_| ()).unwrap_err();
        // The example is a zip archive too, whose end may be the last that is left.
        let is_cut = matches!(error, ReadError::Zip(ZipError::WithoutEnd { .. } | ZipError::Damaged { .. }));
        assert!(is_cut, "{length}: {error}");
        assert!(error.hint().unwrap().contains("truncated"));
    }
}

#[test]
fn an_entry_that_announces_too_much_is_refused_before_it_is_unpacked() {
    let packed = deflated(b"{}");
    assert_eq!(
        message(&zip(ENTRY, &packed, 8, 600 << 20)),
        "zip: entry `archive/models/model.json` has more than 536870912 bytes, unpacked; at most that many are read"
    );
}

#[test]
fn an_entry_that_unpacks_to_more_than_it_announces_is_refused() {
    let packed = deflated(&vec![b' '; 10 << 20]);
    assert!(packed.len() < 20_000, "a bomb is small");
    assert_eq!(
        message(&zip(ENTRY, &packed, 8, 10)),
        "zip: entry `archive/models/model.json` has more than 10 bytes, unpacked; it announced that many"
    );
}

#[test]
fn damaged_compression_is_refused() {
    let mut packed = deflated(&[b'x'; 1000]);
    packed[0] |= 6; // there is no such kind of block
    let error = message(&zip(ENTRY, &packed, 8, 1000));
    assert!(error.starts_with("zip: entry `archive/models/model.json`"), "{error}");
}

#[test]
fn a_way_of_packing_that_is_not_known_is_named() {
    assert_eq!(
        message(&zip(ENTRY, b"{}", 14, 2)),
        "zip: entry `archive/models/model.json`: found method 14, needed a stored or deflated one"
    );
}

#[test]
fn another_zip_archive_is_said_to_be_one() {
    let error = read_bytes(&zip("archive/data.pkl", b"\x80\x02.", 0, 3)).map(|_| ()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "found a zip archive without `models/*.json`, which torch.export.save writes; it has archive/data.pkl"
    );
    assert!(error.hint().unwrap().contains("torch.export.save"));
}

#[test]
fn an_entry_beyond_the_files_end_is_refused() {
    let mut file = zip(ENTRY, b"{}", 0, 2);
    let list = file.len() - 22 - (46 + ENTRY.len());
    file[list + 20..list + 24].copy_from_slice(&1_000_000_u32.to_le_bytes());
    assert!(message(&file).starts_with("zip: bytes "), "{}", message(&file));
}

#[test]
fn a_graph_that_is_no_text_is_refused() {
    assert_eq!(message(&zip(ENTRY, b"{\xff}", 0, 3)), format!("{ENTRY}: byte 1: the text is not UTF-8 from here on"));
}
