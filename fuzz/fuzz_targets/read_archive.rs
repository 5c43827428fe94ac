//! Any bytes are an archive's model or an error: no panic, no endless loop, no large allocation; binding a model works or is
//! an error. The bytes become the graph of an archive, unless they begin as an archive does.

#![no_main]

use libfuzzer_sys::fuzz_target;
use vramfit_graph::bind::bind;
use vramfit_graph::select::{SizeFlags, Sizes};
use vramfit_readers::read_bytes;

fuzz_target!(|bytes: &[u8]| {
    let archive = if bytes.starts_with(b"PK") { bytes.to_vec() } else { archive(bytes) };
    match read_bytes(&archive) {
        Ok(model) => {
            let flags = SizeFlags { batch: Some(3), ..SizeFlags::default() };
            let chosen = Sizes::select(&model, &flags);
            for sizes in [Sizes::example(&model), chosen].into_iter().flatten() {
                for variant in 0..model.variants.len() {
                    match bind(&model, variant, &sizes) {
                        Ok(bound) => assert_eq!(bound.steps.len(), model.steps[bound.variant.steps].len()),
                        Err(error) => assert!(!error.to_string().is_empty()),
                    }
                }
            }
        }
        Err(error) => {
            assert!(!error.to_string().is_empty());
            let _ = error.hint();
        }
    }
});

/// A zip archive with the graph stored in it.
fn archive(graph: &[u8]) -> Vec<u8> {
    let entry = b"a/models/model.json";
    let length = (graph.len() as u32).to_le_bytes();
    let checksum = crc32fast::hash(graph).to_le_bytes();
    let name_length = (entry.len() as u16).to_le_bytes();
    let head = [&[20, 0, 0, 0, 0, 0, 0, 0, 0, 0][..], &checksum, &length, &length, &name_length, &[0, 0]].concat();
    let mut file = [b"PK\x03\x04", &head[..], entry, graph].concat();
    let list = (file.len() as u32).to_le_bytes();
    let listed = [b"PK\x01\x02\x14\x00", &head[..], &[0; 14], entry].concat();
    file.extend(&listed);
    file.extend([b"PK\x05\x06\x00\x00\x00\x00\x01\x00\x01\x00", &(listed.len() as u32).to_le_bytes()[..], &list, &[0, 0]].concat());
    file
}
