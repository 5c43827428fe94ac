//! The flags of a training on several GPUs.

use std::path::PathBuf;

use clap::Args;

use vramfit_training::script::ZeroStage;

use super::values::{CheckpointChoice, ModelDtype, parse_checkpoint};

/// Help heading.
const RANKS: &str = "Several GPUs";

/// How the training is spread over GPUs; one rank of it is simulated.
#[derive(Args, Debug)]
pub struct RankFlags {
    /// How the training is spread: none, ddp (DistributedDataParallel), zero1 (ddp with ZeroRedundancyOptimizer), fsdp2 (fully_shard),
    /// hsdp:RxS (R replicas, each sharded over S GPUs), tp (parallelize_module on the linear layers of attention and MLP), or deepspeed:STAGE
    /// (DeepSpeed's engine with ZeRO stage 1, 2 or 3). --batch is that of one GPU.
    #[arg(long, value_name = "HOW", default_value = "none", value_parser = parse_parallel, help_heading = RANKS)]
    pub parallel: ParallelWay,
    /// How many GPUs there are, up to 100000.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000), help_heading = RANKS)]
    pub world: Option<u32>,
    /// What fully_shard is called on, beside the root: blocks (each repeated block), none, or module names and patterns with commas between
    /// [default: blocks].
    #[arg(long, value_name = "MODULES", value_parser = parse_shard, help_heading = RANKS)]
    pub shard: Option<CheckpointChoice>,
    /// fully_shard's reshard_after_forward: true, false, or a number of GPUs [default: true, but false for the root].
    #[arg(long, value_name = "WHAT", value_parser = parse_reshard, help_heading = RANKS)]
    pub reshard_after_forward: Option<Reshard>,
    /// The type that sharded modules compute in; their weights are stored as --dtype says.
    #[arg(long, value_enum, ignore_case = true, value_name = "DTYPE", help_heading = RANKS)]
    pub param_dtype: Option<ModelDtype>,
    /// The type that sharded gradients are reduced in [default: the type that modules compute in].
    #[arg(long, value_enum, ignore_case = true, value_name = "DTYPE", help_heading = RANKS)]
    pub reduce_dtype: Option<ModelDtype>,
    /// Keep sharded weights, gradients and optimizer state in the CPU's memory.
    #[arg(long, help_heading = RANKS)]
    pub cpu_offload: bool,
    /// ddp's gradient_as_bucket_view: gradients are views of the buckets they are reduced in.
    #[arg(long, help_heading = RANKS)]
    pub gradient_as_bucket_view: bool,
    /// ddp's static_graph: the first step learns the graph and reduces all gradients at its end.
    #[arg(long, help_heading = RANKS)]
    pub static_graph: bool,
    /// With --accumulate of at least 2, reduce gradients only in the last micro-batch [default: true for ddp and zero1, false for the others].
    #[arg(long, value_name = "BOOL", action = clap::ArgAction::Set, help_heading = RANKS)]
    pub no_sync: Option<bool>,
    /// DeepSpeed's reduce_bucket_size, in elements, such as 5e8.
    #[arg(long, value_name = "ELEMENTS", value_parser = parse_elements, help_heading = RANKS)]
    pub reduce_bucket_size: Option<Elements>,
    /// DeepSpeed's overlap_comm: reduce gradients, and in stage 3 gather weights, while others compute [default: false; stage 3: true].
    #[arg(long, value_name = "BOOL", action = clap::ArgAction::Set, help_heading = RANKS)]
    pub overlap_comm: Option<bool>,
    /// Whether DeepSpeed's gradient_clipping is above 0 [default: true, as DeepSpeed clips to a norm of 1].
    #[arg(long, value_name = "BOOL", action = clap::ArgAction::Set, help_heading = RANKS)]
    pub gradient_clipping: Option<bool>,
    /// DeepSpeed's stage3_prefetch_bucket_size, in elements [default: 5e7].
    #[arg(long, value_name = "ELEMENTS", value_parser = parse_elements_or_none, help_heading = RANKS)]
    pub stage3_prefetch_bucket_size: Option<Elements>,
    /// DeepSpeed's stage3_max_live_parameters, in elements [default: 1e9].
    #[arg(long, value_name = "ELEMENTS", value_parser = parse_elements_or_none, help_heading = RANKS)]
    pub stage3_max_live_parameters: Option<Elements>,
    /// DeepSpeed's stage3_max_reuse_distance, in elements [default: 1e9].
    #[arg(long, value_name = "ELEMENTS", value_parser = parse_elements_or_none, help_heading = RANKS)]
    pub stage3_max_reuse_distance: Option<Elements>,
    /// DeepSpeed's stage3_param_persistence_threshold, in elements [default: 1e5].
    #[arg(long, value_name = "ELEMENTS", value_parser = parse_elements_or_none, help_heading = RANKS)]
    pub stage3_param_persistence_threshold: Option<Elements>,
    /// DeepSpeed's offload_param in stage 3: keep this GPU's parts of the weights in the CPU's memory.
    #[arg(long, help_heading = RANKS)]
    pub offload_param: bool,
    /// DeepSpeed's own configuration, ds_config.json, in the place of these flags; where it says "auto", they decide.
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath, help_heading = RANKS)]
    pub deepspeed_config: Option<PathBuf>,
    /// What to know about that file.
    #[arg(skip)]
    pub config_notes: Vec<String>,
}

