//! What people hand over by mistake: the answer names what it is and what to do, and no answer is given for a training that
//! PyTorch itself would stop.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use assert_cmd::Command;
use vramfit_eager::reach::check_reach;
use vramfit_graph::bind::bind;
use vramfit_graph::select::Sizes;
use vramfit_readers::read_file;

const GPT2: &str = r#"{"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "n_positions": 64, "n_embd": 48,
 "n_head": 4, "n_layer": 2, "vocab_size": 100}"#;

fn vramfit(arguments: &[&str], input: &str) -> (i32, String, String) {
    let mut command = Command::cargo_bin("vramfit").unwrap();
    let output = command.env("VRAMFIT_CUDNN", "off").args(arguments).write_stdin(input).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

#[track_caller]
fn assert_refused(arguments: &[&str], words: &[&str]) {
    let (code, out, err) = vramfit(arguments, "");
    assert!(code == 2 && out.is_empty(), "{arguments:?}: {code} {out}{err}");
    for word in words {
        assert!(err.contains(word), "{arguments:?}: needed `{word}` in {err}");
    }
}

fn captures() -> impl Iterator<Item = std::path::PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../validation/captures");
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    files.filter(|path| path.extension().is_some_and(|ending| ending == "vramfit"))
}

#[test]
fn a_sequence_beyond_the_position_table_is_refused_with_the_tables_size() {
    for (model, most, table) in [
        ("bert-base", 512, "position"),
        ("gpt2", 1024, "wpe"),
        ("roberta-base", 512, "514"),
        ("distilbert", 512, "position"),
    ] {
        let (code, _, err) = vramfit(&["estimate", model, "--batch", "1", "--seq", &most.to_string()], "");
        assert_eq!(code, 0, "{model}: {err}");
        assert_refused(
            &["estimate", model, "--batch", "1", "--seq", &(most + 1).to_string()],
            &[table, "PyTorch would stop"],
        );
    }
    for command in ["layers", "plan", "max-batch"] {
        let more: &[&str] = if command == "layers" { &[] } else { &["--vram", "8GiB"] };
        assert_refused(&[&[command, "gpt2", "--seq", "2048"], more].concat(), &["2048 rows", "1024"]);
    }
}

#[test]
fn rotary_and_relative_positions_have_no_end() {
    for model in ["llama-1b", "t5-small"] {
        let (code, _, err) = vramfit(&["estimate", model, "--batch", "1", "--seq", "9000"], "");
        assert_eq!(code, 0, "{model}: {err}");
    }
}

#[test]
fn a_configurations_position_table_has_an_end_too() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config.json");
    fs::write(&path, GPT2).unwrap();
    let path = path.to_str().unwrap();
    assert_eq!(vramfit(&["estimate", path, "--seq", "64"], "").0, 0);
    assert_refused(&["estimate", path, "--seq", "65"], &["wpe", "65 rows", "has 64"]);
}

#[test]
fn no_capture_runs_out_of_a_table_at_the_sizes_it_was_made_at() {
    let mut count = 0;
    for path in captures() {
        let model = read_file(&path).unwrap();
        for variant in 0..model.variants.len() {
            let bound = bind(&model, variant, &Sizes::example(&model).unwrap()).unwrap();
            check_reach(&bound).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        }
        count += 1;
    }
    assert!(count > 50, "{count}");
}

#[cfg(unix)]
#[test]
#[cfg(unix)]
fn a_python_without_the_package_is_bad_usage_and_no_verdict() {
    use std::os::unix::fs::PermissionsExt;

    let folder = tempfile::tempdir().unwrap();
    let python = folder.path().join("python3");
    fs::write(&python, "#!/bin/sh\nexit 1\n").unwrap();
    fs::set_permissions(&python, fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = Command::cargo_bin("vramfit").unwrap();
    let command = command.env_remove("VIRTUAL_ENV").env_remove("CONDA_PREFIX").env("PATH", folder.path());
    let output = command.args(["run", "train.py"]).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("found no package vramfit in this Python") && said.contains("pip install"), "{said}");
}

#[test]
fn a_device_that_never_ends_is_refused_at_once() {
    let begun = Instant::now();
    assert_refused(&["estimate", "/dev/zero"], &["byte 0", "a capture, a .pt2"]);
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
}

