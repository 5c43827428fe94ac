//! Files that are no JSON in gzip.

use vramfit_readers::{ReadError, read_bytes};

use crate::small::{assert_error, file, small};

#[track_caller]
fn assert_bytes_refused(bytes: &[u8], variant: &str, message: &str) {
    assert_error(&read_bytes(bytes).expect_err("the bytes are bad"), variant, message);
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    use std::io::Write;
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).expect("memory takes all");
    encoder.finish().expect("memory takes all")
}

#[test]
fn nothing_is_no_capture() {
    let message = "the file is empty, needed a capture, a .pt2 of torch.export.save, a config.json or a model.toml";
    assert_bytes_refused(b"", "Empty", message);
    assert_bytes_refused(b"  \n ", "Empty", message);
    assert_bytes_refused(&gzip(b""), "Empty", message);
}

#[test]
fn other_files_are_named_for_what_they_are() {
    let refused = |bytes: &[u8], found: &str| {
        let message = format!(
            "byte 0: found {found}, needed a capture, a .pt2 of torch.export.save, a config.json or a model.toml"
        );
        assert_bytes_refused(bytes, "NotAModel", &message);
    };
    // A zip archive is taken for one of torch.export.
    let message = "zip: invalid Zip archive: Could not find EOCD";
    assert_bytes_refused(b"PK\x03\x04abc", "Unreadable", message);
    refused(b"\x80\x04abc", "a pickle");
    refused(b"[1, 2]", "a JSON list");
    refused(b"hello there\n", "`hello th`");
    refused(&gzip(&gzip(b"{}")), "gzip within gzip");
    refused(&gzip(b"PK\x03\x04abc"), "a zip archive, as torch.save and torch.export.save write");
}

#[test]
fn a_damaged_gzip_layer_is_told_from_bad_json() {
    let mut bytes = file(&small());
    let last = bytes.len() - 6;
    bytes[last] ^= 1;
    let error = read_bytes(&bytes).expect_err("the checksum is wrong");
    assert!(matches!(error, ReadError::Gzip { .. }), "{error}");
    assert!(error.to_string().starts_with("gzip: after "), "{error}");
}

#[test]
fn nothing_may_follow_the_capture() {
    let mut bytes = file(&small());
    bytes.extend(b"more");
    let message = "4 more bytes follow the compressed capture; nothing should";
    assert_bytes_refused(&bytes, "TrailingBytes", message);
    let mut text = small().to_string();
    text.push_str(" {}");
    let error = read_bytes(text.as_bytes()).expect_err("there is more");
    assert!(matches!(error, ReadError::InvalidJson { .. }), "{error}");
}

#[test]
fn text_must_be_utf_8() {
    assert_bytes_refused(b"{\"a\": \"\xff\"}", "NotText", "byte 7: the text is not UTF-8 from here on");
    assert_bytes_refused(&gzip(b"{\"a\": \"\xff\"}"), "NotText", "byte 7: the text is not UTF-8 from here on");
}

#[test]
fn json_that_ends_too_early_says_where() {
    let text = small().to_string();
    let end = text.find("[\"loss\"]").expect("it is there");
    let message = format!("steps[0][17]: the JSON ends here, after {end} bytes, before it is complete");
    assert_bytes_refused(&gzip(&text.as_bytes()[..end]), "TruncatedJson", &message);
}

#[test]
fn json_that_is_none_says_where() {
    let text = small().to_string().replace("[\"loss\"]", "[oops]");
    let column = text.find("oops").expect("it is there") + 1;
    let message = format!("steps[0][17][0]: line 1, column {column}: expected value");
    assert_bytes_refused(&gzip(text.as_bytes()), "InvalidJson", &message);
}
