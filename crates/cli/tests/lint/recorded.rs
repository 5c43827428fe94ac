//! `vramfit lint --with`: findings with what a recorded run says about them.

use std::io::Read;
use std::path::PathBuf;

use assert_cmd::Command;
use serde_json::{Value, json};

use super::{LEAK, folder, lint};

fn fixture() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/lint/recorded")
}

/// The recorded part of the finding of `code` in a line with `text`.
fn recorded(list: &Value, code: &str, text: &str) -> Value {
    let source = std::fs::read_to_string(fixture().join("train.py")).unwrap();
    let lines: Vec<&str> = source.lines().collect();
    let is_it = |finding: &&Value| {
        let line = usize::try_from(finding["line"].as_u64().unwrap()).unwrap();
        finding["code"] == code && lines[line - 1].contains(text)
    };
    list.as_array().unwrap().iter().find(is_it).unwrap_or_else(|| panic!("{code} at {text}: {list:#}"))["recorded"]
        .clone()
}

fn answers(with: &str) -> Value {
    let (code, out, error) = lint(&fixture(), &["--json", "--with", with, "train.py"]);
    assert_eq!((code, error.as_str()), (1, ""), "{out}");
    serde_json::from_str(&out).unwrap()
}

#[test]
fn a_finding_has_the_bytes_of_the_recorded_run() {
    let list = answers("train.vramfit");
    // Outputs of 512 x 256 floats. A loss of MSELoss holds as much: its storage is that of the differences.
    let kept = recorded(&list, "VF002", "kept.append(out)");
    assert_eq!((&kept["ran"], &kept["each"]), (&json!(true), &json!(512 << 10)));
    let losses = recorded(&list, "VF001", "losses.append(loss)");
    assert_eq!((&losses["each"], &losses["bytes"]), (&json!(512 << 10), &json!(6 * (512 << 10))));
    assert_eq!(losses["peak_reduction"], losses["bytes"]);
    // Hidden activations of 512 x 1024 floats, and the outputs.
    let call = recorded(&list, "VF003", "out = model(x.cuda())");
    assert_eq!((&call["each"], &call["peak_reduction"]), (&json!(5 * (512 << 10)), &Value::Null));
    // The same with the data.
    assert_eq!(recorded(&list, "VF002", "outputs.append(out)")["each"], json!(6 * (512 << 10)));
}

#[test]
fn a_finding_that_costs_nothing_in_the_recorded_run_is_marked() {
    let list = answers("train.vramfit");
    let added = recorded(&list, "VF001", "history += loss");
    assert_eq!(added, json!({"ran": true, "bytes": 0, "each": 0, "peak_reduction": 0}));
    // Two weights and two biases, which are freed before the peak.
    let gradients = recorded(&list, "VF006", "zero_grad");
    assert_eq!(gradients, json!({"ran": true, "bytes": 2_102_272, "each": null, "peak_reduction": 0}));
    let unknown = json!({"ran": true, "bytes": null, "each": null, "peak_reduction": null});
    assert_eq!(recorded(&list, "VF015", "x, y = "), unknown);
    let not_run = json!({"ran": false, "bytes": null, "each": null, "peak_reduction": null});
    assert_eq!(recorded(&list, "VF001", "total += loss"), not_run);
}

#[test]
fn every_format_says_what_was_recorded() {
    let words = "keeps 512 KiB an iteration, 3.00 MiB at once; the peak of";
    let format = |format: &str| {
        let arguments = ["--no-color", "--format", format, "--with", "train.vramfit", "train.py"];
        lint(&fixture(), &arguments).1
    };
    let text = format("text");
    assert!(text.contains(&format!("   = recorded: {words}\n")), "{text}");
    assert!(text.contains("   = recorded: nothing of this block ran in the recording\n"), "{text}");
    assert!(format("github").contains(&format!("(recorded: {words}")));
    let sarif: Value = serde_json::from_str(&format("sarif")).unwrap();
    let results = sarif["runs"][0]["results"].as_array().unwrap().iter();
    let mut with_words = results.filter(|result| result["message"]["text"].as_str().unwrap().contains(words));
    assert_eq!(with_words.next().unwrap()["properties"]["recorded"]["each"], json!(512 << 10));
    let without = lint(&fixture(), &["--json", "train.py"]).1;
    assert!(!without.contains("recorded"), "{without}");
}

