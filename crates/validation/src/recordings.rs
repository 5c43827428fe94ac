//! The recorded snapshots and what PyTorch itself reported of the same runs.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::DeserializeOwned;
use vramfit_trace::read::read_file;
use vramfit_trace::snapshot::Snapshot;

/// What went wrong while loading, in words.
pub type Result<T> = std::result::Result<T, String>;

/// What PyTorch reported of a recorded run.
#[derive(Clone, Debug, Deserialize)]
pub struct Report {
    /// `PYTORCH_CUDA_ALLOC_CONF` of the run.
    pub alloc_conf: String,
    /// The GPU's memory.
    pub total_memory: u64,
    /// The cap of the run.
    pub cap_bytes: Option<u64>,
    /// How the history was recorded; absent where the program did it itself.
    pub history: Option<serde_json::Value>,
    /// `max_memory_allocated` over the whole run.
    pub peak_allocated: u64,
    /// `max_memory_reserved` over the whole run.
    pub peak_reserved: u64,
    /// `memory_stats()` at the end.
    pub stats: BTreeMap<String, i64>,
    /// `memory_summary()` at the end.
    pub summary: String,
    /// The error that ended the run.
    pub oom: Option<OomReport>,
}

/// An out-of-memory error as PyTorch reported it.
#[derive(Clone, Debug, Deserialize)]
pub struct OomReport {
    /// The exception's class.
    pub r#type: String,
    /// Its text.
    pub text: String,
    /// `memory_stats()` when it was raised.
    pub stats: BTreeMap<String, i64>,
}

/// A recording: its name, the snapshot, and PyTorch's own report.
#[derive(Debug)]
pub struct Recording {
    /// Such as `bert.expandable`.
    pub name: String,
    /// The snapshot.
    pub snapshot: Snapshot,
    /// PyTorch's report.
    pub report: Report,
}

impl Recording {
    /// Loads the recording `name`.
    ///
    /// # Errors
    /// A file is missing or cannot be read.
    pub fn load(name: &str) -> Result<Recording> {
        let path = folder().join(format!("{name}.pickle.gz"));
        let snapshot = read_file(&path, &mut |_, _| {}).map_err(|error| format!("{}: {error}", path.display()))?;
        let report = read_json(&folder().join(format!("{name}.json")))?;
        Ok(Recording { name: name.to_owned(), snapshot, report })
    }

    /// Whether the history holds everything the process ever allocated, so that its statistics can be compared.
    pub fn is_complete(&self) -> bool {
        let limit = self.report.history.as_ref().and_then(|history| history["max_entries"].as_u64());
        let events = self.snapshot.devices.iter().map(|device| device.events.len() as u64).max().unwrap_or(0);
        limit.is_some_and(|limit| events < limit)
    }
}

/// A run of which only the peaks were kept.
#[derive(Clone, Debug, Deserialize)]
pub struct Run {
    /// The training or incident.
    pub case: String,
    /// The settings, by name; empty for PyTorch's defaults.
    pub label: String,
    /// `PYTORCH_CUDA_ALLOC_CONF` of the run.
    pub alloc_conf: String,
    /// The cap of the run.
    pub cap: Option<u64>,
    /// `max_memory_allocated`.
    pub peak_allocated: u64,
    /// `max_memory_reserved`.
    pub peak_reserved: u64,
    /// Allocations that failed, also those the program survived.
    pub failed_requests: Vec<u64>,
    /// Whether an out-of-memory error ended the run.
    pub oom: bool,
}

/// All runs, and the machine they were made on.
#[derive(Clone, Debug, Deserialize)]
pub struct Peaks {
    /// The GPU's name.
    pub gpu: String,
    /// The GPU's memory.
    pub total_memory: u64,
    /// PyTorch's version.
    pub torch: String,
    /// The runs.
    pub runs: Vec<Run>,
}

/// The folder of the recordings.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../validation/recordings")
}

/// The names of all recordings, in order.
///
/// # Errors
/// The folder cannot be read.
pub fn names() -> Result<Vec<String>> {
    let entries = fs::read_dir(folder()).map_err(|error| format!("{}: {error}", folder().display()))?;
    let mut names: Vec<String> = entries
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter_map(|name| name.strip_suffix(".pickle.gz").map(ToOwned::to_owned))
        .collect();
    names.sort();
    Ok(names)
}

/// The peaks of all runs.
///
/// # Errors
/// The file cannot be read.
pub fn peaks() -> Result<Peaks> {
    read_json(&folder().join("peaks.json"))
}

fn read_json<T: DeserializeOwned>(path: &Path) -> Result<T> {
    let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    serde_json::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))
}
