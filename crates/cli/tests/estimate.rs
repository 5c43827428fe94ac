//! `vramfit estimate` from the outside: the contract's keys and exit codes, flags that conflict, and one clear error for
//! bad input.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;

use std::fs;
use std::io::Read;
use std::path::PathBuf;

use flate2::read::GzDecoder;
use serde_json::Value;

use common::{archive, capture, capture_of_archive, good_json, json, vramfit};

const SMALL: &str = include_str!("../../readers/tests/captures/small.json");

fn estimate(model: &str, more: &[&str]) -> (i32, Value) {
    json(&[&["estimate", model], more].concat())
}

/// The words of a refusal.
fn refusal(arguments: &[&str]) -> String {
    common::refusal(&[&["estimate"], arguments].concat())
}

/// The small capture with something in it replaced, in a file of its own.
fn changed(folder: &tempfile::TempDir, from: &str, to: &str) -> PathBuf {
    assert!(SMALL.contains(from), "{from}");
    let path = folder.path().join("changed.vramfit");
    fs::write(&path, SMALL.replacen(from, to, 1)).unwrap();
    path
}

#[test]
fn the_contracts_keys_are_there_and_the_breakdown_sums_to_the_peak() {
    let (code, report) = estimate("bert-base", &["--batch", "32", "--seq", "128", "--optimizer", "adam"]);
    assert_eq!(code, 0);
    for key in [
        "model",
        "settings",
        "parameters",
        "peak_allocated",
        "peak_reserved",
        "device_used",
        "peak",
        "breakdown",
        "phases",
        "exact",
        "unmodelled",
        "range",
        "reserved_range",
        "fit",
    ] {
        assert!(report.get(key).is_some(), "{key}");
    }
    assert_eq!(report["parameters"], 109_483_778);
    assert_eq!(report["fit"], Value::Null);
    let breakdown = report["breakdown"].as_object().unwrap();
    let names: Vec<&str> = breakdown.keys().map(String::as_str).collect();
    assert_eq!(
        names,
        [
            "parameters",
            "gradients",
            "optimizer",
            "activations",
            "inputs",
            "outputs",
            "temporary",
            "workspace",
            "rounding"
        ]
    );
    assert!(breakdown.values().all(|bytes| bytes.as_u64().unwrap() > 0), "{breakdown:?}");
    let sum: u64 = breakdown.values().map(|bytes| bytes.as_u64().unwrap()).sum();
    assert_eq!(report["peak_allocated"], sum);
    let peak = &report["peak"];
    assert_eq!((&peak["step"], &peak["phase"]), (&Value::from(1), &Value::from("backward")));
    assert!(peak["module"].as_str().unwrap().starts_with("bert.encoder.layer."));
    assert!(peak["op"].as_str().unwrap().starts_with("aten."));
    for (range, number) in [("range", "peak_allocated"), ("reserved_range", "peak_reserved")] {
        let [low, high, found] =
            [&report[range]["low"], &report[range]["high"], &report[number]].map(|value| value.as_u64().unwrap());
        assert!(low <= found && found <= high, "{range}");
    }
}

#[test]
fn phases_are_build_then_forward_backward_step_with_one_entry_a_micro_batch() {
    let (_, report) = estimate(&capture("mlp-relu"), &["--accumulate", "2", "--steps", "2"]);
    let names: Vec<(Option<u64>, &str, Option<u64>)> = report["phases"]
        .as_array()
        .unwrap()
        .iter()
        .map(|phase| (phase["step"].as_u64(), phase["phase"].as_str().unwrap(), phase["micro"].as_u64()))
        .collect();
    let mut wanted = vec![(None, "build", None)];
    for step in 0..2 {
        for micro in 0..2 {
            wanted.push((Some(step), "forward", Some(micro)));
            wanted.push((Some(step), "backward", Some(micro)));
        }
        wanted.push((Some(step), "step", None));
    }
    assert_eq!(names, wanted);
    let (_, report) = estimate(&capture("mlp-relu"), &["--mode", "eval"]);
    let phases = report["phases"].as_array().unwrap();
    assert!(phases.len() == 4 && phases[1..].iter().all(|phase| phase["phase"] == "eval"));
}

