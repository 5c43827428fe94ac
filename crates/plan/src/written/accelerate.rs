//! The configuration of Accelerate for a training on several GPUs.

use std::collections::BTreeSet;

use vramfit_eager::forward::chosen_modules;
use vramfit_graph::bind::Bound;
use vramfit_graph::dtype::Dtype;
use vramfit_training::script::{Parallel, Reshard, Sharded};

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
    let mut lines = not_in_the_file(&training.parallel, precision);
    lines.extend(["compute_environment: LOCAL_MACHINE".to_owned(), format!("distributed_type: {kind}")]);
    lines.extend(own);
    lines.extend(match machines {
        1 => vec!["machine_rank: 0".to_owned()],
        _ => vec![
            "machine_rank: 0  # 1 on the second machine, and so on".to_owned(),
            "main_process_ip: HOST  # the address of the first machine".to_owned(),
            "main_process_port: 29500".to_owned(),
        ],
    });
    lines.extend([
        format!("mixed_precision: {precision}"),
        format!("num_machines: {machines}"),
        format!("num_processes: {}", training.parallel.world()),
    ]);
    lines.extend(replicas(&training.parallel));
    lines.extend(["rdzv_backend: static".to_owned(), "use_cpu: false".to_owned()]);
    Some(lines.join("\n") + "\n")
}

/// Comments on what Accelerate does otherwise, and on what its file has no keys for.
fn not_in_the_file(parallel: &Parallel, precision: &str) -> Vec<String> {
    match parallel {
        Parallel::Replicated(settings) => {
            let given = [
                ("gradient_as_bucket_view=True", settings.gradients_are_views),
                ("static_graph=True", settings.has_static_graph),
            ];
            let given: Vec<&str> = given.iter().filter(|(_, is_given)| *is_given).map(|(name, _)| *name).collect();
            match given.is_empty() {
                true => Vec::new(),
                false => vec![
                    "# The file has no key for these: they are given in the script, by".to_owned(),
                    format!("# Accelerator(kwargs_handlers=[DistributedDataParallelKwargs({})]).", given.join(", ")),
                ],
            }
        }
        Parallel::Sharded(settings) => {
            let mut lines = OTHER_GROUPS.map(str::to_owned).to_vec();
            if let (Some(computed), Some(reduced)) = (settings.param_dtype, settings.reduce_dtype)
                && computed != reduced
            {
                let (name, reduced) = (computed.name(), reduced.name());
                lines.extend([
                    format!("# With mixed_precision: {precision} it also reduces gradients in {precision}."),
                    "# The plan's types are given in the script, by".to_owned(),
                    "# Accelerator(fsdp_plugin=FullyShardedDataParallelPlugin(mixed_precision_policy=".to_owned(),
                    format!("#     MixedPrecisionPolicy(param_dtype=torch.{name}, reduce_dtype=torch.{reduced})))."),
                ]);
            }
            lines
        }
        Parallel::None | Parallel::Tensor(_) | Parallel::DeepSpeed(_) => Vec::new(),
    }
}

/// The part about replicas of a sharded model.
fn replicas(parallel: &Parallel) -> Vec<String> {
    match parallel {
        Parallel::Sharded(settings) if settings.replicas > 1 => vec![
            "parallelism_config:".to_owned(),
            "  parallelism_config_cp_size: 1".to_owned(),
            format!("  parallelism_config_dp_replicate_size: {}", settings.replicas),
            format!("  parallelism_config_dp_shard_size: {}", settings.shards),
            "  parallelism_config_tp_size: 1".to_owned(),
        ],
        _ => Vec::new(),
    }
}

/// The part about FSDP; `None` where Accelerate cannot do the same: it wraps all modules of a class, and splits gathered weights over
/// the GPUs that they are sharded over or not at all.
fn shards(bound: &Bound<'_>, settings: &Sharded) -> Option<Vec<String>> {
    let chosen = chosen_modules(bound, &settings.modules, "--shard").ok()?;
    let modules = &bound.model.modules;
    let classes: BTreeSet<&str> = chosen.iter().map(|&module| modules[module].class.as_str()).collect();
    let is_wrapped = |module: &usize| *module != 0 && classes.contains(modules[*module].class.as_str());
    let wrapped: BTreeSet<usize> = (0..modules.len()).filter(is_wrapped).collect();
    if chosen.iter().copied().filter(|module| *module != 0).collect::<BTreeSet<usize>>() != wrapped {
        return None;
    }
    let is_freed = match settings.reshard(false) {
        Reshard::No => false,
        Reshard::Yes => true,
        Reshard::Over(_) => return None,
    };
    let mut lines = vec!["fsdp_config:".to_owned()];
    if classes.is_empty() {
        lines.push("  fsdp_auto_wrap_policy: NO_WRAP".to_owned());
    } else {
        lines.push("  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP".to_owned());
        let classes: Vec<&str> = classes.into_iter().collect();
        lines.push(format!("  fsdp_transformer_layer_cls_to_wrap: {}", classes.join(",")));
    }
    lines.extend([
        format!("  fsdp_offload_params: {}", settings.offloads),
        format!("  fsdp_reshard_after_forward: {is_freed}"),
        "  fsdp_state_dict_type: SHARDED_STATE_DICT".to_owned(),
        "  fsdp_version: 2".to_owned(),
    ]);
    Some(lines)
}
