//! An archive's operators are opened as eager PyTorch runs them: its estimate is that of the same model's capture.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;

use serde_json::Value;

use common::good_json;

/// What is estimated of the model as written in this form.
fn estimate(form: &str, more: &[&str]) -> Value {
    let path = format!("../readers/tests/archives/opened.{form}");
    good_json(&[&["estimate", &path, "--optimizer", "sgd"], more].concat())
}

#[test]
fn an_archive_and_a_capture_of_one_model_have_the_same_peaks() {
    let settings: [&[&str]; 3] = [&[], &["--mode", "eval"], &["--amp", "bf16"]];
    for setting in settings {
        for batch in ["4", "9"] {
            let more = [setting, &["--batch", batch]].concat();
            let (archive, capture) = (estimate("pt2", &more), estimate("vramfit", &more));
            assert_eq!(archive["unmodelled"], serde_json::json!([]), "{more:?}");
            for key in ["peak_allocated", "peak_reserved", "phases"] {
                assert_eq!(archive[key], capture[key], "{more:?}: {key}");
            }
        }
    }
}
