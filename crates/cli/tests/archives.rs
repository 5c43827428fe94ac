//! Estimates from torch.export archives, from the outside.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;

use common::good_json;

const FOLDER: &str = "../readers/tests/archives";

#[test]
fn every_mode_of_padding_takes_what_the_capture_says() {
    for flags in [&[][..], &["--mode", "eval"], &["--amp", "bf16"], &["--dtype", "bf16"], &["--batch", "64"]] {
        let estimate = |file: &str| {
            let path = format!("{FOLDER}/{file}");
            good_json(&[&["estimate", &path], flags].concat())
        };
        let (archive, capture) = (estimate("pads.pt2"), estimate("pads.vramfit"));
        assert_eq!(archive["unmodelled"], serde_json::json!([]), "{flags:?}");
        assert_eq!(archive["peak_allocated"], capture["peak_allocated"], "{flags:?}");
    }
}

#[test]
fn a_list_that_may_live_longer_widens_the_range() {
    let path = format!("{FOLDER}/skips.pt2");
    let report = good_json(&["estimate", &path, "--mode", "eval", "--batch", "65536"]);
    let bytes = |key: &str| report["range"][key].as_u64().unwrap();
    // Unsplit tails may differ where requests do.
    let tails = 2 << 20;
    assert_eq!(report["peak_allocated"].as_u64().unwrap(), bytes("low") + tails);
    // What a capture of the same model says: both skips, 8 numbers a row, are there to the end.
    assert_eq!(bytes("high"), 49_811_968 + tails);
    assert_eq!(bytes("high") - bytes("low"), 2 * 65_536 * 8 * 4 + 2 * tails);
    assert_eq!(report["exact"], false);
}

#[test]
fn what_is_inside_a_branch_is_counted() {
    let path = format!("{FOLDER}/branches.pt2");
    let report = good_json(&["estimate", &path]);
    assert_eq!(report["unmodelled"], serde_json::json!([]));
    assert_eq!(report["exact"], false);
    // The branch has a linear layer, whose matrix product needs cuBLAS's workspace.
    assert!(report["breakdown"]["workspace"].as_u64().unwrap() > 1 << 20, "{}", report["breakdown"]);
    assert!(report["notes"].as_array().unwrap().iter().any(|note| note.as_str().unwrap().contains("torch.cond")));
}
