//! Packing keeps everything but how outputs are reached, and damaged bytes are refused.

use std::fs;
use std::path::Path;

use vramfit_readers::packed::{pack, unpack};
use vramfit_readers::read_file;

#[test]
fn what_is_unpacked_is_what_was_packed() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../validation/captures");
    let mut count = 0;
    for entry in fs::read_dir(folder).expect("it is there") {
        let path = entry.expect("it can be read").path();
        let mut model = read_file(&path).expect("it is good");
        // Built-in models are plain ones: the format has no quantised weights.
        if model.parameters.iter().any(|weight| weight.quantization.is_some()) {
            continue;
        }
        model.variants.iter_mut().for_each(|variant| variant.paths.clear());
        // Packed models are built in, and made with the PyTorch that was measured.
        model.torch = None;
        let packed = pack(&model).expect("writing to memory works");
        assert_eq!(unpack(&packed).expect("it is good"), model, "{}", path.display());
        let stored = fs::metadata(&path).expect("it is there").len() as usize;
        assert!(packed.len() < stored, "{}: {} of {stored} bytes", path.display(), packed.len());
        count += 1;
    }
    assert!(count > 90, "{count}");
}

#[test]
fn cut_or_changed_bytes_are_refused_or_give_a_good_model() {
    let packed = pack(&super::captures::mlp()).expect("writing to memory works");
    for length in 0..packed.len() {
        assert!(unpack(&packed[..length]).is_err(), "{length}");
    }
    let mut refused = 0;
    for at in 0..packed.len() {
        let mut changed = packed.clone();
        changed[at] ^= 0x15;
        match unpack(&changed) {
            Ok(model) => {
                let again = unpack(&pack(&model).expect("writing to memory works")).expect("it was accepted before");
                assert_eq!(format!("{again:?}"), format!("{model:?}"), "{at}");
            }
            Err(error) => {
                refused += 1;
                assert!(!error.to_string().is_empty(), "{at}");
            }
        }
    }
    assert!(refused > packed.len() / 2, "{refused} of {}", packed.len());
}
