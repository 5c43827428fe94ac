//! `vramfit layers` and the page of an estimate, from the outside.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;

use std::path::Path;

use serde_json::Value;

use common::{good_json, vramfit};

#[test]
fn a_modules_numbers_are_the_sums_of_what_is_inside() {
    let report = good_json(&["layers", "bert-base", "--batch", "2", "--seq", "64", "--depth", "9"]);
    let layers = report["layers"].as_array().unwrap();
    let named = |name: &str| layers.iter().find(|layer| layer["module"] == name).unwrap();
    let number = |layer: &Value, key: &str| layer[key].as_u64().unwrap();
    assert_eq!(number(&report["totals"], "forward_flops"), 22_047_627_264);
    assert_eq!(number(&layers[0], "forward_flops"), 22_047_627_264);
    assert_eq!(number(&layers[0], "parameters"), 109_483_778);
    let inner: u64 = (0..12).map(|index| number(named(&format!("bert.encoder.layer.{index}")), "saved_bytes")).sum();
    assert_eq!(inner, number(named("bert.encoder"), "saved_bytes"));
    let dense = named("bert.encoder.layer.0.intermediate.dense");
    assert_eq!(dense["output_shapes"][0], serde_json::json!([2, 64, 3072]));
    assert_eq!(number(dense, "parameters"), 768 * 3072 + 3072);
    assert_eq!(number(dense, "forward_flops"), 2 * 2 * 64 * 768 * 3072);
    assert_eq!(number(dense, "backward_flops"), 2 * number(dense, "forward_flops"));
    assert_eq!(number(dense, "output_bytes"), 2 * 64 * 3072 * 4);
}

#[test]
fn the_rule_of_thumb_stands_beside_the_simulated_peak() {
    let report = good_json(&["layers", "gpt2", "--optimizer", "sgd"]);
    let rule = &report["rule_of_thumb"];
    let number = |key: &str| rule[key].as_u64().unwrap();
    assert_eq!(number("copies"), 2);
    assert_eq!(number("bytes"), 2 * number("parameter_bytes") + 2 * number("output_bytes"));
    assert!(report["peak_allocated"].as_u64().unwrap() > 0);
    let (_, text, _) = vramfit(&["layers", "gpt2"]);
    assert!(text.contains("rule of thumb") && text.contains("simulated peak"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
}

#[test]
fn a_model_without_sizes_to_choose_is_named_without_any() {
    let archive = Path::new(env!("CARGO_MANIFEST_DIR")).join("../readers/tests/archives/tiny-fixed.pt2");
    let archive = archive.to_str().unwrap();
    let (code, text, err) = vramfit(&["layers", archive]);
    assert_eq!(code, 0, "{err}");
    assert_eq!(text.lines().next(), Some(archive));
}

#[test]
fn an_estimates_text_has_the_verdict_first_and_stays_within_eighty_columns() {
    let (code, text, _) = vramfit(&["estimate", "bert-base", "--gpu", "RTX 3060", "--verbose"]);
    assert_eq!(code, 0);
    let verdict = text.find("fits on the RTX 3060").unwrap();
    assert!(verdict < text.find("peak allocated").unwrap());
    for part in
        ["cached, unused", "CUDA context", "largest holders at the peak", "modeling_bert.py:", "second peak", "##"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    assert!(!text.contains('\u{1b}'), "no colour without a terminal");
}

#[test]
fn an_estimate_takes_one_screen_and_says_what_was_asked_first() {
    for (arguments, head, verdict) in [
        (
            &["gpt2", "--gpu", "3060"][..],
            "gpt2: 124,439,808 parameters; batch 8, seq 512; fp32, adamw, its own loss",
            "fits on the RTX 3060",
        ),
        (
            &["gpt2", "--gpu", "3060", "--batch", "32"],
            "gpt2: 124,439,808 parameters; batch 32, seq 512; fp32, adamw, its own loss",
            "does not fit on the RTX 3060: needs ",
        ),
        (
            &["RESNET50", "--gpu", "A100", "--amp", "bf16"],
            "RESNET50: 25,557,032 parameters; batch 32, height 224, width 224; fp32 under",
            "fits on the A100 PCIe 40GB",
        ),
        (
            &["resnet18", "--vram", "2GiB", "--mode", "eval"],
            "resnet18: 11,689,512 parameters; batch 32, height 224, width 224; fp32,",
            "fits in 2.00 GiB",
        ),
    ] {
        let (_, text, err) = vramfit(&[&["estimate"], arguments].concat());
        assert!(text.lines().count() <= 24, "{arguments:?}: {} lines:\n{text}{err}", text.lines().count());
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        assert_eq!(text.lines().next(), Some(head), "{err}");
        assert!(text.contains(verdict) && text.contains("--verbose shows"), "{text}");
    }
}

#[test]
fn a_name_that_leaves_a_choice_is_noted() {
    let answer = common::good_json(&["estimate", "resnet18", "--gpu", "A100"]);
    let notes = answer["notes"].to_string();
    assert!(notes.contains("--gpu A100: taken as the A100 PCIe 40GB; there are also A100 SXM4 40GB"), "{notes}");
    let cache = tempfile::tempdir().unwrap();
    let output = assert_cmd::Command::cargo_bin("vramfit")
        .unwrap()
        .env("HF_HUB_CACHE", cache.path())
        .args(["estimate", "meta-llama/Llama-3.2-1B", "--json"])
        .output()
        .unwrap();
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(answer["parameters"], 1_235_814_400_u64);
    assert!(answer["notes"].to_string().contains("taken as the built-in model llama-1b"), "{}", answer["notes"]);
}

#[test]
fn an_estimates_page_is_whole_and_asks_for_nothing_from_outside() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("page.html");
    let (code, _, err) = vramfit(&["estimate", "bert-base", "--html", path.to_str().unwrap()]);
    assert_eq!(code, 0, "{err}");
    let page = std::fs::read_to_string(&path).unwrap();
    for part in ["bert-base", "class=\"treemap", "class=\"sortable layers\"", "word_embeddings", "id=\"timeline\""] {
        assert!(page.contains(part), "{part}");
    }
    for word in ["http://", "https://", "src=", "@import", "url(", "{{"] {
        assert!(!page.contains(word), "{word}");
    }
    let (code, _, err) = vramfit(&["estimate", "bert-base", "--html", "/nowhere/page.html"]);
    assert!(code == 2 && err.contains("/nowhere/page.html"), "{err}");
}

#[test]
fn an_archives_modules_return_what_they_made() {
    let archive = "../readers/tests/archives/tiny-2.15.pt2";
    let report = good_json(&["layers", archive, "--depth", "9"]);
    let layers = report["layers"].as_array().unwrap();
    let named = |name: &str| layers.iter().find(|layer| layer["module"] == name).unwrap();
    // 4 rows of 6 tokens, a number for each of 11 words.
    for module in ["", "head"] {
        assert_eq!(named(module)["output_shapes"][0], serde_json::json!([4, 6, 11]), "{module}");
        assert_eq!(named(module)["output_bytes"], 4 * 6 * 11 * 4, "{module}");
    }
    let (_, text, _) = vramfit(&["layers", "../readers/tests/archives/tiny-fixed.pt2"]);
    assert!(!text.lines().next().unwrap().contains(" at"), "{text}");
}
