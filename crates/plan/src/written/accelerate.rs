//! The configuration of Accelerate for a training on several GPUs.
//!
//! What a file's keys mean is read from Accelerate 1.15: `prepare_model`, `fsdp2_prepare_model` and `FullyShardedDataParallelPlugin`.

use std::collections::BTreeSet;

use vramfit_eager::forward::chosen_modules;
use vramfit_graph::bind::Bound;
use vramfit_graph::dtype::Dtype;
use vramfit_training::script::{Parallel, Reshard, Sharded};

use crate::setup::Setup;
use crate::tricks::policy;
use crate::workbench::Workbench;

/// How what Accelerate does with a file for FSDP2 differs from the printed code, and what makes it the same.
const OTHER_GROUPS: [&str; 6] = [
    "# Of a transformers model Accelerate shards the embedding, and the last norm",
    "# with the head, as groups of their own, so its memory may differ from the",
    "# plan's. It leaves a model as it is that was sharded before: for the plan's",
    "# groups and types the script calls fully_shard as the plan's code does, before",
    "# accelerator.prepare(model, optimizer), and the file says",
    "# fsdp_auto_wrap_policy: NO_WRAP.",
];

/// The file for `accelerate launch --config_file`; `None` for one GPU.
///
/// # Errors
/// Why Accelerate's file cannot spread the training in this way.
pub(super) fn configuration(
    bench: &Workbench<'_>,
    bound: &Bound<'_>,
    setup: &Setup,
) -> Option<Result<String, &'static str>> {
    if setup.training.parallel == Parallel::None {
        return None;
    }
    Some(file(bench, bound, setup))
}

fn file(bench: &Workbench<'_>, bound: &Bound<'_>, setup: &Setup) -> Result<String, &'static str> {
    let parallel = &setup.training.parallel;
    if parallel.world() < 2 {
        return Err("it does not wrap the model of a single process");
    }
    let (kind, own) = match parallel {
        Parallel::None | Parallel::Tensor(_) => return Err("no code is printed for layers that are split"),
        Parallel::DeepSpeed(_) => return Err("the code starts DeepSpeed itself, with ds_config.json"),
        Parallel::Replicated(settings) if settings.splits_optimizer => {
            return Err("it has no setting for ZeroRedundancyOptimizer");
        }
        Parallel::Replicated(_) => ("MULTI_GPU", Vec::new()),
        Parallel::Sharded(settings) => ("FSDP", shards(bound, settings)?),
    };
    let machines = bench.cluster.map_or(1, |cluster| cluster.nodes);
    let mut lines = of_the_script(setup);
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
        // With another value the model's outputs are cast to fp32, and with FSDP weights are gathered and gradients reduced in that type.
        "mixed_precision: \"no\"".to_owned(),
        format!("num_machines: {machines}"),
        format!("num_processes: {}", parallel.world()),
    ]);
    lines.extend(replicas(parallel));
    lines.extend(["rdzv_backend: static".to_owned(), "use_cpu: false".to_owned()]);
    Ok(lines.join("\n") + "\n")
}

/// Comments on what the script gives, because the file has no keys for it or Accelerate would do more than the plan.
fn of_the_script(setup: &Setup) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(autocast) = setup.variant.amp {
        let scaler = if autocast == Dtype::Float16 { " and its GradScaler" } else { "" };
        lines.extend([
            format!("# The script has the plan's torch.autocast{scaler}."),
            "# With mixed_precision here Accelerate would also cast the model's outputs to".to_owned(),
            "# fp32, and with FSDP gather weights and reduce gradients in half precision.".to_owned(),
        ]);
    }
    match &setup.training.parallel {
        Parallel::Replicated(settings) => {
            let given = [
                ("gradient_as_bucket_view=True", settings.gradients_are_views),
                ("static_graph=True", settings.has_static_graph),
            ];
            let given: Vec<&str> = given.iter().filter(|(_, is_given)| *is_given).map(|(name, _)| *name).collect();
            if !given.is_empty() {
                lines.extend([
                    "# The file has no key for these: they are given in the script, by".to_owned(),
                    "# Accelerator(kwargs_handlers=[DistributedDataParallelKwargs(".to_owned(),
                    format!("#     {})]).", given.join(", ")),
                ]);
            }
        }
        Parallel::Sharded(settings) => {
            lines.extend(OTHER_GROUPS.map(str::to_owned));
            lines.extend(types(settings));
        }
        Parallel::None | Parallel::Tensor(_) | Parallel::DeepSpeed(_) => {}
    }
    if setup.training.accumulate > 1 && !setup.training.parallel.skips_sync() {
        lines.extend([
            "# The plan reduces gradients in every micro-batch. In the script:".to_owned(),
            "# Accelerator(gradient_accumulation_plugin=GradientAccumulationPlugin(".to_owned(),
            format!("#     num_steps={}, sync_each_batch=True)).", setup.training.accumulate),
        ]);
    }
    lines
}

/// The types that modules compute in and gradients are reduced in, as a script gives them to Accelerate.
fn types(settings: &Sharded) -> Vec<String> {
    let types = policy(settings);
    match types.is_empty() {
        true => Vec::new(),
        false => vec![
            "# Otherwise it gives the plan's types, by Accelerator(fsdp_plugin=".to_owned(),
            "# FullyShardedDataParallelPlugin(mixed_precision_policy=MixedPrecisionPolicy(".to_owned(),
            format!("#     {}))).", types.join(", ")),
        ],
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

/// The part about FSDP.
fn shards(bound: &Bound<'_>, settings: &Sharded) -> Result<Vec<String>, &'static str> {
    let chosen = chosen_modules(bound, &settings.modules, "--shard").unwrap_or_default();
    let modules = &bound.model.modules;
    let classes: BTreeSet<&str> = chosen.iter().map(|&module| modules[module].class.as_str()).collect();
    let is_wrapped = |module: &usize| *module != 0 && classes.contains(modules[*module].class.as_str());
    let wrapped: BTreeSet<usize> = (0..modules.len()).filter(is_wrapped).collect();
    if chosen.iter().copied().filter(|module| *module != 0).collect::<BTreeSet<usize>>() != wrapped {
        return Err("it shards all modules of a class, and others have the class of one that is sharded");
    }
    let is_freed = match settings.reshard(false) {
        Reshard::No => false,
        Reshard::Yes => true,
        Reshard::Over(_) => return Err("its reshard_after_forward is true or false, not a number of GPUs"),
    };
    if settings.reshard(true) == Reshard::Yes {
        return Err("it keeps the root's weights gathered, which the plan frees after the forward pass");
    }
    let mut lines = vec!["fsdp_config:".to_owned()];
    if classes.is_empty() {
        lines.push("  fsdp_auto_wrap_policy: NO_WRAP".to_owned());
    } else {
        lines.push("  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP".to_owned());
        let classes: Vec<&str> = classes.into_iter().collect();
        lines.push(format!("  fsdp_transformer_layer_cls_to_wrap: {}", classes.join(",")));
    }
    lines.extend([
        // Each rank has the model, as with the printed code. Otherwise the first sends every weight to the others.
        "  fsdp_cpu_ram_efficient_loading: false".to_owned(),
        format!("  fsdp_offload_params: {}", settings.offloads),
        format!("  fsdp_reshard_after_forward: {is_freed}"),
        "  fsdp_state_dict_type: SHARDED_STATE_DICT".to_owned(),
        "  fsdp_version: 2".to_owned(),
    ]);
    Ok(lines)
}
