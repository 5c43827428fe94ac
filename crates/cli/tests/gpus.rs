//! GPUs from the outside: the catalogue, estimates for a GPU, calibration.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;

use std::fs;
use std::path::Path;

use serde_json::Value;
use vramfit_catalogue::Catalogue;

use common::{capture, json_in, vramfit_in};

const BERT: [&str; 4] = ["estimate", "bert-base", "--seq", "128"];

fn bert(config: &Path, more: &[&str]) -> (i32, Value) {
    json_in(config, &[&BERT[..], more].concat())
}

#[test]
fn the_catalogue_tells_of_every_gpu_what_is_known_and_what_is_not() {
    let config = tempfile::tempdir().unwrap();
    let (code, catalogue) = json_in(config.path(), &["catalogue"]);
    assert_eq!(code, 0);
    let gpus = catalogue["gpus"].as_array().unwrap();
    assert!(gpus.len() >= 100);
    let named = |name: &str| gpus.iter().find(|gpu| gpu["name"] == name).unwrap();
    assert_eq!(named("RTX 3060")["context"], "not measured");
    assert_eq!(named("RTX 3060")["context_estimate"]["expected"], 114 << 20);
    assert_eq!(named("RTX 3060")["context_estimate"]["source"], "published figures");
    assert_eq!(named("RTX 4070")["context_estimate"]["source"], "multiprocessors");
    assert!(named("H200")["context_estimate"].is_null());
    assert_eq!(named("RTX 3060")["compute_capability"], "8.6");
    assert_eq!(named("H200")["context"]["base"], 614 << 20);
    assert_eq!(named("V100 SXM2 16GB")["newest"]["torch"], "2.14");
    let (_, text, _) = vramfit_in(config.path(), &["catalogue"]);
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
}

#[test]
fn what_nobody_knows_of_a_calibrated_gpu_is_null_and_a_dash_and_a_long_name_keeps_the_table() {
    let config = tempfile::tempdir().unwrap();
    let name = "NVIDIA RTX 9999 Super Long Imaginary Edition";
    let calibrated = serde_json::json!([{
        "name": name, "compute_capability": "12.0", "multiprocessors": 200, "capacity": 64_u64 << 30,
        "blas_workspace": 8_519_680, "blas_lt_workspace": 1 << 20,
    }]);
    fs::create_dir(config.path().join("vramfit")).unwrap();
    fs::write(config.path().join("vramfit/gpus.json"), calibrated.to_string()).unwrap();
    let (_, catalogue) = json_in(config.path(), &["catalogue"]);
    let gpu = catalogue["gpus"].as_array().unwrap().iter().find(|gpu| gpu["name"] == name).unwrap();
    assert!(gpu["bandwidth_gb_s"].is_null(), "{gpu}");
    let (_, text, _) = vramfit_in(config.path(), &["catalogue"]);
    let row = text.lines().skip_while(|line| *line != name).nth(1).unwrap();
    let cells: Vec<&str> = row.split_whitespace().collect();
    assert_eq!(cells, ["12.0", "64", "64.00", "200", "-", "-", "-", "-", "~713"]);
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    // Times are then those of the GPU that was measured, not those of one without any bandwidth.
    let slowdown = |gpu: &str| {
        let model = capture("mlp-relu");
        let (_, answer) = json_in(config.path(), &["plan", &model, "--gpu", gpu]);
        answer["start"]["seconds"].as_f64().unwrap()
    };
    assert!(slowdown(name) < 10.0 * slowdown("H200"));
}

