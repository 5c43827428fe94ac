//! Real outputs against the published schemas in `docs/schema`: what a schema requires is there, and every key of an output is
//! in its schema.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;

use std::fs;
use std::path::{Path, PathBuf};

use jsonschema::Validator;
use serde_json::{Value, json};

use common::{archive, capture};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn recording(name: &str) -> String {
    root().join(format!("validation/recordings/{name}.pickle.gz")).to_str().unwrap().to_owned()
}

/// The published schema of a command, with keys that it does not name forbidden.
fn schema(command: &str) -> Validator {
    let text = fs::read_to_string(root().join(format!("docs/schema/v1/{command}.json"))).unwrap();
    let mut schema: Value = serde_json::from_str(&text).unwrap();
    forbid_other_keys(&mut schema, true);
    jsonschema::validator_for(&schema).unwrap()
}

/// `is_whole` is false for a part of a schema beside which others describe the same object.
fn forbid_other_keys(schema: &mut Value, is_whole: bool) {
    let Some(fields) = schema.as_object_mut() else { return };
    for key in ["properties", "$defs"] {
        for inner in fields.get_mut(key).and_then(Value::as_object_mut).into_iter().flat_map(|map| map.values_mut()) {
            forbid_other_keys(inner, true);
        }
    }
    for key in ["items", "additionalProperties"] {
        if let Some(inner) = fields.get_mut(key) {
            forbid_other_keys(inner, true);
        }
    }
    for key in ["anyOf", "oneOf", "allOf"] {
        for inner in fields.get_mut(key).and_then(Value::as_array_mut).into_iter().flatten() {
            forbid_other_keys(inner, false);
        }
    }
    let describes_keys = ["properties", "anyOf", "oneOf", "allOf"].iter().any(|key| fields.contains_key(*key));
    if is_whole && describes_keys {
        fields.insert("unevaluatedProperties".to_owned(), json!(false));
    }
}

/// Fails where the JSON answer of a command is not as its schema says.
fn check(schema: &Validator, arguments: &[&str]) -> Value {
    let (_, answer) = common::json(arguments);
    let problems: Vec<String> =
        schema.iter_errors(&answer).map(|error| format!("{}: {error}", error.instance_path())).take(5).collect();
    assert!(problems.is_empty(), "{arguments:?}: {problems:#?}");
    answer
}

#[test]
fn estimates_are_as_their_schema_says() {
    let schema = schema("estimate");
    let (relu, unet, archive) = (capture("mlp-relu"), capture("unet"), archive("skips"));
    for arguments in [
        &["bert-base", "--batch", "4", "--optimizer", "adam"][..],
        &[&relu, "--vram", "60MiB"],
        &[&relu, "--vram", "1MiB"],
        &[&relu, "--accumulate", "2", "--mode", "eval"],
        &[&unet, "--gpu", "RTX 3060"],
        &[&unet, "--cudnn-benchmark"],
        &[&archive],
    ] {
        check(&schema, &[&["estimate"], arguments].concat());
    }
}

#[test]
fn plans_are_as_their_schema_says() {
    let schema = schema("plan");
    let relu = capture("mlp-relu");
    let found = check(&schema, &["plan", &relu, "--batch", "8192", "--vram", "300MiB"]);
    assert!(!found["plans"].as_array().unwrap().is_empty());
    let nothing = check(&schema, &["plan", &relu, "--batch", "64", "--gpu", "RTX 3060", "--vram", "1MiB"]);
    assert!(nothing["nothing_fits"].is_object());
    check(&self::schema("max-batch"), &["max-batch", &relu, "--vram", "100MiB"]);
}

#[test]
fn lists_are_as_their_schemas_say() {
    check(&schema("models"), &["models"]);
    check(&schema("catalogue"), &["catalogue"]);
    check(&schema("gpus"), &["gpus", "--demo"]);
    check(&schema("layers"), &["layers", "bert-base", "--batch", "2"]);
}

#[test]
fn replays_and_explanations_are_as_their_schemas_say() {
    let (replay, explain) = (schema("replay"), schema("explain"));
    let bert = recording("bert");
    check(&replay, &["replay", &bert]);
    check(&replay, &["replay", &bert, "--vram", "200MiB"]);
    check(&replay, &["replay", &recording("oom_plain")]);
    let mut kinds: Vec<String> = Vec::new();
    for name in [
        "leak_both",
        "leak_graph",
        "eval_graph",
        "spike_optimizer",
        "oom_fragmented",
        "oom_plain",
        "no_frames",
        "varying",
    ] {
        let answer = check(&explain, &["explain", &recording(name)]);
        let findings = answer["findings"].as_array().unwrap().iter();
        kinds.extend(findings.map(|finding| finding["kind"].as_str().unwrap().to_owned()));
    }
    kinds.sort();
    kinds.dedup();
    assert_eq!(kinds, ["fragmentation", "graph-kept", "leak", "oom", "spike"], "every kind of finding is checked");
}

#[test]
fn lint_findings_are_as_their_schema_says() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../lint/corpus");
    let answer = check(&schema("lint"), &["lint", corpus.to_str().unwrap()]);
    assert!(!answer.as_array().unwrap().is_empty());
}

#[test]
fn an_output_with_a_key_that_its_schema_does_not_name_is_refused() {
    let schema = schema("max-batch");
    assert!(schema.is_valid(&json!({"max_batch": 3, "final": true})));
    assert!(!schema.is_valid(&json!({"max_batch": 3})));
    assert!(!schema.is_valid(&json!({"max_batch": 3, "final": true, "more": 1})));
}
