//! The settings of a training on several GPUs.

use serde::Serialize;
use vramfit_graph::dtype::Dtype;
use vramfit_training::script::{AfterForward, Parallel, ZeroStage};

use super::{checkpoint, yes_or_no};

/// The settings of a training on several GPUs. A key is the name of the flag that sets it, with underscores.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct RankSettingsReport {
    /// `none`, `ddp`, `zero1`, `fsdp2`, `hsdp:RxS`, `tp` or `deepspeed:STAGE`.
    parallel: String,
    /// How many GPUs there are.
    world: u32,
    /// What is sharded beside the root: `none`, `blocks`, or module names with commas between.
    shard: String,
    /// `default`, `true`, `false`, or a number of GPUs.
    reshard_after_forward: String,
    /// The type that sharded modules compute in, or `none`.
    param_dtype: String,
    /// The type that sharded gradients are reduced in, or `none`.
    reduce_dtype: String,
    /// Whether sharded weights, gradients and optimizer state are in the CPU's memory.
    cpu_offload: bool,
    /// Whether gradients are views of the buckets they are reduced in.
    gradient_as_bucket_view: bool,
    /// Whether the graph is said to stay the same.
    static_graph: bool,
    /// Whether only the last micro-batch of a step reduces gradients.
    no_sync: bool,
    /// Elements of DeepSpeed's bucket of gradients; 0 without DeepSpeed.
    reduce_bucket_size: i64,
    /// Whether DeepSpeed reduces gradients while others are computed.
    overlap_comm: bool,
    /// Whether DeepSpeed clips gradients.
    gradient_clipping: bool,
    /// Elements that stage 3 of DeepSpeed gathers ahead at a time; null without it, as the next three.
    stage3_prefetch_bucket_size: Option<i64>,
    /// Beyond so many gathered elements it gathers none ahead.
    stage3_max_live_parameters: Option<i64>,
    /// A weight that is used again within so many elements is not freed.
    stage3_max_reuse_distance: Option<i64>,
    /// Weights of at most so many elements stay gathered from update to update.
    stage3_param_persistence_threshold: Option<i64>,
    /// Whether stage 3 of DeepSpeed keeps this GPU's parts of the weights in the CPU's memory.
    offload_param: bool,
}

impl RankSettingsReport {
    pub fn new(parallel: &Parallel) -> RankSettingsReport {
        let none = RankSettingsReport {
            parallel: how_spread(parallel),
            world: parallel.world(),
            shard: "none".to_owned(),
            reshard_after_forward: "default".to_owned(),
            param_dtype: "none".to_owned(),
            reduce_dtype: "none".to_owned(),
            cpu_offload: false,
            gradient_as_bucket_view: false,
            static_graph: false,
            no_sync: parallel.skips_sync(),
            reduce_bucket_size: 0,
            overlap_comm: false,
            gradient_clipping: false,
            stage3_prefetch_bucket_size: None,
            stage3_max_live_parameters: None,
            stage3_max_reuse_distance: None,
            stage3_param_persistence_threshold: None,
            offload_param: false,
        };
        let dtype = |dtype: Option<Dtype>| dtype.map_or("none", Dtype::short_name).to_owned();
        match parallel {
            Parallel::None | Parallel::Tensor(_) => none,
            Parallel::DeepSpeed(settings) => {
                // DeepSpeed has no such setting: stage 1 reduces in the last micro-batch, the others in each.
                let no_sync = false;
                let engine = RankSettingsReport {
                    reduce_bucket_size: settings.bucket,
                    overlap_comm: settings.overlaps,
                    gradient_clipping: settings.clips,
                    no_sync,
                    ..none
                };
                if settings.stage != ZeroStage::Three {
                    return engine;
                }
                RankSettingsReport {
                    stage3_prefetch_bucket_size: Some(settings.gathering.ahead),
                    stage3_max_live_parameters: Some(settings.gathering.live),
                    stage3_max_reuse_distance: Some(settings.gathering.reuse_distance),
                    stage3_param_persistence_threshold: Some(settings.gathering.persistent),
                    offload_param: settings.offloads_weights,
                    ..engine
                }
            }
            Parallel::Replicated(settings) => RankSettingsReport {
                gradient_as_bucket_view: settings.gradients_are_views,
                static_graph: settings.has_static_graph,
                ..none
            },
            Parallel::Sharded(settings) => RankSettingsReport {
                shard: checkpoint(&settings.modules),
                reshard_after_forward: match settings.after_forward {
                    AfterForward::FreedButRoot => "default".to_owned(),
                    AfterForward::Freed => "true".to_owned(),
                    AfterForward::Kept => "false".to_owned(),
                    AfterForward::Split(ranks) => ranks.to_string(),
                },
                param_dtype: dtype(settings.param_dtype),
                reduce_dtype: dtype(settings.reduce_dtype),
                cpu_offload: settings.offloads,
                ..none
            },
        }
    }

    /// Names and values for a page.
    pub fn rows(&self) -> [(&'static str, String); 18] {
        let elements = |elements: Option<i64>| elements.map_or("none".to_owned(), |elements| elements.to_string());
        [
            ("parallel", self.parallel.clone()),
            ("world", self.world.to_string()),
            ("shard", self.shard.clone()),
            ("reshard after forward", self.reshard_after_forward.clone()),
            ("param dtype", self.param_dtype.clone()),
            ("reduce dtype", self.reduce_dtype.clone()),
            ("cpu offload", yes_or_no(self.cpu_offload)),
            ("gradient as bucket view", yes_or_no(self.gradient_as_bucket_view)),
            ("static graph", yes_or_no(self.static_graph)),
            ("no sync", yes_or_no(self.no_sync)),
            ("reduce bucket size", self.reduce_bucket_size.to_string()),
            ("overlap comm", yes_or_no(self.overlap_comm)),
            ("gradient clipping", yes_or_no(self.gradient_clipping)),
            ("stage3 prefetch bucket size", elements(self.stage3_prefetch_bucket_size)),
            ("stage3 max live parameters", elements(self.stage3_max_live_parameters)),
            ("stage3 max reuse distance", elements(self.stage3_max_reuse_distance)),
            ("stage3 param persistence threshold", elements(self.stage3_param_persistence_threshold)),
            ("offload param", yes_or_no(self.offload_param)),
        ]
    }

    /// How it is spread, in words; `None` where it is not.
    pub fn words(&self) -> Option<String> {
        let computed = match self.param_dtype.as_str() {
            "none" => String::new(),
            dtype => format!(", computing in {dtype}"),
        };
        let gpus = if self.world == 1 { "one GPU".to_owned() } else { format!("one of {} GPUs", self.world) };
        (self.parallel != "none").then(|| format!("{gpus} with {}{computed}", self.parallel))
    }
}

/// `--parallel`, as it is written.
pub(crate) fn how_spread(parallel: &Parallel) -> String {
    match parallel {
        Parallel::None => "none".to_owned(),
        Parallel::Replicated(settings) if settings.splits_optimizer => "zero1".to_owned(),
        Parallel::Replicated(_) => "ddp".to_owned(),
        Parallel::Sharded(settings) if settings.replicas == 1 => "fsdp2".to_owned(),
        Parallel::Sharded(settings) => format!("hsdp:{}x{}", settings.replicas, settings.shards),
        Parallel::Tensor(_) => "tp".to_owned(),
        Parallel::DeepSpeed(settings) => format!("deepspeed:{}", settings.stage.number()),
    }
}
