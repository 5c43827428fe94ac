//! What was measured of whole training steps, and their recorded traces.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};

use crate::recordings::Result;

/// All measured cases.
#[derive(Debug)]
pub struct Measured {
    /// By name.
    pub cases: BTreeMap<String, Case>,
}

/// The parts of cases that are one rank of several.
pub const RANKS: RangeInclusive<u32> = 5..=7;

/// A measured case.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Case {
    /// The model, which is its capture's name.
    pub model: String,
    /// 1 for transformers and MLPs, 2 for convolutions and recurrent models, [`RANKS`] for one rank of several.
    pub part: u32,
    /// The settings, named as the flags of `vramfit estimate`.
    pub settings: CaseSettings,
    /// `max_memory_allocated` after the build phase.
    #[serde(default)]
    pub peak_allocated: u64,
    /// `max_memory_reserved` after the build phase.
    #[serde(default)]
    pub peak_reserved: u64,
    /// The phases in order.
    #[serde(default)]
    pub phases: Vec<MeasuredPhase>,
    /// What differs from run to run.
    #[serde(default)]
    pub runs: Vec<MeasuredRun>,
    /// The same under caps on what PyTorch may reserve.
    #[serde(default)]
    pub caps: Vec<Trial>,
}

/// One of several runs of a case.
#[derive(Clone, Debug, Deserialize)]
pub struct MeasuredRun {
    /// nvidia-smi's figure for the process at its end.
    pub device_used: Option<u64>,
}

impl Case {
    /// Whether it is one rank of several, and ran.
    pub fn is_rank(&self) -> bool {
        RANKS.contains(&self.part) && !self.phases.is_empty()
    }

    /// What nvidia-smi showed for the process when the last step had ended.
    pub fn device_used(&self) -> Option<u64> {
        self.runs.iter().find_map(|run| run.device_used)
    }
}

/// A run under a cap.
#[derive(Clone, Debug, Deserialize)]
pub struct Trial {
    /// The cap in percent of the peak reserved without one.
    pub percent: u32,
    /// The cap, in bytes.
    pub cap: u64,
    /// The error that ended it.
    #[serde(rename = "died")]
    pub failure: Option<TrialFailure>,
    /// The phases that completed.
    pub phases: Vec<MeasuredPhase>,
}

/// The out-of-memory error that ended a run.
#[derive(Clone, Debug, Deserialize)]
pub struct TrialFailure {
    /// Its message.
    pub text: String,
    /// The statistics of the phase it happened in.
    pub stats: BTreeMap<String, u64>,
}

/// A case's settings.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct CaseSettings {
    /// `--batch`.
    pub batch: i64,
    /// `--seq`.
    pub seq: Option<i64>,
    /// `--dtype`.
    pub dtype: String,
    /// `--amp`.
    pub amp: String,
    /// `--optimizer`.
    pub optimizer: String,
    /// `--optimizer-impl`.
    pub optimizer_impl: String,
    /// `--clip-grad`.
    pub clip_grad: bool,
    /// `--accumulate`.
    pub accumulate: u32,
    /// `--checkpoint`.
    pub checkpoint: String,
    /// `--zero-grad`.
    pub zero_grad: String,
    /// `--set-to-none`.
    pub set_to_none: bool,
    /// `--mode`.
    pub mode: String,
    /// `--grad`.
    pub grad: bool,
    /// `--inputs`.
    pub inputs: String,
    /// `--offload-activations`.
    #[serde(default)]
    pub offload_activations: String,
    /// `--channels-last`.
    #[serde(default)]
    pub channels_last: bool,
    /// `--fused-attention`.
    #[serde(default)]
    pub fused_attention: bool,
    /// `--checkpoint-save`.
    #[serde(default)]
    pub checkpoint_save: String,
    /// `--chunked-loss`.
    #[serde(default)]
    pub chunked_loss: u32,
    /// `--fused-linear-loss`.
    #[serde(default)]
    pub fused_linear_loss: String,
    /// `--ema`.
    #[serde(default)]
    pub ema: bool,
    /// `--freeze`.
    #[serde(default)]
    pub freeze: String,
    /// `--optimizer-groups`; empty for one group of all weights.
    #[serde(default)]
    pub optimizer_groups: String,
    /// `--step-in-backward`.
    #[serde(default)]
    pub step_in_backward: bool,
    /// `--optimizer-state`; empty for the GPU.
    #[serde(default)]
    pub optimizer_state: String,
    /// How the training is spread over ranks.
    #[serde(flatten)]
    pub ranks: RankSettings,
}

