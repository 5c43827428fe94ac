//! How the flags spread a training over GPUs.

mod refused;

use std::collections::BTreeSet;

use vramfit_eager::forward::Choice;
use vramfit_graph::dtype::Dtype;
use vramfit_graph::model::Model;
use vramfit_training::script::{AfterForward, DeepSpeed, Gathering, Parallel, Replicated, Sharded, TensorParallel};

use crate::arguments::{Elements, ModelDtype, ParallelWay, RankFlags, Reshard, RunSettings};
use vramfit_report::failure::Failure;

pub use refused::refuse;

/// The most GPUs that `--world` takes.
const MOST: u32 = 100_000;

/// How the training is spread.
pub fn parallel(options: &RunSettings) -> Result<Parallel, Failure> {
    let flags = &options.ranks;
    let way = flags.parallel;
    refuse(options)?;
    let dtype = |dtype: Option<ModelDtype>| dtype.map(Dtype::from);
    let (replicas, shards) = match way {
        ParallelWay::None => return Ok(Parallel::None),
        ParallelWay::Ddp | ParallelWay::Zero1 => {
            return Ok(Parallel::Replicated(Replicated {
                world: world(flags)?,
                gradients_are_views: flags.gradient_as_bucket_view,
                has_static_graph: flags.static_graph,
                splits_optimizer: way == ParallelWay::Zero1,
                skips_sync: flags.no_sync.unwrap_or(true),
            }));
        }
        ParallelWay::Tp => {
            return match world(flags)? {
                1 => Err(Failure::new("--parallel tp: found --world 1, needed at least 2 GPUs to split layers over")),
                world => Ok(Parallel::Tensor(TensorParallel { world })),
            };
        }
        ParallelWay::DeepSpeed(stage) => {
            return Ok(Parallel::DeepSpeed(DeepSpeed {
                world: world(flags)?,
                stage,
                bucket: flags.reduce_bucket_size.map_or(DeepSpeed::BUCKET, |elements| elements.0),
                overlaps: flags.overlap_comm.unwrap_or(stage.overlaps_by_default()),
                clips: flags.gradient_clipping.unwrap_or(DeepSpeed::CLIPS),
                gathering: gathering(flags),
                offloads_weights: flags.offload_param,
            }));
        }
        ParallelWay::Fsdp2 => (1, world(flags)?),
        ParallelWay::Hsdp { replicas, shards } => {
            if let Some(world) = flags.world.filter(|world| *world != replicas * shards) {
                return Err(Failure::new(format!(
                    "--world {world}: found --parallel {way}, which needs {} GPUs",
                    replicas * shards
                )));
            }
            if replicas * shards > MOST {
                let gpus = replicas * shards;
                return Err(Failure::new(format!("--parallel {way}: found {gpus} GPUs, needed at most {MOST}")));
            }
            (replicas, shards)
        }
    };
    if shards < 2 {
        return Err(Failure::new(format!("--parallel {way}: found {shards} GPU to shard over, needed at least 2"))
            .with_hint(Some("on one GPU there is nothing to shard; use --parallel none or ddp")));
    }
    Ok(Parallel::Sharded(Sharded {
        shards,
        replicas,
        modules: flags.shard.as_ref().map_or(Choice::Blocks, |shard| shard.0.clone()),
        after_forward: after_forward(flags, shards)?,
        stored_dtype: dtype(options.at.dtype),
        param_dtype: dtype(flags.param_dtype),
        reduce_dtype: dtype(flags.reduce_dtype),
        offloads: flags.cpu_offload,
        skips_sync: flags.no_sync.unwrap_or(false),
    }))
}

/// When stage 3 gathers and frees weights.
fn gathering(flags: &RankFlags) -> Gathering {
    let defaults = Gathering::default();
    let or = |given: Option<Elements>, default: i64| given.map_or(default, |elements| elements.0);
    Gathering {
        ahead: or(flags.stage3_prefetch_bucket_size, defaults.ahead),
        live: or(flags.stage3_max_live_parameters, defaults.live),
        reuse_distance: or(flags.stage3_max_reuse_distance, defaults.reuse_distance),
        persistent: or(flags.stage3_param_persistence_threshold, defaults.persistent),
    }
}

