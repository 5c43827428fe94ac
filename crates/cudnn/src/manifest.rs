//! Compares the manifest of the shipped tables with the files.

use std::collections::BTreeSet;
use std::path::Path;

use serde::Deserialize;

use crate::table::{Table, TableKind, checksum};

#[derive(Deserialize)]
struct Manifest {
    table: Vec<Entry>,
}

#[derive(Deserialize)]
struct Entry {
    file: String,
    kind: Option<String>,
    format: Option<u16>,
    gpu: String,
    compute_capability: String,
    multiprocessors: i64,
    threads_per_multiprocessor: i64,
    cudnn: u32,
    torch: String,
    recorded: String,
    command: String,
    inputs: Vec<String>,
    length: usize,
    crc32: String,
}

fn data(file: &str) -> Vec<u8> {
    std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("data").join(file)).unwrap()
}

fn entries() -> Vec<Entry> {
    let text = String::from_utf8(data("manifest.toml")).unwrap();
    toml::from_str::<Manifest>(&text).unwrap().table
}

#[test]
fn the_manifest_lists_every_table_with_its_length_and_checksum() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("data");
    let files = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap());
    let listed = entries().into_iter().map(|entry| entry.file).chain(["manifest.toml".to_owned()]);
    assert_eq!(files.collect::<BTreeSet<_>>(), listed.collect::<BTreeSet<_>>());
    for entry in entries() {
        let bytes = data(&entry.file);
        assert_eq!((entry.length, entry.crc32), (bytes.len(), format!("{:08x}", checksum(&bytes))), "{}", entry.file);
        assert!(!entry.torch.is_empty() && entry.recorded.len() == 10 && !entry.command.is_empty());
        assert!(!entry.inputs.is_empty(), "{}", entry.file);
    }
}

#[test]
fn headers_agree_with_the_manifest_and_payloads_are_intact() {
    let mut checked = 0;
    for entry in entries() {
        let Some(kind) = &entry.kind else { continue };
        let kind = match kind.as_str() {
            "SERS" => TableKind::Series,
            "TREE" => TableKind::Trees,
            "CAPS" => TableKind::ByCapability,
            "RECU" => TableKind::Recurrent,
            other => panic!("{other}"),
        };
        let bytes = data(&entry.file);
        let table = Table::read(&bytes, kind).unwrap();
        let (source, (major, minor)) = (table.source, table.source.gpu.compute_capability);
        assert_eq!((source.gpu_name, source.cudnn), (entry.gpu.as_str(), entry.cudnn));
        assert_eq!(format!("{major}.{minor}"), entry.compute_capability);
        assert_eq!(source.gpu.multiprocessors, entry.multiprocessors);
        assert_eq!(source.gpu.threads_per_multiprocessor, entry.threads_per_multiprocessor);
        assert_eq!(entry.format, Some(u16::from_le_bytes([bytes[12], bytes[13]])));
        assert!(table.is_intact(), "{}", entry.file);
        checked += 1;
    }
    assert_eq!(checked, 5);
}
