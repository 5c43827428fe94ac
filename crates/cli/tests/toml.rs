//! `vramfit estimate model.toml` from the outside: the numbers of a capture of the same layers, and clear refusals.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;

use std::path::Path;

use serde_json::Value;

use common::{good_json, vramfit};

fn file(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../readers/tests/toml");
    folder.join(name).to_str().unwrap().to_owned()
}

fn estimate(name: &str, settings: &[&str]) -> Value {
    let path = file(name);
    good_json(&[&["estimate", &path][..], settings].concat())
}

#[test]
fn the_numbers_are_those_of_a_capture_of_the_same_layers() {
    let settings: [&[&str]; 5] = [
        &["--loss", "mean"],
        &["--loss", "mean", "--amp", "fp16", "--optimizer", "sgd"],
        &["--loss", "mean", "--dtype", "bf16", "--batch", "3"],
        &["--mode", "eval"],
        &["--mode", "eval", "--amp", "bf16"],
    ];
    for name in ["perceptron", "convolutions", "decoder", "signal", "recurrent", "transformer", "sequence-first"] {
        for settings in settings {
            let sketched = estimate(&format!("{name}.toml"), settings);
            let captured = estimate(&format!("{name}.vramfit"), settings);
            for key in
                ["parameters", "peak_allocated", "peak_reserved", "device_used", "breakdown", "phases", "unmodelled"]
            {
                assert_eq!(sketched[key], captured[key], "{name} {settings:?} {key}");
            }
        }
    }
}

#[test]
fn layers_plan_and_max_batch_take_a_sketch_too() {
    let (code, text, err) = vramfit(&["layers", &file("convolutions.toml"), "--depth", "9"]);
    assert_eq!(code, 0, "{err}");
    assert!(text.contains("\n    body "), "{text}");
    let (code, text, err) = vramfit(&["max-batch", &file("perceptron.toml"), "--vram", "200MiB", "--loss", "mean"]);
    assert!(code == 0 && text.trim().parse::<u64>().unwrap() > 1000, "{text}{err}");
    let (code, _, err) = vramfit(&["plan", &file("perceptron.toml"), "--vram", "1GiB", "--loss", "mean", "--json"]);
    assert_eq!(code, 0, "{err}");
}

#[test]
fn a_sketch_that_is_none_is_refused_with_where_and_a_hint() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.toml");
    std::fs::write(&path, "input = [\"batch\", 10]\nlayers = [\"Linear(10, 4)\", \"Linear(5, 3)\"]\n").unwrap();
    let (code, out, err) = vramfit(&["estimate", path.to_str().unwrap()]);
    assert!(code == 2 && out.is_empty(), "{out}");
    assert!(err.contains("layer 1 (Linear): [batch, 4] comes in, the last size must be in_features, 5"), "{err}");
    assert!(err.contains("\nhint: docs/model-toml.md"), "{err}");
}
