//! Zip archives that are truncated, inconsistent, or something else.

use std::io::Write;

use vramfit_readers::{ReadError, ZipError, read_bytes};

use super::small::{bytes, stored, zip};

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
        let is_cut = matches!(error, ReadError::Zip(ZipError::Unreadable(_)));
        assert!(is_cut, "{length}: {error}");
        assert!(error.hint().unwrap().contains("truncated"));
    }
}

#[test]
fn an_entry_that_announces_too_much_is_refused_before_it_is_unpacked() {
    let packed = deflated(b"{}");
    assert_eq!(
        message(&zip(ENTRY, (&packed, b"{}"), 8, 600 << 20)),
        "zip: entry `archive/models/model.json` has more than 536870912 bytes, unpacked; at most that many are read"
    );
}

#[test]
fn an_entry_that_unpacks_to_more_than_it_announces_is_refused() {
    let plain = vec![b' '; 10 << 20];
    let packed = deflated(&plain);
    assert!(packed.len() < 20_000, "a bomb is small");
    assert_eq!(
        message(&zip(ENTRY, (&packed, &plain), 8, 10)),
        "zip: entry `archive/models/model.json` has more than 10 bytes, unpacked; it announced that many"
    );
}

#[test]
fn damaged_compression_is_refused() {
    let mut packed = deflated(&[b'x'; 1000]);
    packed[0] |= 6; // there is no such kind of block
    let error = message(&zip(ENTRY, (&packed, &[b'x'; 1000]), 8, 1000));
    assert!(error.starts_with("zip: entry `archive/models/model.json`"), "{error}");
}

#[test]
fn an_entry_whose_bytes_were_changed_is_refused() {
    for method in [0, 8] {
        let content = if method == 0 { b"{\"a\": 1}".to_vec() } else { deflated(b"{\"a\": 1}") };
        let error = message(&zip(ENTRY, (&content, b"{\"a\": 2}"), method, 8));
        assert_eq!(
            error, "zip: entry `archive/models/model.json`: after 8 unpacked bytes: Invalid checksum",
            "method {method}"
        );
    }
}

#[test]
fn an_entry_that_unpacks_to_less_than_it_announces_is_refused() {
    let error = message(&zip(ENTRY, (b"{}", b"{}"), 0, 3));
    assert_eq!(error, "zip: entry `archive/models/model.json` has 2 bytes, unpacked; 3 were announced");
}

#[test]
fn an_archive_of_more_than_4_gib_is_read() {
    let graph = super::small::graph("tiny-meta.pt2");
    let far = read_bytes(&super::small::zip_64(ENTRY, graph.as_bytes())).unwrap();
    assert_eq!(far, read_bytes(&super::small::archive(&graph)).unwrap());
}

#[test]
fn more_entries_than_a_model_has_are_refused_before_the_list_is_read() {
    const COUNT: u64 = (1 << 20) + 1;
    let mut file = super::small::zip_64(ENTRY, &vec![b' '; 46 << 20]);
    let end = file.len() - 22 - 20 - 56;
    for (at, number) in [(24, COUNT), (32, COUNT), (40, 46 * COUNT), (48, 0)] {
        file[end + at..end + at + 8].copy_from_slice(&number.to_le_bytes());
    }
    assert_eq!(message(&file), "zip: the archive has 1048577 entries; at most 1048576 are read");
}

#[test]
fn an_unsupported_compression_method_is_named() {
    assert_eq!(
        message(&zip(ENTRY, (b"{}", b"{}"), 14, 2)),
        "zip: entry `archive/models/model.json`: found Lzma, needed a stored or deflated one"
    );
}

#[test]
fn another_zip_archive_is_said_to_be_one() {
    let error = read_bytes(&stored("archive/data.pkl", b"\x80\x02.")).map(|_| ()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "found a zip archive without `models/*.json`, which torch.export.save writes; it has archive/data.pkl"
    );
    assert!(error.hint().unwrap().contains("torch.export.save"));
}

#[test]
fn an_entry_beyond_the_files_end_is_refused() {
    let mut file = stored(ENTRY, b"{}");
    let list = file.len() - 22 - (46 + ENTRY.len());
    file[list + 20..list + 24].copy_from_slice(&1_000_000_u32.to_le_bytes());
    assert!(message(&file).starts_with("zip: bytes "), "{}", message(&file));
}

#[test]
fn a_graph_that_is_no_text_is_refused() {
    assert_eq!(message(&stored(ENTRY, b"{\xff}")), format!("{ENTRY}: byte 1: the text is not UTF-8 from here on"));
}