#[test]
fn a_file_that_is_empty_or_damaged_is_called_by_the_format_its_name_promises() {
    let folder = tempfile::tempdir().unwrap();
    let named = |name: &str, contents: &[u8]| {
        let path = folder.path().join(name);
        fs::write(&path, contents).unwrap();
        path.to_str().unwrap().to_owned()
    };
    for (name, words) in [
        ("model.json", "a config.json of Hugging Face"),
        ("model.pt2", "a zip archive of torch.export.save"),
        ("model.toml", "a model.toml"),
        ("model.vramfit", "a capture"),
    ] {
        for contents in [&b""[..], b" \n"] {
            assert_refused(&["estimate", &named(name, contents)], &["the file is empty", words]);
        }
    }
    for (name, words) in [("a.json", "config.json"), ("a.pt2", "torch.export.save"), ("a.vramfit", "a capture")] {
        assert_refused(&["estimate", &named(name, b"\x9a\xcb8\xf4 damaged")], &["byte 0: found", words]);
    }
    let (toml, json) = (named("b.toml", b"\xff\xfe"), named("b.json", b"{\"model_type\": \"llama\""));
    for path in [toml, json] {
        let (code, _, err) = vramfit(&["estimate", &path], "");
        assert!(code == 2 && !err.contains("capture"), "{err}");
    }
    assert_refused(&["estimate", &named("c.json", b"{\"hidden_size\": 8}")], &["neither `model_type`", "nor `format`"]);
    assert_refused(&["estimate", &named("notes", b"my notes\n")], &["found `my notes`, needed a capture, a .pt2"]);
}

#[cfg(unix)]
#[test]
fn a_sketch_may_come_through_a_pipe() {
    let sketch = "# a comment first\ninput = [\"batch\", 10]\nlayers = [\"Linear(10, 4)\"]\n";
    let (code, out, err) = vramfit(&["estimate", "/dev/stdin", "--batch", "8"], sketch);
    assert!(code == 0 && out.contains("44 parameters"), "{out}{err}");
    let (code, _, err) = vramfit(&["estimate", "/dev/stdin"], "input = [\"batch\", 10]\nlayers = [\"Liner(10, 4)\"]\n");
    assert!(code == 2 && err.contains("did you mean Linear?"), "{err}");
}

#[test]
fn what_is_no_model_is_told_with_what_to_do_instead() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    assert_refused(&["estimate", path], &["found a folder", "name a file in it"]);
    fs::write(folder.path().join("config.json"), GPT2).unwrap();
    assert_refused(&["estimate", path], &["found a folder", "config.json"]);
    assert_refused(&["estimate", ""], &["an empty name", "`vramfit models`"]);
    assert_refused(&["estimate", "nn.Linear(3, 4)"], &["found Python", "python -m vramfit capture", "Linear(3, 4)"]);
    assert_refused(
        &["estimate", "train.py"],
        &["found no such file", "a Python script would be no model", "python -m vramfit capture"],
    );
    for name in ["model.pt", "pytorch_model.bin", "last.ckpt", "model.safetensors"] {
        let path = folder.path().join(name);
        fs::write(&path, "weights").unwrap();
        let hint = "vramfit.capture(model, inputs";
        assert_refused(&["estimate", path.to_str().unwrap()], &["found weights", "config.json", hint]);
        assert_refused(&["estimate", name], &["found no such file, and weights would be no model", hint]);
    }
    assert_refused(&["estimate", "gpt2", "--vram", "12"], &["`12` without a unit", "such as 12GiB"]);
    assert_refused(&["estimate", "gpt2", "--gpu", "this:x"], &["found `x`", "this:1"]);
    assert_refused(&["estimate", "bert-bse"], &["similar names: bert-base", "hint: `vramfit models`"]);
    assert_refused(
        &["estimate", "bert-base", "--dtype", "bf16", "--amp", "bf16"],
        &["found bfloat16 weights", "leave out --amp"],
    );
}

#[test]
fn a_first_word_that_is_a_script_or_a_model_is_told_its_command() {
    for (word, tip) in [
        ("train.py", "'vramfit run train.py'"),
        ("GPT2", "'vramfit estimate GPT2'"),
        ("config.json", "'vramfit estimate config.json'"),
        ("snapshot.pickle", "'vramfit explain snapshot.pickle'"),
    ] {
        assert_refused(&[word], &["unrecognized subcommand", tip]);
    }
    assert_refused(&["estimat"], &["'estimate'"]);
}

#[test]
fn names_of_torch_are_taken_as_they_are_written() {
    let answer = |words: &[&str]| {
        let (code, out, err) = vramfit(&[&["estimate", "resnet18", "--json"], words].concat(), "");
        assert_eq!(code, 0, "{words:?}: {err}");
        serde_json::from_str::<serde_json::Value>(&out).unwrap()
    };
    for (written, known) in [
        (["--optimizer", "AdamW"], ["--optimizer", "adamw"]),
        (["--optimizer", "SGD"], ["--optimizer", "sgd"]),
        (["--dtype", "bfloat16"], ["--dtype", "bf16"]),
        (["--amp", "FLOAT16"], ["--amp", "fp16"]),
    ] {
        assert_eq!(answer(&written), answer(&known), "{written:?}");
    }
    assert_refused(&["estimate", "resnet18", "--gpu", "24GB"], &["--vram 24GiB"]);
}

