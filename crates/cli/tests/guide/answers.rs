//! What commands print, each run once; and what was measured.

use std::collections::BTreeMap;
use std::fs::File;
use std::sync::{Arc, Mutex, OnceLock};

use assert_cmd::Command;
use flate2::read::GzDecoder;
use serde_json::Value;
use vramfit_allocator::Settings;
use vramfit_allocator::size::{block_size, segment_size};
use vramfit_report::size::parse;

use crate::root;

/// What `command` prints to its output, or to its diagnostics where there is no output.
pub fn text(command: &str) -> String {
    type Answers = Mutex<BTreeMap<String, Arc<OnceLock<String>>>>;
    static ANSWERS: OnceLock<Answers> = OnceLock::new();
    let answer = ANSWERS.get_or_init(Answers::default).lock().unwrap().entry(command.to_owned()).or_default().clone();
    answer.get_or_init(|| run(command)).clone()
}

/// The JSON answer of `command`.
pub fn json(command: &str) -> Value {
    let text = text(&format!("{command} --json"));
    serde_json::from_str(&text).unwrap_or_else(|_| panic!("{command}: {text}"))
}

fn run(command: &str) -> String {
    let words = words(command);
    let arguments = match words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["vramfit", rest @ ..] | ["cargo", "run", "--release", "--", rest @ ..] => rest.join("\u{0}"),
        _ => panic!(
            "found `$ {command}`, needed `$ vramfit …`: what cannot be run here belongs in another kind of block"
        ),
    };
    let folder = tempfile::tempdir().unwrap();
    let mut arguments: Vec<String> = arguments.split('\u{0}').map(str::to_owned).collect();
    for at in 1..arguments.len() {
        if arguments[at - 1] == "--html" {
            arguments[at] = folder.path().join("page.html").to_str().unwrap().to_owned();
        }
    }
    let output = Command::cargo_bin("vramfit")
        .unwrap()
        .current_dir(root())
        .env("NO_COLOR", "1")
        .env("COLUMNS", "80")
        .env("XDG_CONFIG_HOME", folder.path())
        .env("HOME", folder.path())
        .env("VRAMFIT_CUDNN", "off")
        .args(&arguments)
        .output()
        .unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    if output.stdout.is_empty() { text(output.stderr) } else { text(output.stdout) }
}

/// The words of a command line; double quotes keep spaces.
fn words(command: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut is_quoted = false;
    for letter in command.chars() {
        match letter {
            '"' => is_quoted = !is_quoted,
            ' ' if !is_quoted => words.push(String::new()),
            _ => words.last_mut().unwrap().push(letter),
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// A case of `validation/measured`, beside the estimate for it.
pub fn measured(case: &str) -> Value {
    static CASES: OnceLock<Value> = OnceLock::new();
    let cases = CASES.get_or_init(|| packed("validation/measured/measured.json.gz"));
    let measured = &cases["cases"][case];
    assert!(measured["peak_allocated"].is_u64(), "validation/measured has no case {case}");
    let settings = measured["settings"].as_object().unwrap();
    let mut command = format!("vramfit estimate validation/captures/{}.vramfit", measured["model"].as_str().unwrap());
    for (key, value) in settings {
        let flag = key.replace('_', "-");
        match value {
            Value::Null => {}
            Value::Bool(false) if key != "set_to_none" => {}
            Value::Bool(true) if key != "set_to_none" => command += &format!(" --{flag}"),
            Value::String(word) if matches!((key.as_str(), word.as_str()), ("amp", "none")) => {}
            Value::String(word) => command += &format!(" --{flag} {word}"),
            other => command += &format!(" --{flag} {other}"),
        }
    }
    // Evaluation has no optimizer, so the command wants none named.
    let estimate = json(&command);
    serde_json::json!({ "measured": measured, "estimate": estimate })
}

/// A setting of a model in `validation/price`: milliseconds, and against the model's baseline.
pub fn timed(model: &str, setting: &str) -> Value {
    static STEPS: OnceLock<Value> = OnceLock::new();
    let steps = STEPS.get_or_init(|| packed("validation/price/steps.json.gz"));
    let milliseconds = |setting: &str| {
        let rows = steps["validation"][model]["rows"].as_array().unwrap_or_else(|| panic!("no timed model {model}"));
        let row = rows.iter().find(|row| row["setting"] == setting).unwrap_or_else(|| panic!("{model}: no {setting}"));
        row["ms"].as_f64().unwrap()
    };
    let time = milliseconds(setting);
    serde_json::json!({ "time": format!("{time:.1} ms"), "slowdown": format!("× {:.2}", time / milliseconds("base")) })
}

/// What the allocator makes of a request of that size.
pub fn request(size: &str) -> Value {
    let settings = Settings::default();
    let block = block_size(parse(size).unwrap(), &settings);
    serde_json::json!({ "block": block, "segment": segment_size(block, &settings) })
}

fn packed(path: &str) -> Value {
    serde_json::from_reader(GzDecoder::new(File::open(root().join(path)).unwrap())).unwrap()
}