#[test]
fn what_fits_exits_with_0_and_what_does_not_with_1_and_pytorchs_words() {
    let model = capture("mlp-relu");
    let (code, report) = estimate(&model, &["--vram", "1GiB"]);
    assert_eq!((code, &report["fit"]["verdict"]), (0, &Value::from("fits")));
    assert_eq!(report["fit"]["capacity"], 1 << 30);
    let (code, report) = estimate(&model, &["--vram", "60MiB"]);
    assert_eq!((code, &report["fit"]["verdict"]), (1, &Value::from("does-not-fit")));
    assert_eq!(report["fit"]["dies_in"]["phase"], "backward");
    let message = report["fit"]["message"].as_str().unwrap();
    assert!(message.starts_with("CUDA out of memory. Tried to allocate "), "{message}");
    let (code, out, err) = vramfit(&["estimate", &model, "--vram", "1MiB"]);
    assert_eq!(code, 1, "{err}");
    let words = out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("dies while the model and its inputs are moved"), "{out}");
}

#[test]
fn what_does_not_fit_says_what_it_needs_how_much_is_short_and_where_it_dies() {
    let (_, unlimited) = estimate("resnet50", &[]);
    for (vram, phase) in [("50MiB", "build"), ("1GiB", "forward")] {
        let (code, report) = estimate("resnet50", &["--vram", vram]);
        assert_eq!(code, 1);
        for key in
            ["peak_allocated", "peak_reserved", "peak", "breakdown", "phases", "range", "reserved_range", "holders"]
        {
            assert_eq!(report[key], unlimited[key], "{key} is what the training would need");
        }
        let fit = &report["fit"];
        assert_eq!((&fit["needed"], &fit["dies_in"]["phase"]), (&unlimited["peak_reserved"], &Value::from(phase)));
        let number = |key: &str| fit[key].as_u64().unwrap();
        assert_eq!(number("short"), number("needed") - number("capacity"));
    }
    let (_, out, _) = vramfit(&["estimate", "resnet50", "--gpu", "RTX 3060", "--batch", "256", "--json", "--no-color"]);
    let fit = &serde_json::from_str::<Value>(&out).unwrap()["fit"];
    assert!(fit["dies_in"]["op"].is_string() && fit["dies_in"]["module"].is_string(), "{fit}");
    let (_, out, _) = vramfit(&["estimate", "resnet50", "--gpu", "RTX 3060", "--batch", "256", "--no-color"]);
    assert!(out.contains("does not fit on the RTX 3060: needs "), "{out}");
    assert!(out.contains("try `vramfit plan resnet50 --gpu 'RTX 3060' --batch 256`"), "{out}");
    let (_, fitting) = estimate("resnet50", &["--vram", "10GiB"]);
    assert_eq!((&fitting["fit"]["short"], &fitting["fit"]["dies_in"]), (&Value::Null, &Value::Null));
}

#[test]
fn an_operator_without_a_rule_is_named_with_its_module_and_makes_a_range_that_holds_the_truth() {
    // Measured on an H200: `encoder-post`. Here its ReLU has a name that no rule knows.
    let (allocated, reserved) = (232_044_544, 264_241_152);
    let mut text = String::new();
    GzDecoder::new(fs::File::open(capture("encoder-post")).unwrap()).read_to_string(&mut text).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("encoder.vramfit");
    fs::write(&path, text.replace("aten.relu.default", "aten.relu_of_tomorrow.default")).unwrap();
    let model = path.to_str().unwrap();
    let arguments = ["--batch", "16", "--seq", "100", "--optimizer", "adam"];
    let (_, report) = estimate(model, &arguments);
    assert_eq!(report["exact"], false);
    let named = report["unmodelled"][0].as_str().unwrap();
    assert!(named.starts_with("aten.relu_of_tomorrow.default ×"), "{named}");
    assert!(report["unmodelled_in"]["aten.relu_of_tomorrow.default"][0].as_str().is_some());
    for (range, truth) in [("range", allocated), ("reserved_range", reserved)] {
        let [low, high] = ["low", "high"].map(|end| report[range][end].as_u64().unwrap());
        assert!(low <= truth && truth <= high, "{range}: {low} to {high}");
    }
    // The verdict is as sure as the range.
    let verdict = |vram: u64| {
        let vram = format!("{vram}B");
        let mut all = arguments.to_vec();
        all.extend(["--vram", &vram]);
        estimate(model, &all).1["fit"]["verdict"].as_str().unwrap().to_owned()
    };
    let end = |end: &str| report["reserved_range"][end].as_u64().unwrap();
    assert_eq!(verdict(end("high")), "fits");
    assert_eq!(verdict(u64::midpoint(end("low"), end("high"))), "too-close");
    assert_eq!(verdict(20 << 20), "does-not-fit");
}

