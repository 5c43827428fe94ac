//! The built-in models, from the outside: listed readably, each of its published size, each can be estimated.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;

use std::process::Command;

use common::{good_json, vramfit};

/// The numbers of parameters that torchvision's documentation and the published checkpoints have.
const PUBLISHED: [(&str, u64); 55] = [
    ("resnet18", 11_689_512),
    ("resnet34", 21_797_672),
    ("resnet50", 25_557_032),
    ("resnet101", 44_549_160),
    ("resnet152", 60_192_808),
    ("vgg16", 138_357_544),
    ("densenet121", 7_978_856),
    ("mobilenet-v2", 3_504_872),
    ("mobilenet-v3-large", 5_483_032),
    ("efficientnet-b0", 5_288_548),
    ("efficientnet-b4", 19_341_616),
    ("efficientnet-v2-s", 21_458_488),
    ("convnext-tiny", 28_589_128),
    ("convnext-base", 88_591_464),
    ("vit-b-16", 86_567_656),
    ("vit-l-16", 304_326_632),
    ("swin-t", 28_288_354),
    ("swin-b", 87_768_224),
    ("deeplab", 42_004_074),
    ("unet", 31_037_698),
    ("bert-base", 109_483_778),
    ("bert-large", 335_143_938),
    ("roberta-base", 124_647_170),
    ("roberta-large", 355_361_794),
    ("distilbert", 66_955_010),
    ("gpt2", 124_439_808),
    ("gpt2-medium", 354_823_168),
    ("gpt2-large", 774_030_080),
    ("gpt2-xl", 1_557_611_200),
    ("pythia-160m", 162_322_944),
    ("llama-1b", 1_235_814_400),
    ("llama-3b", 3_212_749_824),
    ("llama-7b", 6_738_415_616),
    ("llama-8b", 8_030_261_248),
    ("llama-13b", 13_015_864_320),
    ("llama-70b", 70_553_706_496),
    ("mistral-7b", 7_248_023_552),
    ("qwen2-0.5b", 494_032_768),
    ("qwen2-1.5b", 1_543_714_304),
    ("qwen2-3b", 3_085_938_688),
    ("qwen2-7b", 7_615_616_512),
    ("qwen3-0.6b", 596_049_920),
    ("gemma-2b", 2_506_172_416),
    ("gemma-7b", 8_537_680_896),
    ("phi-2", 2_779_683_840),
    ("phi-3-mini", 3_821_079_552),
    ("t5-small", 60_506_624),
    ("t5-base", 222_903_552),
    ("t5-large", 737_668_096),
    ("clip-vit-b-32", 151_277_313),
    ("whisper-tiny", 37_760_640),
    ("whisper-base", 72_593_920),
    ("whisper-small", 241_734_912),
    ("lstm", 50_065_078),
    ("gru", 48_372_478),
];

#[test]
fn every_built_in_model_has_its_published_number_of_parameters() {
    let models = good_json(&["models"]);
    let rows = models["models"].as_array().unwrap();
    let listed: Vec<(&str, u64)> =
        rows.iter().map(|row| (row["name"].as_str().unwrap(), row["parameters"].as_u64().unwrap())).collect();
    assert_eq!(listed, PUBLISHED);
    assert!(rows.iter().all(|row| row["description"].is_string() && row["sizes"]["batch"].is_u64()));
}

#[test]
fn the_list_fits_eighty_columns() {
    let (_, text, _) = vramfit(&["models"]);
    for line in text.lines() {
        assert!(line.chars().count() <= 80, "{line}");
    }
    for (name, _) in PUBLISHED {
        assert!(text.contains(name), "{name}");
    }
}

/// Each in another precision and mode, so that all of them are met several times.
#[test]
fn every_built_in_model_can_be_estimated_with_every_operator_known() {
    let settings: [&[&str]; 7] = [
        &[],
        &["--amp", "bf16"],
        &["--dtype", "bf16"],
        &["--mode", "eval"],
        &["--dtype", "fp16"],
        &["--amp", "fp16"],
        &["--mode", "eval", "--grad", "--dtype", "fp32"],
    ];
    for ((name, parameters), settings) in PUBLISHED.iter().zip(settings.iter().cycle()) {
        let command = ["estimate", *name, "--batch", "2", "--optimizer", "sgd"];
        let report = good_json(&[&command[..], *settings].concat());
        assert_eq!(report["parameters"], *parameters, "{name}");
        assert!(report["peak_allocated"].as_u64().unwrap() > *parameters, "{name}");
        assert_eq!(report["unmodelled"], serde_json::json!([]), "{name} {settings:?}");
    }
}