#[test]
fn a_gpu_decides_workspaces_capacity_and_verdict() {
    let config = tempfile::tempdir().unwrap();
    let (code, plain) = bert(config.path(), &[]);
    assert_eq!(code, 0);
    assert!(plain["fit"].is_null());
    let (code, small) = bert(config.path(), &["--gpu", "NVIDIA GeForce rtx3060"]);
    assert_eq!((code, &small["fit"]["verdict"], &small["fit"]["gpu"]), (0, &"fits".into(), &"RTX 3060".into()));
    assert_eq!(small["fit"]["capacity"], (11.76 * f64::from(1 << 30)) as u64);
    assert_eq!(small["exact"], false);
    let notes = small["notes"].to_string();
    assert!(
        notes.contains("not measured on this GPU (RTX 3060): the CUDA context is the median of 2 published figures")
    );
    assert!(notes.contains("a display on the RTX 3060 takes memory too"), "{notes}");
    let context = |key: &str| small[key].as_u64().unwrap() >> 20;
    assert_eq!((context("context_low"), context("context"), context("context_high")), (94, 114, 145));
    assert_eq!(small["device_used"].as_u64(), Some(small["peak_reserved"].as_u64().unwrap() + (114 << 20)));
    // Two workspaces of 33,554,432 bytes become two of 8,519,680.
    let workspace = |report: &Value| report["breakdown"]["workspace"].as_u64().unwrap();
    assert_eq!(workspace(&plain) - workspace(&small), 2 * (33_554_432 - 8_519_680));
    let (code, large) = bert(config.path(), &["--batch", "256", "--gpu", "RTX 3060"]);
    assert_eq!((code, &large["fit"]["verdict"]), (1, &"does-not-fit".into()));
    assert!(large["fit"]["message"].as_str().unwrap().contains("total capacity of 11.76 GiB"));
}

#[test]
fn vram_replaces_the_gpus_capacity() {
    let config = tempfile::tempdir().unwrap();
    let (code, report) = bert(config.path(), &["--gpu", "RTX 3060", "--vram", "2GiB"]);
    assert_eq!((code, &report["fit"]["capacity"]), (1, &(2_u64 << 30).into()));
    assert_eq!(report["fit"]["gpu"], "RTX 3060");
}

#[test]
fn what_lies_between_the_known_bounds_of_a_gpu_is_too_close() {
    let config = tempfile::tempdir().unwrap();
    // What CUDA sees of an RTX 3060 Ti is not recorded: between 7.28 and 8 GiB.
    let batch =
        |batch: &str| bert(config.path(), &["--batch", batch, "--gpu", "RTX 3060 Ti"]).1["fit"]["verdict"].clone();
    assert_eq!(batch("16"), "fits");
    assert_eq!(batch("256"), "does-not-fit");
    let verdicts: Vec<Value> = (66..=91).step_by(2).map(|size| batch(&size.to_string())).collect();
    assert!(verdicts.contains(&"too-close".into()), "{verdicts:?}");
}

#[test]
fn text_page_and_plan_give_both_bounds_of_a_gpus_memory() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("page.html");
    let mlp = &capture("mlp-relu");
    for command in ["estimate", "plan"] {
        let asked = [command, mlp, "--gpu", "RTX 3060 Ti", "--html", page.to_str().unwrap()];
        let (code, text, err) = vramfit_in(folder.path(), &asked);
        assert_eq!(code, 0, "{err}");
        let written = fs::read_to_string(&page).unwrap();
        let bounds = "on the RTX 3060 Ti, which has 7.28 GiB to 8.00 GiB for it";
        assert!(text.contains(bounds), "{text}");
        assert!(written.contains(bounds), "the page of {command}");
        assert!(written.contains("The mark is at 7.28 GiB, the least that there is; it may be 8.00 GiB"), "{command}");
    }
    let (_, answer) = json_in(folder.path(), &["plan", mlp, "--gpu", "RTX 3060 Ti"]);
    assert_eq!(answer["fit"]["capacity_high"], 8_u64 << 30);
}