fn world(flags: &RankFlags) -> Result<u32, Failure> {
    flags.world.ok_or_else(|| {
        Failure::new(format!("--parallel {}: needs --world, the number of GPUs", flags.parallel))
            .with_hint(Some("such as --world 8"))
    })
}

fn after_forward(flags: &RankFlags, shards: u32) -> Result<AfterForward, Failure> {
    match flags.reshard_after_forward {
        None => Ok(AfterForward::FreedButRoot),
        Some(Reshard::Always(true)) => Ok(AfterForward::Freed),
        Some(Reshard::Always(false)) => Ok(AfterForward::Kept),
        Some(Reshard::Over(ranks)) if ranks <= shards && shards.is_multiple_of(ranks) => Ok(AfterForward::Split(ranks)),
        Some(Reshard::Over(ranks)) => Err(Failure::new(format!(
            "--reshard-after-forward {ranks}: found {shards} GPUs to shard over, needed a number that divides them"
        ))),
    }
}

/// DeepSpeed's flat tensor has one type: what it does with several is not simulated.
fn refuse_types(options: &RunSettings, model: &Model) -> Result<(), Failure> {
    let way = options.ranks.parallel;
    let types: BTreeSet<Dtype> = match options.computed_dtype() {
        Some(dtype) => [dtype].into(),
        None => model.parameters.iter().filter(|weight| weight.requires_grad).map(|weight| weight.dtype).collect(),
    };
    let types: Vec<&str> = types.into_iter().map(Dtype::short_name).collect();
    match types[..] {
        [] | ["fp32" | "bf16" | "fp16"] => Ok(()),
        _ => Err(Failure::new(format!(
            "--parallel {way}: found weights in {}, needed all in one of fp32, bf16 and fp16",
            types.join(", ")
        ))
        .with_hint(Some("--dtype bf16 is what DeepSpeed's `\"bf16\": {\"enabled\": true}` does"))),
    }
}

/// Refuses models that `fully_shard` refuses, and types that are not simulated with DeepSpeed.
pub fn refuse_model(options: &RunSettings, model: &Model) -> Result<(), Failure> {
    let way = options.ranks.parallel;
    if matches!(way, ParallelWay::DeepSpeed(_)) {
        return refuse_types(options, model);
    }
    if !way.is_sharded() {
        return Ok(());
    }
    let built = model.parameters.first().map_or(Dtype::Float32, |weight| weight.dtype);
    let computed = options.computed_dtype().unwrap_or(built);
    if let Some(reduced) = options.ranks.reduce_dtype.map(Dtype::from)
        && reduced != computed
        && (computed, reduced) != (Dtype::Bfloat16, Dtype::Float32)
    {
        let (reduced, computed) = (reduced.short_name(), computed.short_name());
        let message =
            format!("--reduce-dtype {reduced}: found modules that compute in {computed}, which is not simulated");
        return Err(
            Failure::new(message).with_hint(Some("only bf16 gradients that are reduced in fp32 are cast on the way"))
        );
    }
    let fail = |what: String| Err(Failure::at(&options.at.model, std::io::Error::other(what)));
    if let Some(weight) = model.parameters.iter().find(|weight| weight.shape.is_empty()) {
        let name = weight.names.first().map_or("", String::as_str);
        return fail(format!(
            "weight `{name}` is a single number: fully_shard needs weights of at least one dimension"
        ));
    }
    if let Some(module) = model.modules.iter().find(|module| module.is_recurrent()) {
        let path = module.path.as_deref().unwrap_or_default();
        return fail(format!("module `{path}` ({}): sharded recurrent layers are not simulated", module.class));
    }
    Ok(())
}