/// A number of elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elements(pub i64);

impl Elements {
    /// More than any GPU has memory for.
    pub const MOST: i64 = 1_000_000_000_000;
}

/// Parses `--reduce-bucket-size`, written as DeepSpeed's configuration writes it.
fn parse_elements(text: &str) -> Result<Elements, String> {
    match parse_elements_or_none(text) {
        Ok(elements) if elements.0 > 0 => Ok(elements),
        _ => Err(format!("found `{text}`, needed a whole number of elements from 1 to 1e12, such as 5e8")),
    }
}

/// Parses the same where nothing is a number of elements, too.
fn parse_elements_or_none(text: &str) -> Result<Elements, String> {
    match text.replace('_', "").parse::<f64>() {
        Ok(number) if number.fract() == 0.0 && (0.0..=Elements::MOST as f64).contains(&number) => {
            Ok(Elements(number as i64))
        }
        _ => Err(format!("found `{text}`, needed a whole number of elements from 0 to 1e12, such as 5e7")),
    }
}

/// The value of `--parallel`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParallelWay {
    /// One process.
    None,
    /// `DistributedDataParallel`.
    Ddp,
    /// The same with `ZeroRedundancyOptimizer`.
    Zero1,
    /// `fully_shard`.
    Fsdp2,
    /// `fully_shard` on several replicas.
    Hsdp {
        /// How many replicas of the model there are.
        replicas: u32,
        /// Over how many GPUs each is sharded.
        shards: u32,
    },
    /// `parallelize_module`.
    Tp,
    /// DeepSpeed's engine.
    DeepSpeed(ZeroStage),
}

impl ParallelWay {
    /// Whether weights are sharded.
    pub fn is_sharded(self) -> bool {
        matches!(self, ParallelWay::Fsdp2 | ParallelWay::Hsdp { .. })
    }
}

impl std::fmt::Display for ParallelWay {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ParallelWay::None => formatter.write_str("none"),
            ParallelWay::Ddp => formatter.write_str("ddp"),
            ParallelWay::Zero1 => formatter.write_str("zero1"),
            ParallelWay::Fsdp2 => formatter.write_str("fsdp2"),
            ParallelWay::Hsdp { replicas, shards } => write!(formatter, "hsdp:{replicas}x{shards}"),
            ParallelWay::Tp => formatter.write_str("tp"),
            ParallelWay::DeepSpeed(stage) => write!(formatter, "deepspeed:{}", stage.number()),
        }
    }
}

