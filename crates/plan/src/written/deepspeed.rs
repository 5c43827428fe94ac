//! DeepSpeed's configuration, and the loop around its engine.

use serde::Serialize;
use vramfit_graph::dtype::Dtype;
use vramfit_training::script::{DeepSpeed, Gathering, Parallel, StatePlace};

use crate::printed_loop::{Lines, PrintedLoop};
use crate::setup::Setup;
use crate::workbench::Workbench;

/// The name of the file that the printed code reads.
const FILE: &str = "ds_config.json";

/// The keys that differ from DeepSpeed's defaults.
#[derive(Serialize)]
struct Configuration {
    train_micro_batch_size_per_gpu: i64,
    gradient_accumulation_steps: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    bf16: Option<Enabled>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fp16: Option<Enabled>,
    /// 1 is DeepSpeed's default, and 0 clips nothing.
    gradient_clipping: f64,
    zero_optimization: Zero,
    /// PyTorch's optimizers that DeepSpeed has not tested work element by element, too.
    zero_allow_untested_optimizer: bool,
    /// Without it DeepSpeed refuses PyTorch's optimizers on the CPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    zero_force_ds_cpu_optimizer: Option<bool>,
}

#[derive(Serialize)]
struct Enabled {
    enabled: bool,
}

#[derive(Serialize)]
struct Zero {
    stage: u32,
    reduce_bucket_size: i64,
    overlap_comm: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    offload_optimizer: Option<Offload>,
    #[serde(skip_serializing_if = "Option::is_none")]
    offload_param: Option<Offload>,
    #[serde(flatten)]
    gathering: Option<GatheringKeys>,
}

/// The keys of stage 3, where one of them differs from its default.
#[derive(Serialize)]
struct GatheringKeys {
    stage3_prefetch_bucket_size: i64,
    stage3_max_live_parameters: i64,
    stage3_max_reuse_distance: i64,
    stage3_param_persistence_threshold: i64,
}

impl GatheringKeys {
    fn of(gathering: Gathering) -> Option<GatheringKeys> {
        let Gathering { ahead, live, reuse_distance, persistent } = gathering;
        (gathering != Gathering::default()).then_some(GatheringKeys {
            stage3_prefetch_bucket_size: ahead,
            stage3_max_live_parameters: live,
            stage3_max_reuse_distance: reuse_distance,
            stage3_param_persistence_threshold: persistent,
        })
    }
}

#[derive(Serialize)]
struct Offload {
    device: &'static str,
    pin_memory: bool,
}

impl Offload {
    const TO_CPU: Offload = Offload { device: "cpu", pin_memory: true };
}

/// The file; `None` where the training is spread otherwise.
pub(super) fn configuration(bench: &Workbench<'_>, setup: &Setup) -> Option<String> {
    let Parallel::DeepSpeed(settings) = &setup.training.parallel else { return None };
    let DeepSpeed { stage, bucket, overlaps, clips, gathering, offloads_weights, .. } = *settings;
    let offloads = setup.training.optimizer_state == StatePlace::Cpu;
    let dtype = bench.trained_dtype(setup);
    let enabled = |wanted: Dtype| (dtype == Some(wanted)).then_some(Enabled { enabled: true });
    let configuration = Configuration {
        train_micro_batch_size_per_gpu: bench.batch_of(setup).unwrap_or(1),
        gradient_accumulation_steps: setup.training.accumulate.max(1),
        bf16: enabled(Dtype::Bfloat16),
        fp16: enabled(Dtype::Float16),
        gradient_clipping: if clips { 1.0 } else { 0.0 },
        zero_optimization: Zero {
            stage: stage.number(),
            reduce_bucket_size: bucket,
            overlap_comm: overlaps,
            offload_optimizer: offloads.then_some(Offload::TO_CPU),
            offload_param: offloads_weights.then_some(Offload::TO_CPU),
            gathering: GatheringKeys::of(gathering),
        },
        zero_allow_untested_optimizer: true,
        zero_force_ds_cpu_optimizer: offloads.then_some(false),
    };
    serde_json::to_string_pretty(&configuration).ok().map(|text| text + "\n")
}

/// The engine moves the model, counts micro-batches, divides the loss, clips and frees gradients, and updates.
pub(super) fn write(setup: &Setup, code: &mut PrintedLoop) {
    code.imports.once("import deepspeed");
    code.is_moved = true;
    code.after_optimizer = Lines::default();
    code.after_optimizer.line(0, "# The file is printed below.");
    code.after_optimizer.line(0, "model, optimizer, *_ = deepspeed.initialize(");
    code.after_optimizer.line(1, &format!("model=model, optimizer=optimizer, config=\"{FILE}\""));
    code.after_optimizer.line(0, ")");
    for section in [&mut code.start_of_step, &mut code.before_first_backward, &mut code.update] {
        *section = Lines::default();
    }
    let scaling = if setup.training.adds_losses { ", scale_wrt_gas=False" } else { "" };
    code.backward = format!("model.backward(loss{scaling})");
    code.after_backward.line(0, "model.step()");
}
