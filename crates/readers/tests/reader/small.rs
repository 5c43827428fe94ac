//! A small capture that has one of everything, and ways to spoil it.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::Value;
use vramfit_graph::model::Model;
use vramfit_readers::{ReadError, read_bytes};

/// The capture's JSON.
pub fn small() -> Value {
    serde_json::from_str(include_str!("../captures/small.json")).expect("it is JSON")
}

/// The capture as a file.
pub fn file(capture: &Value) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(capture.to_string().as_bytes()).expect("memory takes all");
    encoder.finish().expect("memory takes all")
}

/// What reading the capture gives.
pub fn read(capture: &Value) -> Result<Model, ReadError> {
    read_bytes(&file(capture))
}

/// Makes sure that the small capture, spoilt by `spoil`, is refused with this variant and message.
#[track_caller]
pub fn assert_refused(variant: &str, message: &str, spoil: impl FnOnce(&mut Value)) {
    let mut capture = small();
    spoil(&mut capture);
    assert_error(&read(&capture).expect_err("the capture is bad"), variant, message);
}

/// Makes sure that the error is this variant and has this message, and a hint.
#[track_caller]
pub fn assert_error(error: &ReadError, variant: &str, message: &str) {
    assert_eq!(error.to_string(), message);
    let shown = format!("{error:?}");
    // What a part of the reader refuses is an error within the reader's.
    let own = ["Check(", "Zip("].iter().find_map(|part| shown.strip_prefix(part)).unwrap_or(&shown);
    let name: String = own.chars().take_while(|character| character.is_alphanumeric()).collect();
    assert_eq!(name, variant);
    assert!(error.hint().is_some_and(|hint| !hint.is_empty()));
}