/// Parses `--parallel`.
fn parse_parallel(text: &str) -> Result<ParallelWay, String> {
    let ways = "needed none, ddp, zero1, fsdp2, hsdp:RxS, tp or deepspeed:1, :2 or :3";
    let lower = text.to_ascii_lowercase();
    match lower.as_str() {
        "none" => Ok(ParallelWay::None),
        "ddp" => Ok(ParallelWay::Ddp),
        "zero1" => Ok(ParallelWay::Zero1),
        "fsdp2" => Ok(ParallelWay::Fsdp2),
        "tp" => Ok(ParallelWay::Tp),
        "deepspeed:1" => Ok(ParallelWay::DeepSpeed(ZeroStage::One)),
        "deepspeed:2" => Ok(ParallelWay::DeepSpeed(ZeroStage::Two)),
        "deepspeed:3" => Ok(ParallelWay::DeepSpeed(ZeroStage::Three)),
        _ => {
            let sizes = lower.strip_prefix("hsdp:").and_then(|sizes| sizes.split_once('x'));
            let numbers = sizes.and_then(|(replicas, shards)| Some((replicas.parse().ok()?, shards.parse().ok()?)));
            match numbers {
                Some((replicas @ 1..=10_000, shards @ 1..=10_000)) => Ok(ParallelWay::Hsdp { replicas, shards }),
                Some(_) => Err(format!(
                    "found `{text}`, needed at least 1 replica and 1 shard, at most 10000 of each, such as hsdp:2x4"
                )),
                None => Err(format!("found `{text}`, {ways}, such as hsdp:2x4")),
            }
        }
    }
}

/// The value of `--reshard-after-forward`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reshard {
    /// Gathered weights are freed, or kept.
    Always(bool),
    /// They are split over so many GPUs.
    Over(u32),
}

/// Parses `--reshard-after-forward`.
fn parse_reshard(text: &str) -> Result<Reshard, String> {
    match (text.to_ascii_lowercase().as_str(), text.parse()) {
        ("true", _) => Ok(Reshard::Always(true)),
        ("false", _) => Ok(Reshard::Always(false)),
        (_, Ok(ranks)) if ranks > 0 => Ok(Reshard::Over(ranks)),
        _ => Err(format!("found `{text}`, needed true, false or a number of GPUs")),
    }
}

/// Parses `--shard`.
fn parse_shard(text: &str) -> Result<CheckpointChoice, String> {
    match text.starts_with("sequential:") || text.split(',').any(|name| name.trim().is_empty()) {
        true => Err(format!("found `{text}`, needed blocks, none, or names of modules")),
        false => parse_checkpoint(text),
    }
}

/// The GPUs of `plan --gpus`.
#[derive(Args, Debug)]
pub struct ClusterFlags {
    /// Spread the training over so many GPUs of a machine: DDP where that fits, else FSDP2 with and without resharding, or DeepSpeed's
    /// ZeRO. With --nodes at most 4096.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024), help_heading = RANKS)]
    pub gpus: Option<u32>,
    /// How many machines there are, each with --gpus GPUs; HSDP is tried too.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096), help_heading = RANKS)]
    pub nodes: Option<u32>,
    /// How fast a GPU sends to another of its machine: nvlink (250 GB/s), pcie (20 GB/s), or a number of GB/s [default: pcie].
    #[arg(long, value_name = "SPEED", value_parser = parse_speed, help_heading = RANKS)]
    pub link: Option<Speed>,
    /// How fast a GPU sends to another machine: a number of GB/s, or as fast as nvlink (250 GB/s) or pcie (20 GB/s) [default: 12.5, a
    /// network of 100 Gbit/s].
    #[arg(long, value_name = "GB/s", value_parser = parse_speed, help_heading = RANKS)]
    pub network: Option<Speed>,
}

/// Bytes a second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Speed(pub f64);

impl Speed {
    /// That of PCIe, within a machine.
    pub const LINK: Speed = Speed(20e9);
    /// That of a network of 100 Gbit/s.
    pub const NETWORK: Speed = Speed(12.5e9);
}

/// Parses `--link` and `--network`.
fn parse_speed(text: &str) -> Result<Speed, String> {
    let lower = text.to_ascii_lowercase();
    match (lower.as_str(), lower.trim_end_matches("gb/s").trim().parse::<f64>()) {
        ("nvlink", _) => Ok(Speed(250e9)),
        ("pcie", _) => Ok(Speed::LINK),
        (_, Ok(speed)) if speed.is_finite() && speed > 0.0 => Ok(Speed(speed * 1e9)),
        _ => Err(format!("found `{text}`, needed nvlink, pcie or a number of GB/s above 0")),
    }
}
