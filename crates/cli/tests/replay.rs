//! `vramfit replay` from the outside: the contract's keys and exit codes, and one clear error for bad input.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;

use std::path::{Path, PathBuf};

use serde_json::Value;

use common::{json, vramfit};

fn recording(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../validation/recordings").join(name)
}

fn replay(name: &str, more: &[&str]) -> (i32, Value) {
    let path = recording(name);
    json(&[&["replay", path.to_str().unwrap()][..], more].concat())
}

#[test]
fn a_recording_replays_and_exits_with_0() {
    let (code, report) = replay("bert.pickle.gz", &[]);
    assert_eq!(code, 0);
    assert_eq!(report["mismatches"], 0);
    assert_eq!(report["recorded"], report["replayed"]);
    assert!(report["events"].as_u64().unwrap() > 4000);
    assert_eq!(report["oom"], Value::Null);
}

#[test]
fn a_cap_that_is_too_small_exits_with_1_and_pytorchs_words() {
    let (code, report) = replay("bert.pickle.gz", &["--vram", "300MiB"]);
    assert_eq!(code, 1);
    let message = report["oom"]["message"].as_str().unwrap();
    assert!(message.starts_with("CUDA out of memory. Tried to allocate "), "{message}");
    assert!(message.contains("300.00 MiB allowed; "), "{message}");
}

#[test]
fn another_setting_is_answered_with_what_was_measured_under_it() {
    let (code, report) = replay("varying.pickle.gz", &["--alloc-conf", "expandable_segments:True"]);
    assert_eq!(code, 0);
    assert_eq!(report["replayed"]["peak_reserved"], 2552u64 << 20);
    assert_eq!(report["recorded"]["peak_reserved"], 3388u64 << 20);
}

#[test]
fn a_recorded_failure_is_told_and_is_no_failure_of_the_replay() {
    let (code, report) = replay("oom_plain.pickle.gz", &[]);
    assert_eq!((code, &report["mismatches"]), (0, &Value::from(0)));
    assert_eq!(report["oom"]["requested"], 37_748_736);
}

#[test]
fn the_summary_is_pytorchs() {
    let path = recording("resnet18.pickle.gz");
    let report: Value = serde_json::from_slice(&std::fs::read(recording("resnet18.json")).unwrap()).unwrap();
    let (code, out, _) = vramfit(&["replay", path.to_str().unwrap(), "--summary"]);
    assert_eq!((code, out.as_str()), (0, report["summary"].as_str().unwrap()));
    let (_, at_peak, _) = vramfit(&["replay", path.to_str().unwrap(), "--summary=peak"]);
    assert_ne!(at_peak, out);
}

#[test]
fn text_is_plain_where_colours_are_off() {
    let path = recording("mlp.pickle.gz");
    for (arguments, is_coloured) in
        [(&["--no-color"][..], false), (&["--color=never"], false), (&["--color"], true), (&[], false)]
    {
        let mut all = vec!["replay", path.to_str().unwrap()];
        all.extend(arguments);
        let (_, out, _) = vramfit(&all);
        assert_eq!(out.contains('\u{1b}'), is_coloured, "{arguments:?}");
        assert!(out.lines().all(|line| line.chars().count() <= 100 || is_coloured));
    }
}

#[test]
fn bad_input_is_one_clear_error_and_exit_code_2() {
    let folder = tempfile::tempdir().unwrap();
    let whole = std::fs::read(recording("mlp.pickle.gz")).unwrap();
    let write = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let cases = [
        (write("truncated", &whole[..whole.len() / 2]), "truncated"),
        (write("empty", b""), "empty"),
        (write("text", b"hello"), "pickle"),
        (write("hostile", b"\x80\x02cos\nsystem\nq\x00."), "GLOBAL"),
        (write("huge", b"\x80\x04\x8d\xff\xff\xff\xff\x0f\x00\x00\x00abc."), ""),
        (folder.path().join("missing").to_str().unwrap().to_owned(), ""),
        (folder.path().to_str().unwrap().to_owned(), ""),
    ];
    for (path, word) in cases {
        let (code, out, err) = vramfit(&["replay", &path]);
        assert_eq!(code, 2, "{path}: {out}{err}");
        assert!(out.is_empty());
        assert!(err.starts_with("error: ") && err.contains(&path) && err.contains(word), "{err}");
        assert!(!err.contains("panicked"), "{err}");
    }
}

#[test]
fn bad_usage_exits_with_2() {
    let path = recording("mlp.pickle.gz");
    let path = path.to_str().unwrap();
    for arguments in [
        &["replay"][..],
        &["replay", path, "--vram", "eleven"],
        &["replay", path, "--alloc-conf", "backend:cudaMallocAsync"],
        &["replay", path, "--alloc-conf", "max_split_size_mb:3"],
        &["replay", path, "--device", "7"],
        &["nonsense"],
    ] {
        let (code, _, err) = vramfit(arguments);
        assert_eq!(code, 2, "{arguments:?}: {err}");
        assert!(err.starts_with("error: "), "{err}");
    }
}
