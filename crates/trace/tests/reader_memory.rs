//! Length fields of ten gigabytes must not be believed: the process's address space must hardly grow.
//!
//! A file of its own, so that no other test runs in the process that is measured.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)]

use vramfit_trace::read::read_bytes;

/// The most bytes of address space that this process has had.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmPeak:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}

fn compress(bytes: &[u8]) -> Vec<u8> {
    use std::io::Write;
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn length_fields_of_ten_gigabytes_allocate_next_to_nothing() {
    let ten_gigabytes = 10_000_000_000_u64.to_le_bytes();
    let mut files: Vec<Vec<u8>> = Vec::new();
    for opcode in [0x8d, 0x8e, 0x96, 0x95] {
        files.push([[0x80, 4, opcode].as_slice(), &ten_gigabytes, b"abc"].concat());
        files.push([[0x80, 4, opcode].as_slice(), &(63_u64 << 20).to_le_bytes(), b"abc"].concat());
    }
    for opcode in [b'X', b'B', b'T', 0x8b] {
        files.push([[0x80, 4, opcode].as_slice(), &0x7fff_ffff_u32.to_le_bytes(), b"abc"].concat());
    }
    files.push(b"\x80\x04Nr\xff\xff\xff\xff.".to_vec());
    files.push(b"\x80\x04]q\x00r\xfe\xff\xff\xff.".to_vec());
    // The first calls bring the process to its usual size.
    let _ = read_bytes(&compress(b"\x80\x04]."));
    let before = peak();
    for file in &files {
        let _ = read_bytes(file);
        let _ = read_bytes(&compress(file));
    }
    let grown = peak() - before;
    assert!(grown < 8 << 20, "grew by {grown} bytes");
}