#[test]
fn the_text_keeps_to_80_columns() {
    for arguments in [
        &["bert-base", "--batch", "32", "--vram", "3GiB"][..],
        &["gpt2", "--accumulate", "3", "--checkpoint", "blocks", "--mode", "eval"],
        &["llama-1b", "--dtype", "bf16", "--gpu", "RTX 3060"],
        &["llama-70b", "--amp", "bf16", "--gpu", "RTX PRO 6000 Blackwell"],
        &["resnet18", "--cudnn-benchmark"],
    ] {
        let mut all = vec!["estimate"];
        all.extend(arguments);
        let (_, out, err) = vramfit(&all);
        assert!(err.is_empty(), "{err}");
        for line in out.lines() {
            // An address is not broken.
            let fits = line.chars().count() <= 80 || !line.trim().contains(' ');
            assert!(fits && !line.contains('\u{1b}'), "{line}");
        }
    }
}

#[test]
fn a_range_names_what_makes_it() {
    let model = capture("unet");
    let (_, report) = estimate(&model, &["--cudnn-benchmark"]);
    assert_eq!(report["reserved_range"]["by"][0], "cuDNN's choice", "{}", report["reserved_range"]);
    let (_, text, _) = vramfit(&["estimate", &model, "--cudnn-benchmark"]);
    let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(flat.contains(", by cuDNN's choice"), "{text}");
    // A search that would take more than there is takes less.
    let (_, report) = estimate("resnet50", &["--batch", "1200", "--cudnn-benchmark"]);
    assert_eq!(report["reserved_range"]["high"], 150_109_880_320_u64);
    // Convolutions elsewhere than on the GPU that was asked, at a batch that no table of its compute capability has.
    let (_, report) = estimate(&model, &["--gpu", "RTX 3060", "--batch", "33"]);
    let causes = report["reserved_range"]["by"].to_string();
    assert!(causes.contains("guessed workspaces") && !causes.contains("cuDNN"), "{causes}");
    let (_, report) = estimate(&capture("bert-small"), &[]);
    assert_eq!(report["range"]["by"], serde_json::json!(["the order of addresses"]));
    let (_, report) = estimate(&capture("mlp-relu"), &[]);
    assert!(report["range"]["by"].is_null() && report["range"]["low"] == report["range"]["high"]);
}

/// All trees predict the same workspace for this layer, but cuDNN was not asked about it.
#[test]
fn a_workspace_that_was_predicted_is_never_exact() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.toml");
    let layers = r#"layers = ["Conv2d(96, 96, kernel_size=3)", "Flatten()", "Linear(42336, 10)"]"#;
    fs::write(&path, format!("input = [\"batch\", 96, 23, 23]\nsizes = {{ batch = 5 }}\n{layers}\n")).unwrap();
    let (_, report) = estimate(path.to_str().unwrap(), &["--gpu", "H200"]);
    assert_eq!(report["exact"], false);
    assert_eq!(report["range"]["by"], serde_json::json!(["guessed workspaces"]), "{}", report["range"]);
}

#[test]
fn an_added_loss_and_its_target_are_no_layer() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.toml");
    let layers = r#"layers = ["Linear(64, 64)"]"#;
    fs::write(&path, format!("input = [\"batch\", 64]\nsizes = {{ batch = 4096 }}\n{layers}\n")).unwrap();
    let (_, report) = estimate(path.to_str().unwrap(), &[]);
    let holders = report["holders"].as_array().unwrap();
    let target = holders.iter().find(|holder| holder["module"] == "the added loss's target").unwrap();
    // Eight bytes a sample.
    assert_eq!((&target["category"], &target["bytes"]), (&"inputs".into(), &(4096 * 8).into()), "{target}");
    assert!(target["op"].is_null() && target["source"].is_null(), "{target}");
}