#[test]
fn an_estimate_says_which_gpu_was_taken_and_takes_one_screen() {
    let (_, out, _) = vramfit(&["estimate", "resnet18", "--batch", "8", "--gpu", "v100 32g"], "");
    assert!(out.contains("taken as the V100 PCIe 32GB; there are also V100 SXM2 32GB"), "{out}");
    assert!(out.lines().count() <= 24, "{} lines\n{out}", out.lines().count());
    let (_, out, _) = vramfit(&["estimate", "llama-1b", "--gpu", "A100", "--parallel", "fsdp2", "--world", "4"], "");
    assert!(out.contains("; there are also"), "{out}");
}

#[test]
fn a_size_in_gb_is_said_in_gib_by_estimate_and_plan() {
    let note = "24 GB are 22.4 GiB; a GPU sold with 24 GB has 24 GiB: --vram 24GiB";
    for command in ["estimate", "plan"] {
        let (code, out, err) = vramfit(&[command, "resnet18", "--vram", "24GB"], "");
        let said = format!("{out}{err}").split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(code == 0 && said.contains(note), "{said}");
        let (_, out, err) = vramfit(&[command, "resnet18", "--vram", "24GiB"], "");
        assert!(!format!("{out}{err}").contains("sold"), "{out}{err}");
    }
}

#[test]
fn a_plan_ends_at_eighty_columns_and_says_which_gpu_was_taken_last() {
    let (code, out, err) = vramfit(&["plan", "resnet18", "--gpu", "A100"], "");
    assert_eq!(code, 0, "{err}");
    assert!(out.lines().chain(err.lines()).all(|line| line.chars().count() <= 80), "{out}{err}");
    assert!(err.starts_with("note: --gpu A100: taken as the A100 PCIe 40GB"), "{err}");
}

#[test]
fn what_a_start_takes_is_the_same_in_estimate_and_plan() {
    let (_, estimate, _) = vramfit(&["estimate", "gpt2", "--batch", "16", "--gpu", "3060"], "");
    let (_, plan, _) = vramfit(&["plan", "gpt2", "--batch", "16", "--gpu", "3060"], "");
    let [estimate, plan] = [estimate, plan].map(|text| text.split_whitespace().collect::<Vec<_>>().join(" "));
    let needs = estimate.split("needs ").nth(1).and_then(|rest| rest.split(' ').next()).unwrap();
    let takes = plan.split("it would take ").nth(1).and_then(|rest| rest.split(' ').next()).unwrap();
    assert_eq!(needs, takes, "{estimate}{plan}");
}

#[test]
fn a_folder_with_a_built_in_models_name_does_not_hide_the_model() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("gpt2")).unwrap();
    let mut command = Command::cargo_bin("vramfit").unwrap();
    command.current_dir(folder.path()).env("VRAMFIT_CUDNN", "off");
    command.args(["estimate", "gpt2", "--batch", "1"]).assert().success();
}

#[cfg(unix)]
#[test]
fn a_long_name_is_not_echoed_whole() {
    let sketch = format!("input = [\"batch\", 3]\nlayers = [\"{}(3, 4)\"]\n", "L".repeat(100_000));
    let (code, _, err) = vramfit(&["estimate", "/dev/stdin"], &sketch);
    assert!(code == 2 && err.len() < 3000 && err.contains("hint: "), "{}", err.len());
}

#[test]
fn layers_take_the_loss_that_estimate_takes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.toml");
    fs::write(&path, "input = [\"batch\", 10]\nlayers = [\"Linear(10, 4)\"]\n").unwrap();
    let path = path.to_str().unwrap();
    let peak = |command: &str, key: &str| {
        let (_, out, err) = vramfit(&[command, path, "--loss", "mean", "--json"], "");
        let report: serde_json::Value = serde_json::from_str(&out).unwrap_or_else(|_| panic!("{out}{err}"));
        report.pointer(key).and_then(serde_json::Value::as_u64).unwrap_or_else(|| panic!("{report}"))
    };
    assert_eq!(peak("layers", "/peak_allocated"), peak("estimate", "/peak_allocated"));
}

#[test]
fn a_gpu_whose_memory_is_not_recorded_is_said_to_have_a_range() {
    let (_, out, _) = vramfit(&["estimate", "gpt2", "--batch", "1", "--gpu", "H100 PCIe"], "");
    assert!(out.contains("which has 72.8 GiB to 80.0 GiB for it"), "{out}");
    let (_, out, _) = vramfit(&["estimate", "gpt2", "--batch", "1", "--gpu", "H100"], "");
    assert!(out.contains("which has 79.1 GiB for it"), "{out}");
}
