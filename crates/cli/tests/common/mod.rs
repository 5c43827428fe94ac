//! The program from the outside, for the tests of several commands.

#![allow(dead_code, reason = "each of them uses some of it")]

use std::path::Path;

use assert_cmd::Command;
use serde_json::Value;

/// Exit code, output and diagnostics, with nothing calibrated and no installed cuDNN.
pub fn vramfit(arguments: &[&str]) -> (i32, String, String) {
    let config = tempfile::tempdir().unwrap();
    vramfit_in(config.path(), arguments)
}

/// The same with this configuration folder.
pub fn vramfit_in(config: &Path, arguments: &[&str]) -> (i32, String, String) {
    let mut command = Command::cargo_bin("vramfit").unwrap();
    let output = command.env("XDG_CONFIG_HOME", config).env("VRAMFIT_CUDNN", "off").args(arguments).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

/// Exit code and JSON answer.
pub fn json(arguments: &[&str]) -> (i32, Value) {
    let config = tempfile::tempdir().unwrap();
    json_in(config.path(), arguments)
}

/// The same with this configuration folder.
pub fn json_in(config: &Path, arguments: &[&str]) -> (i32, Value) {
    let (code, out, err) = vramfit_in(config, &[arguments, &["--json"]].concat());
    (code, serde_json::from_str(&out).unwrap_or_else(|_| panic!("{arguments:?}: {code}: {out}{err}")))
}

/// The JSON answer of a command that ends well.
pub fn good_json(arguments: &[&str]) -> Value {
    let (code, answer) = json(arguments);
    assert_eq!(code, 0, "{arguments:?}: {answer:#}");
    answer
}

/// The words of a refusal.
pub fn refusal(arguments: &[&str]) -> String {
    let (code, out, err) = vramfit(arguments);
    assert_eq!(code, 2, "{arguments:?}: {out}{err}");
    assert!(out.is_empty() && err.starts_with("error: ") && !err.contains("panicked"), "{arguments:?}: {out}{err}");
    err
}

/// The path of a capture of `validation`.
pub fn capture(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../validation/captures");
    folder.join(format!("{name}.vramfit")).to_str().unwrap().to_owned()
}

/// The path of the capture of the model in such an archive.
pub fn capture_of_archive(name: &str) -> String {
    archive(name).replace(".pt2", ".vramfit")
}

/// The path of a small archive that the reader is tested with.
pub fn archive(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../readers/tests/archives");
    folder.join(format!("{name}.pt2")).to_str().unwrap().to_owned()
}