#[test]
fn settings_that_change_nothing_are_told() {
    let notes = |arguments: &[&str]| estimate(&capture("bert-small"), arguments).1["notes"].to_string();
    assert!(notes(&["--loss", "mean"]).contains("--loss: no effect"));
    let evaluation = notes(&["--mode", "eval", "--accumulate", "2", "--checkpoint", "blocks"]);
    assert!(evaluation.contains("--checkpoint, --accumulate: no effect in evaluation"), "{evaluation}");
    assert!(!notes(&["--mode", "eval"]).contains("no effect"));
}

#[test]
fn settings_that_cannot_be_are_refused_with_what_can() {
    let model = capture("bert-small");
    for (arguments, words) in [
        (&["--grad"][..], "--mode eval"),
        (&["--optimizer", "rmsprop", "--optimizer-impl", "fused"], "no such implementation of rmsprop"),
        (&["--optimizer", "lamb"], "adafactor"),
        (&["--dtype", "int8"], "possible values"),
        (&["--dtype", "bf16", "--amp", "bf16"], "bf"),
        (&["--checkpoint", "decoder.*"], "bert.encoder"),
        (&["--checkpoint", "sequential:3"], "no Sequential"),
        (&["--checkpoint", "sequential:0"], "whole number of at least 1"),
        (&["--size", "width=3"], "batch"),
        (&["--size", "batch"], "SYMBOL=N"),
        (&["--size", "input_ids=2x3x4"], "needed 2"),
        (&["--batch", "2", "--size", "batch=3"], "makes it"),
        (&["--accumulate", "0"], "1..="),
        (&["--steps", "0"], "1..="),
        (&["--vram", "11XB"], "11GiB"),
        (&["--alloc-conf", "max_split_size_mb:7"], "max_split_size_mb"),
    ] {
        let mut all = vec![model.as_str()];
        all.extend(arguments);
        let error = refusal(&all);
        assert!(error.contains(words), "{arguments:?}: {error}");
    }
    assert!(refusal(&[&capture("mlp-relu"), "--checkpoint", "blocks"]).contains("no list of equal blocks"));
    assert!(refusal(&["no-such-model"]).contains("neither a file nor a built-in model"));
    assert!(refusal(&["bert-bse"]).contains("bert-base"));
}

#[test]
fn sizes_that_no_machine_has_are_refused_by_name() {
    let model = capture("bert-small");
    for (arguments, words) in [
        (&["--batch", "0"][..], "needed a size from 1"),
        (&["--batch", "-4"], "needed a size from 1"),
        (&["--batch", "1000000000000"], "tensor "),
        (&["--batch", "9223372036854775807"], "needed a size from 1"),
        (&["--batch", "99999999999999999999"], "--batch"),
        (&["--seq", "1099511627775"], "tensor "),
    ] {
        let mut all = vec![model.as_str()];
        all.extend(arguments);
        let error = refusal(&all);
        assert!(error.contains(words), "{arguments:?}: {error}");
    }
    // A thousand million rows are many, but numbers.
    let (code, report) = estimate(&capture("mlp-relu"), &["--batch", "1000000000", "--vram", "80GiB"]);
    assert_eq!((code, &report["fit"]["verdict"]), (1, &Value::from("does-not-fit")));
}

#[test]
fn broken_files_are_refused_with_the_place_and_what_was_needed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.vramfit");
    let whole = fs::read(capture("bert-small")).unwrap();
    for length in [0, 1, 10, whole.len() / 2, whole.len() - 1] {
        fs::write(&path, &whole[..length]).unwrap();
        assert!(refusal(&[path.to_str().unwrap()]).contains("model.vramfit"), "{length}");
    }
    for text in
        ["", "{", "[]", "null", "not JSON", "{\"format\": \"vramfit-capture\"}", "{\"format\": 3, \"version\": 1}"]
    {
        fs::write(&path, text).unwrap();
        refusal(&[path.to_str().unwrap()]);
    }
    refusal(&[folder.path().to_str().unwrap()]);
}

