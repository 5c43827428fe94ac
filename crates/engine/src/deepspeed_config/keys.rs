//! The keys of DeepSpeed 0.19's configuration, and what each has to do with the GPU's memory.

use serde_json::{Map, Value};

/// What becomes of a key.
#[derive(Clone, Copy, Debug)]
pub(super) enum Rule {
    /// It is a setting of the simulation.
    Read,
    /// The GPU's memory does not depend on it.
    NoMemory,
    /// Memory depends on it: only this value, written as JSON, is simulated.
    Only(&'static str),
    /// The same for a part whose `enabled` has to be false.
    Disabled,
    /// The same for a part that must not set anything.
    Empty,
    /// It has keys of its own.
    Part(Keys),
}

type Keys = &'static [(&'static str, Rule)];

use Rule::{Disabled, Empty, NoMemory, Only, Part, Read};

/// The whole file.
pub(super) const FILE: Keys = &[
    ("train_batch_size", Read),
    ("train_micro_batch_size_per_gpu", Read),
    ("gradient_accumulation_steps", Read),
    ("gradient_clipping", Read),
    ("zero_optimization", Part(ZERO)),
    ("bf16", Part(BF16)),
    ("bfloat16", Part(BF16)),
    ("fp16", Part(FP16)),
    ("optimizer", Part(OPTIMIZER)),
    ("activation_checkpointing", Part(ACTIVATION_CHECKPOINTING)),
    ("scheduler", NoMemory),
    ("steps_per_print", NoMemory),
    ("wall_clock_breakdown", NoMemory),
    ("memory_breakdown", NoMemory),
    ("dump_state", NoMemory),
    ("disable_python_gc", NoMemory),
    ("tensorboard", NoMemory),
    ("wandb", NoMemory),
    ("comet", NoMemory),
    ("csv_monitor", NoMemory),
    ("comms_logger", NoMemory),
    ("flops_profiler", NoMemory),
    ("timers", NoMemory),
    ("log_level", NoMemory),
    ("autotuning", NoMemory),
    ("elasticity", NoMemory),
    ("aio", NoMemory),
    ("checkpoint", NoMemory),
    ("datastates", NoMemory),
    ("nebula", NoMemory),
    ("dataloader_drop_last", NoMemory),
    ("zero_allow_untested_optimizer", NoMemory),
    ("zero_force_ds_cpu_optimizer", NoMemory),
    ("gradient_predivide_factor", NoMemory),
    ("gradient_allreduce_op", NoMemory),
    ("seq_parallel_communication_data_type", NoMemory),
    ("prescale_gradients", Only("false")),
    ("sparse_gradients", Only("false")),
    ("fp32_allreduce", Only("false")),
    ("disable_allgather", Only("false")),
    ("communication_data_type", Only("null")),
    ("managed_gradient_accumulation", Only("true")),
    ("amp", Disabled),
    ("torch_autocast", Disabled),
    ("hybrid_engine", Disabled),
    ("progressive_layer_drop", Disabled),
    ("eigenvalue", Disabled),
    ("curriculum_learning", Disabled),
    ("data_efficiency", Disabled),
    ("data_types", Empty),
    ("compression_training", Empty),
    ("weight_quantization", Empty),
    ("sparse_attention", Empty),
    ("compile", Empty),
    ("pipeline", Empty),
    ("tensor_parallel", Empty),
    ("expert_parallel", Empty),
];

/// Keys of ZeRO, with the names that they also have without `stage3_`.
const ZERO: Keys = &[
    ("stage", Read),
    ("reduce_bucket_size", Read),
    ("overlap_comm", Read),
    ("offload_optimizer", Part(OFFLOAD_OPTIMIZER)),
    ("offload_param", Part(OFFLOAD_PARAM)),
    ("stage3_prefetch_bucket_size", Read),
    ("prefetch_bucket_size", Read),
    ("stage3_param_persistence_threshold", Read),
    ("param_persistence_threshold", Read),
    ("stage3_max_live_parameters", Read),
    ("max_live_parameters", Read),
    ("stage3_max_reuse_distance", Read),
    ("max_reuse_distance", Read),
    ("allgather_bucket_size", NoMemory),
    ("load_from_fp32_weights", NoMemory),
    ("elastic_checkpoint", NoMemory),
    ("ignore_unused_parameters", NoMemory),
    ("legacy_stage1", NoMemory),
    ("pipeline_loading_checkpoint", NoMemory),
    ("log_trace_cache_warnings", NoMemory),
    ("cpu_offload_use_pin_memory", NoMemory),
    ("stage3_gather_16bit_weights_on_model_save", NoMemory),
    ("gather_16bit_weights_on_model_save", NoMemory),
    ("stage3_gather_fp16_weights_on_model_save", NoMemory),
    ("contiguous_gradients", Only("true")),
    ("reduce_scatter", Only("true")),
    ("use_multi_rank_bucket_allreduce", Only("true")),
    ("allgather_partitions", Only("true")),
    ("compute_grad_norm", Only("true")),
    ("round_robin_gradients", Only("false")),
    ("parameter_alignment", Only("false")),
    ("sub_group_size", Only("1e9")),
    ("stage3_model_persistence_threshold", Only("9223372036854775807")),
    ("model_persistence_threshold", Only("9223372036854775807")),
    ("stage3_module_granularity_threshold", Only("0")),
    ("module_granularity_threshold", Only("0")),
    ("stage3_use_all_reduce_for_fetch_params", Only("false")),
    ("use_all_reduce_for_fetch_params", Only("false")),
    ("stage3_allgather_sequential", Only("false")),
    ("allgather_sequential", Only("false")),
    ("memory_efficient_linear", Only("true")),
    ("override_module_apply", Only("true")),
    ("zero_hpz_partition_size", Only("1")),
    ("zero_quantized_weights", Only("false")),
    ("zero_quantized_nontrainable_weights", Only("false")),
    ("zero_quantized_gradients", Only("false")),
    ("mics_shard_size", Only("-1")),
    ("mics_hierarchical_params_gather", Only("false")),
    ("enable_sanity_checks", Only("false")),
    ("save_muon_momentum_buffer_in_memory", Only("false")),
    ("cpu_offload", Only("false")),
    ("cpu_offload_param", Only("false")),
    ("zenflow", Only("null")),
    ("zeropp_loco_param", Only("null")),
    ("leaf_module", Empty),
];

