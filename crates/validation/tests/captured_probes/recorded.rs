//! The recorded probes, single operators on an H200 with every allocation and free, and their captures.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;

use flate2::read::GzDecoder;
use serde_json::Value as Json;
use vramfit_graph::model::Model;
use vramfit_readers::read_bytes;
use vramfit_validation::measured::folder;

/// A probe.
#[derive(Clone, Debug)]
pub struct Probe {
    pub operator: String,
    /// What each argument is: `activation`, `parameter` or `constant`.
    pub roles: Vec<String>,
    /// For each way the probe was run, its parts with their events as text.
    pub modes: BTreeMap<String, BTreeMap<String, Vec<String>>>,
}

fn text(name: &str) -> String {
    let mut text = String::new();
    let file = File::open(folder().join("measured").join(name)).unwrap();
    GzDecoder::new(file).read_to_string(&mut text).unwrap();
    text
}

/// Recordings and their captures. A key names one probe within its file only.
const FILES: [(&str, &str); 4] = [
    ("probe.json.gz", "probe-captures.jsonl.gz"),
    ("probe-uncommon.json.gz", "probe-captures-uncommon.jsonl.gz"),
    ("probe-rare.json.gz", "probe-captures-rare.jsonl.gz"),
    ("probe-seldom.json.gz", "probe-captures-seldom.jsonl.gz"),
];

/// The probes that were recorded and captured and whose key contains `wanted`: key, recording, capture.
pub fn probes(wanted: &str) -> impl Iterator<Item = (String, Probe, Model)> {
    changed(wanted, |_| {})
}

/// All of them with other names for all operators, which no rule knows.
pub fn without_rules() -> impl Iterator<Item = (String, Probe, Model)> {
    changed("", |capture| {
        for operator in capture["operators"].as_array_mut().unwrap() {
            operator[0] = operator[0].as_str().unwrap().replacen('.', ".tomorrows_", 1).into();
        }
    })
}

fn changed(wanted: &str, change: fn(&mut Json)) -> impl Iterator<Item = (String, Probe, Model)> {
    FILES.into_iter().flat_map(move |(recordings, captures)| {
        let json: Json = serde_json::from_str(&text(recordings)).unwrap();
        let lines: Vec<String> =
            text(captures).lines().filter(|line| line.contains(wanted)).map(str::to_owned).collect();
        lines.into_iter().filter_map(move |line| {
            let mut line: Json = serde_json::from_str(&line).unwrap();
            let key = line["key"].as_str().unwrap().to_owned();
            if !key.contains(wanted) {
                return None;
            }
            let probe = probe(json["probes"].get(&key)?)?;
            change(&mut line["capture"]);
            let capture = line["capture"].take().to_string();
            let model = read_bytes(capture.as_bytes()).unwrap_or_else(|error| panic!("{key}: {error}"));
            Some((key, probe, model))
        })
    })
}

fn probe(json: &Json) -> Option<Probe> {
    let roles = json["arguments"].as_array()?.iter().filter_map(|one| one[2].as_str().map(str::to_owned)).collect();
    let mut modes = BTreeMap::new();
    for name in ["leaf", "chained", "no_grad"] {
        if let Some(found) = json.get(name).filter(|mode| mode.get("error").is_none()) {
            modes.insert(name.to_owned(), mode(found));
        }
    }
    Some(Probe { operator: json["op"].as_str()?.to_owned(), roles, modes })
}

fn mode(json: &Json) -> BTreeMap<String, Vec<String>> {
    super::PARTS
        .iter()
        .filter_map(|&name| {
            let events = json.get(name)?.as_array()?;
            Some((name.to_owned(), events.iter().map(event).collect()))
        })
        .collect()
}

fn event(json: &Json) -> String {
    if json[0] == "+" {
        return format!("+{}", json[1]);
    }
    json[1].as_str().map_or_else(|| format!("-#{}", json[1]), |name| format!("-{name}"))
}