#[test]
fn a_snapshot_says_the_same_as_the_recording_it_was_simulated_from() {
    let own = tempfile::tempdir().unwrap();
    let snapshot = own.path().join("snapshot.pickle");
    let run = ["run", "--cudnn", "off", "--recording", "train.vramfit", "--snapshot", snapshot.to_str().unwrap()];
    Command::cargo_bin("vramfit").unwrap().current_dir(fixture()).args(run).assert().success();
    assert_eq!(answers(snapshot.to_str().unwrap()), answers("train.vramfit"));
}

#[test]
fn files_are_recognised_by_the_end_of_their_path() {
    let source = std::fs::read_to_string(fixture().join("train.py")).unwrap();
    let recording = fixture().join("train.vramfit");
    let with = recording.to_str().unwrap();
    let one = folder(&[("here/train.py", &source), ("here/other.py", LEAK)]);
    let (_, out, error) = lint(one.path(), &["--json", "--with", with, "."]);
    assert_eq!((error.as_str(), out.matches("\"recorded\"").count()), ("", 8), "{out}");
    let two = folder(&[("here/train.py", &source), ("there/train.py", LEAK)]);
    let (_, out, error) = lint(two.path(), &["--json", "--with", with, "."]);
    assert!(error.contains("`train.py` may be any of ./here/train.py, ./there/train.py"), "{error}");
    assert!(!out.contains("recorded"), "{out}");
    // In the folder in which the script ran there is no doubt.
    let (_, out, error) = lint(&two.path().join("here"), &["--json", "--with", with, ".", "../there"]);
    assert_eq!((error.as_str(), out.matches("\"recorded\"").count()), ("", 8), "{out}");
    let none = folder(&[("other.py", LEAK)]);
    let (code, _, error) = lint(none.path(), &["--with", with, "."]);
    assert_eq!(code, 1);
    assert!(error.contains("found lines of train.py, needed those of the files checked"), "{error}");
}

/// The fixture's recording with the checksum of a source.
fn recording_of(source: &str) -> Vec<u8> {
    let mut text = String::new();
    let packed = std::fs::read(fixture().join("train.vramfit")).unwrap();
    flate2::read::GzDecoder::new(packed.as_slice()).read_to_string(&mut text).unwrap();
    let mut recording: Value = serde_json::from_str(&text).unwrap();
    let mut checksum = flate2::Crc::new();
    checksum.update(source.as_bytes());
    recording["script"]["files"] = json!([["train.py", checksum.sum()]]);
    recording.to_string().into_bytes()
}

#[test]
fn a_file_that_has_changed_since_it_was_recorded_is_named() {
    let source = std::fs::read_to_string(fixture().join("train.py")).unwrap();
    let same = folder(&[("train.py", &source)]);
    std::fs::write(same.path().join("train.vramfit"), recording_of(&source)).unwrap();
    let arguments = ["--json", "--with", "train.vramfit", "train.py"];
    let (_, out, error) = lint(same.path(), &arguments);
    assert_eq!(error, "");
    std::fs::write(same.path().join("train.py"), format!("{source}\n")).unwrap();
    let (code, changed, error) = lint(same.path(), &arguments);
    assert!(error.contains("train.vramfit: train.py has changed since it was recorded"), "{error}");
    assert!(error.contains("vramfit run --out"), "{error}");
    assert_eq!((code, changed), (1, out), "what is found stays");
}

#[test]
fn what_is_no_recording_is_refused_by_name() {
    let capture = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../readers/tests/captures/mlp.vramfit");
    for (with, words) in [
        (capture.to_str().unwrap(), "found a model, needed the recording of a script"),
        ("missing.vramfit", "missing.vramfit: found no such file"),
        ("missing.pickle", "missing.pickle"),
        ("train.py", "train.py"),
    ] {
        let (code, out, error) = lint(&fixture(), &["--with", with, "train.py"]);
        assert_eq!((code, out.as_str()), (2, ""), "{with}");
        assert!(error.starts_with("error: ") && error.contains(words), "{with}: {error}");
    }
    assert_eq!(lint(&fixture(), &["--fix", "--with", "train.vramfit", "train.py"]).0, 2);
}
