//! Optimizers of other libraries, groups of weights, and other ways to update, from the outside.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;

use serde_json::Value;

use common::{json, refusal};

const SIZES: [&str; 6] = ["estimate", "gpt2", "--batch", "1", "--seq", "64"];

fn estimate(flags: &[&str]) -> Value {
    json(&[&SIZES, flags].concat()).1
}

#[test]
fn states_in_managed_memory_are_told_apart() {
    let (paged, whole) = (estimate(&["--optimizer", "paged-adamw8bit"]), estimate(&["--optimizer", "adamw8bit"]));
    let managed = paged["managed"].as_u64().unwrap();
    assert!(managed > 2 * 120_000_000, "{managed}");
    assert!(whole.get("managed").is_none());
    let less = whole["peak_allocated"].as_u64().unwrap() - paged["peak_allocated"].as_u64().unwrap();
    assert!(less > managed / 2, "{less}");
    assert!(paged["notes"].as_array().unwrap().iter().any(|note| note.as_str().unwrap().contains("managed memory")));
}

#[test]
fn an_optimizer_on_the_cpu_keeps_nothing_on_the_gpu() {
    let report = estimate(&["--optimizer-state", "cpu"]);
    assert_eq!(report["breakdown"]["optimizer"], 0);
    assert!(report["notes"].as_array().unwrap().iter().any(|note| note.as_str().unwrap().contains("pinned memory")));
}

#[test]
fn what_cannot_be_combined_is_refused_by_name() {
    for (flags, words) in [
        (vec!["--step-in-backward", "--accumulate", "2"], "--step-in-backward: found --accumulate"),
        (vec!["--step-in-backward", "--clip-grad"], "--step-in-backward: found --clip-grad"),
        (vec!["--step-in-backward", "--amp", "fp16"], "--step-in-backward: found --amp fp16"),
        (vec!["--step-in-backward", "--optimizer-groups", "*"], "--step-in-backward: found --optimizer-groups"),
        (vec!["--optimizer-state", "cpu", "--optimizer", "lion"], "found lion of bitsandbytes.optim"),
        (vec!["--optimizer-state", "cpu", "--optimizer-impl", "fused"], "found --optimizer-impl fused"),
        (vec!["--optimizer", "muon", "--optimizer-groups", "*"], "--optimizer-groups: found --optimizer muon"),
        (
            vec!["--optimizer", "adamw8bit", "--optimizer-impl", "fused"],
            "bitsandbytes.optim has no such implementation",
        ),
        (vec!["--optimizer", "adamw8bit", "--dtype", "fp64"], "needed fp32, bf16 or fp16"),
        (vec!["--optimizer-groups", "nothing.*"], "`nothing.*` names no weight of the model, which has 148"),
    ] {
        let found = refusal(&[&SIZES, flags.as_slice()].concat());
        assert!(found.contains(words), "{flags:?}: {found}");
    }
}
