//! What is known of an operator is in its entry of the table, and nowhere else: no other code compares operators' names.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::fs;
use std::path::{Path, PathBuf};

/// Sources that name operators for another reason. A path that ends in `/` is a folder.
const MAY_NAME_OPERATORS: &[(&str, &str)] = &[
    ("adapters/src/", "makes the calls of adapters and of quantised layers"),
    ("eager/src/operators/", "the table itself"),
    ("readers/src/model_toml/", "makes the calls that layers make"),
    ("readers/src/pt2/open", "makes the calls inside operators that run as several"),
    ("readers/src/pt2/attention_results.rs", "rewrites a traced pattern"),
    ("readers/src/pt2/causes.rs", "looks for dropout and batch norm that were exported for evaluation"),
    ("readers/src/pt2/fast_path.rs", "rewrites a traced pattern"),
    ("readers/src/pt2/flatten.rs", "tells ATen's namespace from the exporter's own nodes"),
    ("readers/src/pt2/fold.rs", "computes small tensors that were traced"),
    ("readers/src/pt2/node.rs", "rewrites how the exporter writes a pad; tells nodes that are no operators"),
    ("readers/src/pt2/operators.rs", "looks up signatures, which have no namespace"),
    ("readers/src/pt2/precision.rs", "reads Python source beside a cast"),
    ("readers/src/pt2/renamed.rs", "rewrites a traced pattern"),
    ("readers/src/pt2/traced.rs", "rewrites a traced pattern"),
    ("readers/src/pt2/variant", "rewrites traced calls for another precision or mode"),
    ("report/src/estimate/", "shortens names for people"),
    ("training/src/process/added_loss.rs", "makes the calls of a loss"),
];

/// How code looks that compares operators' names.
const SIGNS: &[&str] = &[
    "\"aten.",
    "ends_with('_')",
    "strip_suffix('_')",
    "trim_end_matches('_')",
    "split('.').nth(1)",
    "operator_name(call).starts_with",
    "operator_name(call).contains",
    "operator_name(call) ==",
];

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

#[test]
fn no_code_outside_the_table_compares_operator_names() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut found = Vec::new();
    for entry in fs::read_dir(crates).unwrap() {
        let source = entry.unwrap().path().join("src");
        if source.is_dir() {
            sources(&source, &mut found);
        }
    }
    let mut wrong = Vec::new();
    let mut used = vec![false; MAY_NAME_OPERATORS.len()];
    for path in found {
        let relative = path.strip_prefix(crates).unwrap().to_str().unwrap().replace('\\', "/");
        let text = fs::read_to_string(&path).unwrap();
        let code = text.split("#[cfg(test)]").next().unwrap_or("");
        for (number, line) in code.lines().enumerate().filter(|(_, line)| !line.trim_start().starts_with("//")) {
            if !SIGNS.iter().any(|sign| line.contains(sign)) {
                continue;
            }
            match MAY_NAME_OPERATORS.iter().position(|(allowed, _)| relative.starts_with(allowed)) {
                Some(allowed) => used[allowed] = true,
                // The lint rules look at names of Python, not of operators.
                None if relative.starts_with("lint/") => {}
                None => wrong.push(format!("{relative}:{}: {}", number + 1, line.trim())),
            }
        }
    }
    assert!(wrong.is_empty(), "put the fact into the operator's entry:\n{}", wrong.join("\n"));
    let idle: Vec<&str> = MAY_NAME_OPERATORS.iter().zip(used).filter(|(_, used)| !used).map(|(it, _)| it.0).collect();
    assert!(idle.is_empty(), "these name no operators any more: {idle:?}");
}
