//! ARCHITECTURE.md's table of crates is what the manifests say, and `cargo run` runs vramfit.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

/// Crate names without their prefix, each with the workspace crates it depends on, tests and benches aside.
type Crates = BTreeMap<String, BTreeSet<String>>;

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// The rows `| [`name`](crates/name) | purpose | `one`, `other` |` of the table.
fn written() -> Crates {
    let text = std::fs::read_to_string(root().join("ARCHITECTURE.md")).expect("ARCHITECTURE.md is there");
    let rows = text.lines().filter(|line| line.starts_with("| [`") && line.contains("](crates/"));
    rows.map(|row| {
        let cells: Vec<&str> = row.trim_matches('|').split(" | ").collect();
        let names = |cell: &str| cell.split('`').skip(1).step_by(2).map(str::to_owned).collect::<BTreeSet<_>>();
        let name = names(cells[0]).pop_first().expect("a row begins with a crate");
        assert!(cells[0].contains(&format!("(crates/{name})")), "{name}: the link leads elsewhere");
        (name, names(cells[cells.len() - 1]))
    })
    .collect()
}

fn metadata() -> serde_json::Value {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--format-version", "1", "--offline"])
        .current_dir(root())
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("cargo writes JSON")
}

fn from_manifests() -> Crates {
    let metadata = metadata();
    let short = |package: &serde_json::Value| match package["name"].as_str() {
        Some("vramfit") => Some("cli".to_owned()),
        name => name?.strip_prefix("vramfit-").map(str::to_owned),
    };
    let packages = metadata["packages"].as_array().expect("a list of packages");
    packages
        .iter()
        .map(|package| {
            let dependencies = package["dependencies"].as_array().expect("a list of dependencies");
            let used = dependencies.iter().filter(|dependency| dependency["kind"].is_null()).filter_map(short);
            (short(package).expect("every crate is one of vramfit's"), used.collect())
        })
        .collect()
}

#[test]
fn the_table_of_crates_names_every_crate_and_what_it_depends_on() {
    let (written, actual) = (written(), from_manifests());
    assert!(written.len() > 10, "the table was not found");
    for (name, used) in &actual {
        assert_eq!(written.get(name), Some(used), "ARCHITECTURE.md's row of `{name}`");
    }
    assert_eq!(written.len(), actual.len(), "ARCHITECTURE.md names a crate that is not there");
}

#[test]
fn cargo_run_needs_no_word_about_which_program() {
    let metadata = metadata();
    let packages = metadata["packages"].as_array().expect("a list of packages");
    let defaults = metadata["workspace_default_members"].as_array().expect("a list of packages");
    let programs: Vec<&str> = packages
        .iter()
        .filter(|package| defaults.contains(&package["id"]))
        .flat_map(|package| package["targets"].as_array().expect("a list of targets"))
        .filter(|target| target["kind"] == serde_json::json!(["bin"]))
        .filter_map(|target| target["name"].as_str())
        .collect();
    assert_eq!(programs, ["vramfit"]);
}