#[test]
fn the_validated_captures_of_these_names_give_the_same_estimates() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../validation/captures");
    let cases: [(&str, &[&str], &[&str]); 5] = [
        ("bert-base", &["--batch", "8", "--seq", "64"], &["--batch", "8", "--seq", "64"]),
        ("gpt2", &["--batch", "2", "--seq", "128"], &["--batch", "2", "--seq", "128"]),
        ("llama-1b", &["--batch", "1", "--seq", "32"], &["--batch", "1", "--seq", "32"]),
        ("vit-b-16", &["--batch", "8"], &["--batch", "8"]),
        ("resnet50", &["--size", "x=8x3x160x160"], &["--batch", "8"]),
    ];
    for (name, sizes, captured_sizes) in cases {
        let captured = folder.join(format!("{name}.vramfit"));
        for settings in [["--amp", "bf16"], ["--mode", "train"], ["--mode", "eval"]] {
            let ours = good_json(&[&["estimate", name][..], sizes, &settings].concat());
            let other = good_json(&[&["estimate", captured.to_str().unwrap()][..], captured_sizes, &settings].concat());
            for key in ["parameters", "peak_allocated", "peak_reserved", "breakdown"] {
                assert_eq!(ours[key], other[key], "{name} {settings:?} {key}");
            }
        }
    }
}

#[test]
fn a_name_that_is_none_is_refused_with_those_near_it() {
    let (code, _, err) = vramfit(&["estimate", "resnet5"]);
    assert_eq!(code, 2);
    assert!(err.contains("resnet50") && err.contains("vramfit models"), "{err}");
    let (code, _, err) = vramfit(&["estimate", "folder/model.vramfit"]);
    assert_eq!(code, 2);
    assert!(err.contains("found no such file"), "{err}");
}

#[test]
fn a_model_of_the_hub_is_read_from_the_local_cache_and_from_nowhere_else() {
    let cache = tempfile::tempdir().unwrap();
    let run = |name: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_vramfit"));
        command.args(["estimate", name, "--json"]).env("HF_HUB_CACHE", cache.path()).env("VRAMFIT_CUDNN", "off");
        command.output().unwrap()
    };
    let missing = run("some-org/Some-Model.1");
    let error = String::from_utf8_lossy(&missing.stderr).into_owned();
    assert_eq!(missing.status.code(), Some(2));
    assert!(error.contains("some-org/Some-Model.1: found no such file, and no such model in the local"), "{error}");
    assert!(error.contains("hf download some-org/Some-Model.1 config.json"), "{error}");
    let folder = cache.path().join("models--some-org--Some-Model.1");
    let snapshot = folder.join("snapshots/0123abc");
    std::fs::create_dir_all(&snapshot).unwrap();
    std::fs::create_dir_all(folder.join("refs")).unwrap();
    std::fs::write(folder.join("refs/main"), "0123abc").unwrap();
    std::fs::write(snapshot.join("config.json"), r#"{"model_type": "gpt2", "torch_dtype": "bfloat16"}"#).unwrap();
    let found = run("some-org/Some-Model.1");
    assert_eq!(found.status.code(), Some(0), "{}", String::from_utf8_lossy(&found.stderr));
    let report: serde_json::Value = serde_json::from_slice(&found.stdout).unwrap();
    assert_eq!(report["parameters"], 124_439_808);
    assert_eq!(report["breakdown"]["parameters"], 2 * 124_439_808_u64, "built in the type that the file names");
    std::fs::write(folder.join("refs/main"), "../../../etc").unwrap();
    assert_eq!(run("some-org/Some-Model.1").status.code(), Some(2), "a revision is a name, not a path");
}