/// How the training of a case is spread over ranks; all empty where it is not.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct RankSettings {
    /// `--parallel`.
    pub parallel: String,
    /// `--world`.
    pub world: u32,
    /// `--shard`.
    pub shard: String,
    /// `--reshard-after-forward`.
    pub reshard_after_forward: String,
    /// `--param-dtype`.
    pub param_dtype: String,
    /// `--reduce-dtype`.
    pub reduce_dtype: String,
    /// `--cpu-offload`.
    pub cpu_offload: bool,
    /// `--gradient-as-bucket-view`.
    pub gradient_as_bucket_view: bool,
    /// `--static-graph`.
    pub static_graph: bool,
    /// `--no-sync`.
    pub no_sync: String,
    /// `--reduce-bucket-size`.
    pub reduce_bucket_size: i64,
    /// `--overlap-comm`.
    pub overlap_comm: String,
    /// `--gradient-clipping`.
    pub gradient_clipping: String,
    /// The `--stage3-` flags, as keys with commas between.
    pub stage3: String,
}

/// A measured phase.
#[derive(Clone, Debug, Deserialize)]
pub struct MeasuredPhase {
    /// The step; absent in the build phase.
    pub step: Option<u32>,
    /// `build`, `forward`, `backward`, `step` or `eval`.
    pub phase: String,
    /// Allocated at its end.
    pub allocated: u64,
    /// Peak allocated bytes within it.
    pub peak: u64,
    /// Reserved at its end.
    pub reserved: u64,
    /// Peak reserved bytes within it.
    #[serde(default)]
    pub peak_reserved: u64,
}

/// A recorded trace, stored as columns.
#[derive(Debug, Deserialize)]
pub struct RecordedTrace {
    /// One letter per event.
    pub actions: String,
    /// One letter per event: `m` for the main thread, `b` for autograd's.
    pub threads: String,
    /// Bytes as requested.
    pub sizes: Vec<u64>,
    /// In units of 512 bytes; 0 for a request that failed.
    #[serde(deserialize_with = "addresses")]
    pub addresses: Vec<u64>,
    /// The CUDA stream of each event; empty where all are on one.
    #[serde(default)]
    pub streams: Vec<u64>,
    /// Index into `stack_table`.
    pub stacks: Vec<usize>,
    /// The frames.
    pub frames: Vec<String>,
    /// Stacks as indices of frames, innermost first.
    pub stack_table: Vec<Vec<usize>>,
    /// The phase of this name ends before the event at this position.
    pub marks: Vec<(String, usize)>,
}

fn addresses<'de, D: Deserializer<'de>>(input: D) -> std::result::Result<Vec<u64>, D::Error> {
    let all = Vec::<Option<u64>>::deserialize(input)?;
    Ok(all.into_iter().map(Option::unwrap_or_default).collect())
}

/// The root of the checkout's `validation` folder.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../validation")
}

/// All measured cases.
///
/// # Errors
/// The file cannot be read.
pub fn measured() -> Result<Measured> {
    let raw: RawMeasured = read_compressed(&folder().join("measured/measured.json.gz"))?;
    // A case that PyTorch itself refuses has an error and no numbers.
    let cases = raw.cases.into_iter().filter(|(_, case)| case.get("phases").is_some());
    let parse = |(name, case)| serde_json::from_value(case).map(|case| (name, case)).map_err(|error| error.to_string());
    Ok(Measured { cases: cases.map(parse).collect::<Result<_>>()? })
}

#[derive(Deserialize)]
struct RawMeasured {
    cases: BTreeMap<String, serde_json::Value>,
}

/// The recorded trace of a case.
///
/// # Errors
/// The file cannot be read.
pub fn trace(name: &str) -> Result<RecordedTrace> {
    read_compressed(&folder().join(format!("measured/traces/{name}.json.gz")))
}

/// What a compressed JSON file holds.
///
/// # Errors
/// The file cannot be read.
pub fn read_compressed<T: DeserializeOwned>(path: &Path) -> Result<T> {
    let fail = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let mut text = String::new();
    let file = File::open(path).map_err(|error| fail(&error))?;
    GzDecoder::new(file).read_to_string(&mut text).map_err(|error| fail(&error))?;
    serde_json::from_str(&text).map_err(|error| fail(&error))
}
