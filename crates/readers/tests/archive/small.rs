//! Small archives: those in `tests/archives`, and others made from them.

use std::path::Path;

use vramfit_graph::model::Model;
use vramfit_readers::{ReadError, read_bytes};

/// The archives that `make.py` has made, each of the same model.
pub const OPEN: [&str; 3] = ["tiny-2.8.pt2", "tiny-2.15.pt2", "tiny-meta.pt2"];

pub fn bytes(name: &str) -> Vec<u8> {
    std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/archives").join(name)).unwrap()
}

pub fn model(name: &str) -> Model {
    read_bytes(&bytes(name)).unwrap()
}

/// The graph of an archive whose entries are stored as they are.
pub fn graph(name: &str) -> String {
    let bytes = bytes(name);
    let mut at = 0;
    while bytes[at..].starts_with(b"PK\x03\x04") {
        let number = |place: usize, count: usize| {
            bytes[at + place..at + place + count].iter().rev().fold(0_usize, |sum, byte| sum << 8 | usize::from(*byte))
        };
        let (length, begin) = (number(18, 4), at + 30 + number(26, 2) + number(28, 2));
        if bytes[at + 30..begin].ends_with(b"models/model.json") {
            return String::from_utf8(bytes[begin..begin + length].to_vec()).unwrap();
        }
        at = begin + length;
    }
    panic!("{name} has no graph");
}

/// A zip archive with one entry, compressed by `method`, that announces so many bytes; `plain` is what it decompresses to.
pub fn zip(entry: &str, (content, plain): (&[u8], &[u8]), method: u16, announced: u32) -> Vec<u8> {
    let mut checksum = flate2::Crc::new();
    checksum.update(plain);
    let mut head = Vec::new();
    head.extend([20, 0, 0, 0]);
    head.extend(method.to_le_bytes());
    head.extend([0; 4]);
    head.extend(checksum.sum().to_le_bytes());
    head.extend((content.len() as u32).to_le_bytes());
    head.extend(announced.to_le_bytes());
    head.extend((entry.len() as u16).to_le_bytes());
    head.extend([0, 0]);
    let mut file = b"PK\x03\x04".to_vec();
    file.extend(&head);
    file.extend(entry.as_bytes());
    file.extend(content);
    let list = file.len() as u32;
    file.extend(b"PK\x01\x02\x14\x00");
    file.extend(&head);
    file.extend([0; 14]);
    file.extend(entry.as_bytes());
    let length = file.len() as u32 - list;
    file.extend(b"PK\x05\x06\x00\x00\x00\x00\x01\x00\x01\x00");
    file.extend(length.to_le_bytes());
    file.extend(list.to_le_bytes());
    file.extend([0, 0]);
    file
}

/// A zip archive with one entry, stored.
pub fn stored(entry: &str, content: &[u8]) -> Vec<u8> {
    zip(entry, (content, content), 0, content.len() as u32)
}

/// The archive of a graph.
pub fn archive(graph: &str) -> Vec<u8> {
    stored("archive/models/model.json", graph.as_bytes())
}

/// What is wrong with the graph of `tiny-meta.pt2` once one text in it is another.
pub fn error(old: &str, new: &str) -> ReadError {
    let graph = graph("tiny-meta.pt2");
    assert!(graph.contains(old), "the graph has no {old}");
    read_bytes(&archive(&graph.replacen(old, new, 1))).map(|_| ()).unwrap_err()
}

/// A zip archive with one stored entry whose lengths and offsets are in the 64-bit fields, as beyond 4 GiB.
pub fn zip_64(entry: &str, content: &[u8]) -> Vec<u8> {
    let plain = stored(entry, content);
    let list = 30 + entry.len() + content.len();
    let mut file = plain[..list].to_vec();
    let mut listed = plain[list..list + 46 + entry.len()].to_vec();
    let wide = [content.len() as u64, content.len() as u64, 0].map(u64::to_le_bytes).concat();
    listed[20..28].fill(0xff);
    listed[42..46].fill(0xff);
    listed[30..32].copy_from_slice(&(4 + wide.len() as u16).to_le_bytes());
    listed.extend([1, 0]);
    listed.extend((wide.len() as u16).to_le_bytes());
    listed.extend(wide);
    file.extend(&listed);
    let end = file.len() as u64;
    file.extend(b"PK\x06\x06");
    file.extend(44_u64.to_le_bytes());
    file.extend([45, 0, 45, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    for number in [1, 1, listed.len() as u64, list as u64] {
        file.extend(number.to_le_bytes());
    }
    file.extend(b"PK\x06\x07\0\0\0\0");
    file.extend(end.to_le_bytes());
    file.extend(1_u32.to_le_bytes());
    file.extend(b"PK\x05\x06\0\0\0\0");
    file.extend([0xff; 12]);
    file.extend([0, 0]);
    file
}
