//! The configuration of Accelerate for a training on several GPUs.

use vramfit_eager::forward::chosen_modules;
use vramfit_graph::bind::Bound;
use vramfit_graph::dtype::Dtype;
use vramfit_training::script::{AfterForward, Parallel, Sharded};

use crate::setup::Setup;
use crate::workbench::Workbench;

/// How what Accelerate 1.15 does with a file for FSDP2 differs from the printed code.
const OTHER_GROUPS: [&str; 2] = [
    "# Accelerate shards the embedding, and the last norm with the head, as groups of their own.",
    "# So its memory may differ from the plan's, which is that of the printed code.",
];

/// The file for `accelerate launch --config_file`; `None` for one GPU, and for what Accelerate has no settings for.
pub(super) fn configuration(bench: &Workbench<'_>, bound: &Bound<'_>, setup: &Setup) -> Option<String> {
    let training = &setup.training;
    let (kind, own) = match &training.parallel {
        Parallel::None | Parallel::Tensor(_) | Parallel::DeepSpeed(_) => return None,
        Parallel::Replicated(settings) if settings.splits_optimizer => return None,
        Parallel::Replicated(_) => ("MULTI_GPU", Vec::new()),
        Parallel::Sharded(settings) => ("FSDP", shards(bound, settings)?),
    };
    let machines = bench.cluster.map_or(1, |cluster| cluster.nodes);
    let precision = match (setup.variant.amp, &training.parallel) {
        (Some(Dtype::Bfloat16), _) => "bf16",
        (Some(Dtype::Float16), _) => "fp16",
        (_, Parallel::Sharded(Sharded { param_dtype: Some(Dtype::Bfloat16), .. })) => "bf16",
        (_, Parallel::Sharded(Sharded { param_dtype: Some(Dtype::Float16), .. })) => "fp16",
        _ => "\"no\"",
    };
    let mut lines = Vec::new();
    if !own.is_empty() {
        lines.extend(OTHER_GROUPS.map(str::to_owned));
    }
    lines.extend(["compute_environment: LOCAL_MACHINE".to_owned(), format!("distributed_type: {kind}")]);
    lines.extend(own);
    lines.extend([
        "machine_rank: 0".to_owned(),
        format!("mixed_precision: {precision}"),
        format!("num_machines: {machines}"),
        format!("num_processes: {}", training.parallel.world()),
        "rdzv_backend: static".to_owned(),
        "use_cpu: false".to_owned(),
    ]);
    Some(lines.join("\n") + "\n")
}

/// The part about FSDP. Accelerate wraps by class, and has no settings for replicas of a sharded model.
fn shards(bound: &Bound<'_>, settings: &Sharded) -> Option<Vec<String>> {
    if settings.replicas > 1 {
        return None;
    }
    let modules = chosen_modules(bound, &settings.modules, "--shard").ok()?;
    let mut classes: Vec<&str> = modules.iter().map(|&module| bound.model.modules[module].class.as_str()).collect();
    classes.sort_unstable();
    classes.dedup();
    let freed = match settings.after_forward {
        AfterForward::Kept => "false".to_owned(),
        AfterForward::Freed | AfterForward::FreedButRoot => "true".to_owned(),
        AfterForward::Split(ranks) => ranks.to_string(),
    };
    let mut lines = vec!["fsdp_config:".to_owned()];
    if classes.is_empty() {
        lines.push("  fsdp_auto_wrap_policy: NO_WRAP".to_owned());
    } else {
        lines.push("  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP".to_owned());
        lines.push(format!("  fsdp_transformer_layer_cls_to_wrap: {}", classes.join(",")));
    }
    lines.extend([
        format!("  fsdp_offload_params: {}", settings.offloads),
        format!("  fsdp_reshard_after_forward: {freed}"),
        "  fsdp_state_dict_type: SHARDED_STATE_DICT".to_owned(),
        "  fsdp_version: 2".to_owned(),
    ]);
    Some(lines)
}