const OFFLOAD_OPTIMIZER: Keys = &[
    ("device", Read),
    ("pin_memory", NoMemory),
    ("nvme_path", NoMemory),
    ("buffer_count", NoMemory),
    ("pipeline_read", NoMemory),
    ("pipeline_write", NoMemory),
    ("pipeline", NoMemory),
    ("fast_init", NoMemory),
    ("cpuadam_cores_perc", NoMemory),
    ("ratio", Only("1")),
    ("super_offload", Only("false")),
];

const OFFLOAD_PARAM: Keys = &[
    ("device", Read),
    ("pin_memory", NoMemory),
    ("nvme_path", NoMemory),
    ("buffer_count", NoMemory),
    ("buffer_size", NoMemory),
    ("max_in_cpu", NoMemory),
];

const BF16: Keys = &[
    ("enabled", Read),
    ("immediate_grad_update", NoMemory),
    ("check_grad_overflow", Only("true")),
    ("bf16_master_weights_and_grads", Only("false")),
    ("bf16_optimizer_states", Only("false")),
];

const FP16: Keys = &[
    ("enabled", Read),
    ("loss_scale", NoMemory),
    ("initial_scale_power", NoMemory),
    ("loss_scale_window", NoMemory),
    ("hysteresis", NoMemory),
    ("consecutive_hysteresis", NoMemory),
    ("min_loss_scale", NoMemory),
    ("auto_cast", Only("false")),
    ("fp16_master_weights_and_grads", Only("false")),
];

const OPTIMIZER: Keys = &[("type", Read), ("params", Part(OPTIMIZER_PARAMS)), ("legacy_fusion", NoMemory)];

const OPTIMIZER_PARAMS: Keys = &[
    ("torch_adam", Read),
    ("adam_w_mode", Read),
    ("weight_decay", Read),
    ("lr", NoMemory),
    ("betas", NoMemory),
    ("eps", NoMemory),
    ("bias_correction", NoMemory),
    ("lr_decay", NoMemory),
    ("initial_accumulator_value", NoMemory),
    ("amsgrad", Only("false")),
    ("set_grad_none", Only("true")),
    ("fp32_optimizer_states", Only("true")),
];

/// `deepspeed.checkpointing`, which a model has to call itself.
const ACTIVATION_CHECKPOINTING: Keys = &[
    ("partition_activations", Only("false")),
    ("cpu_checkpointing", Only("false")),
    ("contiguous_memory_optimization", Only("false")),
    ("number_checkpoints", NoMemory),
    ("synchronize_checkpoint_boundary", NoMemory),
    ("profile", NoMemory),
];

/// What was found beside the settings that are read.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Found {
    /// Keys that the GPU's memory does not depend on.
    pub without_memory: Vec<String>,
    /// Keys that DeepSpeed does not know, and passes over.
    pub unknown: Vec<String>,
    /// Keys that are read and say `"auto"`.
    pub auto: Vec<String>,
}

/// Looks at every key of an object.
///
/// # Errors
/// Why the file cannot be simulated, with the key.
pub(super) fn check(object: &Map<String, Value>, keys: Keys, path: &str, found: &mut Found) -> Result<(), String> {
    for (key, value) in object {
        let name = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
        let Some((_, rule)) = keys.iter().find(|(known, _)| known == key) else {
            // DeepSpeed looks up the keys of the file and of an optimizer, and refuses others of the parts.
            match path {
                "" => found.unknown.push(name),
                "optimizer.params" => return Err(format!("{name}: found a key that is not simulated")),
                _ => return Err(format!("{name}: found a key that DeepSpeed 0.19 does not have")),
            }
            continue;
        };
        let refused = |needed: &str| Err(format!("{name}: found {value}, which is not simulated; needed {needed}"));
        let is_auto = value.is_null() || value == "auto";
        match rule {
            Read if value == "auto" => found.auto.push(name),
            Read => {}
            NoMemory => found.without_memory.push(name),
            Only(needed) if !is_auto && !is_same(value, needed) => return refused(needed),
            Disabled if value["enabled"] == true => return refused("\"enabled\": false"),
            Empty if !is_empty(value) => return refused("no such key"),
            Part(keys) => match value {
                Value::Object(part) => check(part, keys, &name, found)?,
                _ if is_auto => {}
                _ => return Err(format!("{name}: found {value}, needed an object")),
            },
            Only(_) | Disabled | Empty => {}
        }
    }
    Ok(())
}

fn is_same(value: &Value, needed: &str) -> bool {
    let needed: Value = serde_json::from_str(needed).unwrap_or_default();
    match (value.as_f64(), needed.as_f64()) {
        (Some(one), Some(other)) => one == other,
        _ => *value == needed,
    }
}

/// Whether nothing is set anywhere in a part.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Object(parts) => parts.values().all(is_empty),
        Value::Array(parts) => parts.is_empty(),
        Value::Bool(set) => !set,
        _ => value.is_null() || value == "auto",
    }
}