#[test]
fn an_unknown_gpu_is_an_error_with_the_nearest_names() {
    let config = tempfile::tempdir().unwrap();
    let (code, out, err) = vramfit_in(config.path(), &[&BERT[..], &["--gpu", "RTX 3065"]].concat());
    assert_eq!((code, out.as_str()), (2, ""));
    assert!(err.contains("RTX 3065") && err.contains("RTX 3060") && err.contains("hint: "), "{err}");
}

#[test]
fn old_gpus_are_told_which_torch_still_runs_and_that_bfloat16_is_emulated() {
    let config = tempfile::tempdir().unwrap();
    let (_, report) = bert(config.path(), &["--gpu", "V100", "--amp", "bf16"]);
    let notes = report["notes"].to_string();
    assert!(notes.contains("CUDA 12.6") && notes.contains("no bfloat16"), "{notes}");
}

#[cfg(unix)]
fn program(folder: &Path, text: &str) -> String {
    use std::os::unix::fs::PermissionsExt;
    let path = folder.join("python");
    fs::write(&path, format!("#!/bin/sh\ncat > /dev/null\n{text}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path.to_str().unwrap().to_owned()
}

#[cfg(unix)]
#[test]
fn estimates_use_what_was_calibrated() {
    let config = tempfile::tempdir().unwrap();
    let row = r#"{"name": "NVIDIA GeForce RTX 3060", "compute_capability": "8.6", "multiprocessors": 28,
        "capacity": 12622233600, "context": 209715200, "blas_context": 10485760, "blas_backward_context": 10485760,
        "dnn_context": 6291456, "dnn_backward_context": 6291456, "blas_workspace": 8519680, "blas_lt_workspace": 1048576}"#;
    let python = program(config.path(), &format!("echo 'a warning'; echo '{row}'"));
    let (code, out, err) = vramfit_in(config.path(), &["calibrate", "--python", &python]);
    assert_eq!(code, 0, "{out}{err}");
    assert!(out.contains("RTX 3060") && out.contains("gpus.json"), "{out}");
    let row = out.lines().last().unwrap();
    let read = Catalogue::read(row).unwrap();
    let gpu = read.find("RTX 3060").unwrap();
    assert_eq!((gpu.is_measured(), gpu.seen_by_cuda), (true, Some(12_622_233_600)), "{row}");
    let (_, report) = bert(config.path(), &["--gpu", "RTX 3060"]);
    assert_eq!(report["context"], 209_715_200 + 2 * 10_485_760);
    assert_eq!(report["fit"]["capacity"], 12_622_233_600_u64);
    assert!(!report["notes"].to_string().contains("not measured"), "{}", report["notes"]);
}

#[cfg(unix)]
#[test]
fn a_calibration_that_fails_says_why_and_leaves_nothing_behind() {
    let config = tempfile::tempdir().unwrap();
    for (script, reason) in [
        ("echo 'needs torch' >&2; exit 1", "needs torch"),
        ("echo 'no numbers here'", "needed JSON"),
        ("exit 3", "it printed no error"),
    ] {
        let python = program(config.path(), script);
        let (code, out, err) = vramfit_in(config.path(), &["calibrate", "--python", &python]);
        assert_eq!((code, out.as_str()), (2, ""), "{err}");
        assert!(err.contains(reason) && err.contains("hint: "), "{err}");
        assert!(!config.path().join("vramfit").exists());
    }
    let (code, _, err) = vramfit_in(config.path(), &["calibrate", "--python", "/nowhere/python3"]);
    assert!(code == 2 && err.contains("/nowhere/python3"), "{err}");
}

#[test]
fn a_broken_calibration_file_is_named() {
    let config = tempfile::tempdir().unwrap();
    fs::create_dir(config.path().join("vramfit")).unwrap();
    fs::write(config.path().join("vramfit/gpus.json"), "[{\"name\": 1}]").unwrap();
    let (code, _, err) = vramfit_in(config.path(), &["catalogue"]);
    assert!(code == 2 && err.contains("gpus.json") && err.contains("hint: "), "{err}");
}