#[test]
fn bad_captures_are_refused_by_node_and_field() {
    let folder = tempfile::tempdir().unwrap();
    for (from, to, words) in [
        ("\"version\": 1", "\"version\": 99", "99"),
        ("\"format\": \"vramfit-capture\"", "\"format\": \"onnx\"", "onnx"),
        ("[\"float32\", [3, 4]]", "[\"float33\", [3, 4]]", "float33"),
        ("[\"float32\", [3, 4]]", "[\"float32\", [-3, 4]]", "-3"),
        ("[\"float32\", [\"batch\", 3]]", "[\"float32\", [3000000000, 4000000000]]", "tensor 5"),
        ("[\"float32\", [\"batch\", 3]]", "[\"float32\", [\"batch*9223372036854775807\", 4]]", "batch"),
        ("[\"float32\", [\"batch\", 3]]", "[\"float32\", [\"batch-9\", 4]]", "batch-9"),
        ("[\"float32\", [\"batch\", 3]]", "[\"float32\", [\"width\", 4]]", "width"),
        ("[\"float32\", [3, 4]]", "[\"float32\", [3, 99999999999999999999]]", "types"),
        ("[\"%3\", \"%0\", \"%1\"]", "[\"%3\", \"%0\", \"%77\"]", "`bias` names tensor 77"),
        ("[\"%3\", \"%0\", \"%1\"]", "[\"%9\", \"%0\", \"%1\"]", "tensor 9"),
        ("\"move_order\": [0, 1, 2]", "\"move_order\": [0, 1, 7]", "move_order"),
        ("\"loss\": \"%9\", \"held\"", "\"loss\": \"%99\", \"held\"", "99"),
        ("[\"enter\", 1", "[\"enter\", 11", "11"),
        ("[\"call\", 0,", "[\"call\", 100,", "100"),
    ] {
        let path = changed(&folder, from, to);
        let error = refusal(&[path.to_str().unwrap(), "--batch", "8"]);
        assert!(error.contains("changed.vramfit: ") && error.contains(words), "{to}: {error}");
    }
}

#[test]
fn a_weight_decay_takes_a_copy_of_the_gradients_in_foreach_steps_and_nothing_in_adamw() {
    let step = |optimizer: &str, more: &[&str]| {
        let mut flags = vec!["--batch", "2", "--seq", "16", "--optimizer", optimizer];
        flags.extend(more);
        let (_, report) = estimate(&capture("bert-small"), &flags);
        let phases = report["phases"].as_array().unwrap();
        phases.iter().filter(|phase| phase["phase"] == "step").filter_map(|phase| phase["peak"].as_u64()).max().unwrap()
    };
    let (_, report) = estimate(&capture("bert-small"), &["--optimizer", "sgd", "--weight-decay"]);
    assert_eq!(report["settings"]["weight_decay"], true);
    let weights = 4 * report["parameters"].as_u64().unwrap();
    assert!(step("sgd", &["--weight-decay"]) >= step("sgd", &[]) + weights * 9 / 10);
    assert_eq!(step("adamw", &["--weight-decay"]), step("adamw", &[]));
    assert_eq!(
        step("sgd", &["--weight-decay", "--optimizer-impl", "fused"]),
        step("sgd", &["--optimizer-impl", "fused"])
    );
}

#[test]
fn a_size_that_data_decides_is_asked_for_and_its_answer_is_not_exact() {
    let masked = archive("masked");
    let error = refusal(&[&masked]);
    assert!(error.contains("`u0`") && error.contains("node `index`") && error.contains("--size u0=N"), "{error}");
    let (code, answer) = json(&["estimate", &masked, "--size", "u0=40"]);
    assert_eq!((code, &answer["settings"]["sizes"]["u0"], &answer["exact"]), (0, &40.into(), &false.into()));
    let is_said =
        |note: &serde_json::Value| note.as_str().is_some_and(|note| note.contains("`u0`") && note.contains("by hand"));
    assert!(answer["notes"].as_array().unwrap().iter().any(is_said), "{answer}");
}

#[test]
fn views_of_an_attentions_result_are_possible_in_an_archive() {
    let answer = |path: &str| good_json(&["estimate", path, "--batch", "4096", "--gpu", "H200"]);
    let captured = capture_of_archive("attends");
    let (archived, captured) = (answer(&archive("attends")), answer(&captured));
    assert_eq!(archived["unmodelled"], serde_json::json!([]), "the tracer left `.contiguous()` out");
    assert_eq!(archived["peak_reserved"], captured["peak_reserved"]);
    let range = |key: &str| archived["range"][key].as_u64().unwrap();
    let truth = captured["peak_allocated"].as_u64().unwrap();
    assert!((range("low")..=range("high")).contains(&truth), "{truth}: {}", archived["range"]);
}
