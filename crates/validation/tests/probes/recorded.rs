//! The recorded probes: single operators on an H200, with every allocation and free.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;

use flate2::read::GzDecoder;
use serde_json::Value as Json;
use vramfit_graph::dtype::Dtype;
use vramfit_validation::measured::folder;

/// A probe's argument.
#[derive(Clone, Debug)]
pub struct Argument {
    pub shape: Vec<i64>,
    pub dtype: Dtype,
    /// `activation`, `parameter` or `constant`.
    pub role: String,
    /// `transposed`, `channels-last`, or nothing.
    pub layout: Option<String>,
}

/// A probe.
#[derive(Clone, Debug)]
pub struct Probe {
    pub operator: String,
    pub dtype: String,
    pub size: String,
    pub arguments: Vec<Argument>,
    pub modes: BTreeMap<String, Mode>,
}

/// One way the probe was run: its parts with their events as text, and its outputs.
#[derive(Clone, Debug, Default)]
pub struct Mode {
    pub parts: BTreeMap<String, Vec<String>>,
    pub outputs: Vec<(Vec<i64>, Vec<i64>, Dtype)>,
}

/// All probes.
pub fn probes() -> Vec<Probe> {
    let path = folder().join("measured/probe.json.gz");
    let mut text = String::new();
    GzDecoder::new(File::open(path).expect("probes")).read_to_string(&mut text).expect("probes");
    let json: Json = serde_json::from_str(&text).expect("probes");
    json["probes"].as_object().expect("probes").values().filter_map(probe).collect()
}

fn probe(json: &Json) -> Option<Probe> {
    let arguments = json["arguments"].as_array()?.iter().map(argument).collect::<Option<_>>()?;
    let mut modes = BTreeMap::new();
    for name in ["leaf", "chained", "no_grad"] {
        if let Some(found) = json.get(name).filter(|mode| mode.get("error").is_none()) {
            modes.insert(name.to_owned(), mode(found));
        }
    }
    Some(Probe {
        operator: json["op"].as_str()?.to_owned(),
        dtype: json["dtype"].as_str()?.to_owned(),
        size: json["size"].as_str()?.to_owned(),
        arguments,
        modes,
    })
}

fn argument(json: &Json) -> Option<Argument> {
    Some(Argument {
        shape: integers(&json[0]),
        dtype: Dtype::from_name(json[1].as_str()?)?,
        role: json[2].as_str()?.to_owned(),
        layout: json.get(3).and_then(Json::as_str).map(str::to_owned),
    })
}

fn integers(json: &Json) -> Vec<i64> {
    json.as_array().map(|list| list.iter().filter_map(Json::as_i64).collect()).unwrap_or_default()
}

fn mode(json: &Json) -> Mode {
    let mut parts = BTreeMap::new();
    for name in ["forward", "drop_inputs", "chain", "drop_outputs", "grad_outputs", "backward"] {
        if let Some(events) = json.get(name).and_then(Json::as_array) {
            parts.insert(name.to_owned(), events.iter().map(event).collect());
        }
    }
    let outputs = json["outputs"].as_array().map_or_else(Vec::new, |list| {
        list.iter()
            .filter_map(|one| Some((integers(&one[0]), integers(&one[1]), Dtype::from_name(one[2].as_str()?)?)))
            .collect()
    });
    Mode { parts, outputs }
}

fn event(json: &Json) -> String {
    if json[0] == "+" {
        return format!("+{}", json[1]);
    }
    json[1].as_str().map_or_else(|| format!("-#{}", json[1]), |name| format!("-{name}"))
}
