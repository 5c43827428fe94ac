//! Models of the sweep whose requests were recorded on an H200 (`validation/sweep/traces`): every one is simulated, in its order.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::BTreeMap;
use std::path::Path;

use vramfit_validation::estimate::difference_of_files;

#[test]
fn every_request_of_recorded_models_is_simulated() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../validation/sweep/traces");
    let settings = std::fs::read_to_string(folder.join("settings.json")).unwrap();
    let settings: BTreeMap<String, serde_json::Value> = serde_json::from_str(&settings).unwrap();
    assert!(!settings.is_empty());
    for (name, settings) in settings {
        let [capture, trace] = ["vramfit", "json.gz"].map(|ending| folder.join(format!("{name}.{ending}")));
        let found = difference_of_files(&capture, &trace, &settings.to_string()).unwrap();
        let first = found.lines().next().unwrap();
        let (same, all) = first.strip_suffix(" events agree").unwrap().split_once(" of ").unwrap();
        assert!(same == all && same.parse::<u32>().unwrap() > 1000, "{name}: {found}");
    }
}
