//! The settings of a measured case as the simulation takes them.

use std::sync::Arc;

use vramfit_eager::autograd::{HostMemory, KeptResults, ResultKind};
use vramfit_eager::forward::{Choice, LossHead};
use vramfit_graph::dtype::Dtype;
use vramfit_graph::model::{Model, Symbol};
use vramfit_graph::select::{SizeFlags, Sizes, VariantFlags};
use vramfit_training::optimizer::{Groups, Implementation, Kind, Recipe};
use vramfit_training::script::{
    AfterForward, DeepSpeed, Gathering, Parallel, Replicated, Sharded, TensorParallel, ZeroStage,
};
use vramfit_training::{Loop, StatePlace, ZeroGrad};

use crate::measured::{CaseSettings, RankSettings};
use crate::recordings::Result;

/// A case's sizes, variant and loop.
///
/// # Errors
/// The model cannot be used with these settings.
pub fn choices(model: &Model, settings: &CaseSettings) -> Result<(Sizes, VariantFlags, Loop)> {
    let sizes = Sizes::select(model, &size_flags(model, settings)).map_err(|error| error.to_string())?;
    let amp = half(&settings.amp);
    let flags = VariantFlags {
        dtype: amp.map_or_else(|| half(&settings.ranks.param_dtype).or_else(|| half(&settings.dtype)), |_| None),
        amp,
        is_eval: settings.mode == "eval",
        has_grad: settings.grad,
    };
    let mut options = options(model, settings)?;
    if let Choice::Modules(names) = &mut options.checkpoint {
        add_prefix(model, Arc::make_mut(names).as_mut_slice());
    }
    Ok((sizes, flags, options))
}

/// The sizes of a case. `--seq` looks for an integer input; where the sequence consists of features, its size is given by name.
fn size_flags(model: &Model, settings: &CaseSettings) -> SizeFlags {
    let batch = Some(settings.batch);
    let flags = SizeFlags { batch, sequence: settings.seq, sizes: Vec::new() };
    let (Some(sequence), Err(_)) = (settings.seq, Sizes::select(model, &flags)) else { return flags };
    let is_second = |symbol: &&Symbol| symbol.dims.iter().any(|(_, dim)| *dim == 1);
    let symbols = model.symbols.iter().filter(is_second);
    let sizes = symbols.map(|symbol| format!("{}={sequence}", symbol.name)).collect();
    SizeFlags { batch, sequence: None, sizes }
}

/// In an exported step the model is a submodule, so its name is a prefix of the names of its parts.
fn add_prefix(model: &Model, names: &mut [String]) {
    let prefix = model.modules.first().and_then(|module| module.path.as_deref()).unwrap_or("");
    if !prefix.is_empty() {
        names.iter_mut().for_each(|name| *name = format!("{prefix}.{name}"));
    }
}

fn half(name: &str) -> Option<Dtype> {
    match name {
        "bf16" => Some(Dtype::Bfloat16),
        "fp16" => Some(Dtype::Float16),
        _ => None,
    }
}

/// The loop of a case.
fn options(model: &Model, settings: &CaseSettings) -> Result<Loop> {
    let kind = Kind::named(&settings.optimizer).ok_or_else(|| format!("no optimizer {}", settings.optimizer))?;
    let implementation = Implementation::named(&settings.optimizer_impl)
        .ok_or_else(|| format!("no implementation {}", settings.optimizer_impl))?;
    let zero_grad = match settings.zero_grad.as_str() {
        "before-forward" => ZeroGrad::BeforeForward,
        "before-backward" => ZeroGrad::BeforeBackward,
        other => return Err(format!("zero_grad cannot be called `{other}`")),
    };
    let groups = match settings.optimizer_groups.as_str() {
        "" => None,
        written => Some(Groups::read(written, &model.weight_names()).map_err(|error| error.to_string())?),
    };
    Ok(Loop {
        steps: 3,
        goes_on: false,
        optimizer: Recipe::new(kind, implementation),
        groups,
        steps_in_backward: settings.step_in_backward,
        optimizer_state: if settings.optimizer_state == "cpu" { StatePlace::Cpu } else { StatePlace::Gpu },
        clips_gradients: settings.clip_grad,
        accumulate: settings.accumulate,
        zero_grad,
        sets_to_none: settings.set_to_none,
        has_fresh_inputs: settings.inputs == "fresh",
        checkpoint: checkpoint(&settings.checkpoint),
        kept_results: kept_results(&settings.checkpoint_save)?,
        has_channels_last: settings.channels_last,
        offload: match settings.offload_activations.as_str() {
            "pinned" => Some(HostMemory::Pinned),
            "pageable" => Some(HostMemory::Pageable),
            _ => None,
        },
        loss_head: match (settings.chunked_loss, settings.fused_linear_loss.as_str()) {
            (_, "liger") => LossHead::Liger,
            (0, _) => LossHead::Captured,
            (chunks, _) => LossHead::Chunked(chunks),
        },
        averages_weights: settings.ema,
        frozen: Arc::new(names(&settings.freeze)),
        parallel: parallel(&settings.ranks),
        ..Loop::default()
    })
}

/// Keys of stage 3 with commas between; those that are missing have their defaults.
fn gathering(written: &str) -> Gathering {
    let mut gathering = Gathering::default();
    for (key, elements) in written.split(',').filter_map(|pair| pair.split_once('=')) {
        let Ok(elements) = elements.parse() else { continue };
        match key {
            "prefetch_bucket_size" => gathering.ahead = elements,
            "max_live_parameters" => gathering.live = elements,
            "max_reuse_distance" => gathering.reuse_distance = elements,
            _ => gathering.persistent = elements,
        }
    }
    gathering
}

/// How a case is spread over ranks.
fn parallel(settings: &RankSettings) -> Parallel {
    let is_replicated = matches!(settings.parallel.as_str(), "ddp" | "zero1");
    let skips_sync = match settings.no_sync.as_str() {
        "true" => true,
        "false" => false,
        _ => is_replicated,
    };
    if is_replicated {
        return Parallel::Replicated(Replicated {
            world: settings.world,
            gradients_are_views: settings.gradient_as_bucket_view,
            has_static_graph: settings.static_graph,
            splits_optimizer: settings.parallel == "zero1",
            skips_sync,
        });
    }
    let (replicas, shards) = match settings.parallel.strip_prefix("hsdp:").and_then(|sizes| sizes.split_once('x')) {
        Some((replicas, shards)) => (replicas.parse().unwrap_or(1), shards.parse().unwrap_or(1)),
        None if settings.parallel == "fsdp2" => (1, settings.world),
        None if settings.parallel == "tp" => return Parallel::Tensor(TensorParallel { world: settings.world }),
        None if settings.parallel.starts_with("deepspeed:") => {
            let stage = match settings.parallel.as_str() {
                "deepspeed:1" => ZeroStage::One,
                "deepspeed:2" => ZeroStage::Two,
                _ => ZeroStage::Three,
            };
            let overlaps = match settings.overlap_comm.as_str() {
                "default" => stage.overlaps_by_default(),
                chosen => chosen == "true",
            };
            return Parallel::DeepSpeed(DeepSpeed {
                world: settings.world,
                stage,
                bucket: settings.reduce_bucket_size,
                overlaps,
                clips: settings.gradient_clipping != "false",
                gathering: gathering(&settings.stage3),
                offloads_weights: settings.cpu_offload,
            });
        }
        None => return Parallel::None,
    };
    let dtype = |name: &str| if name == "fp32" { Some(Dtype::Float32) } else { half(name) };
    Parallel::Sharded(Sharded {
        shards,
        replicas,
        modules: checkpoint(&settings.shard),
        after_forward: match settings.reshard_after_forward.as_str() {
            "true" => AfterForward::Freed,
            "false" => AfterForward::Kept,
            text => text.parse().map_or(AfterForward::FreedButRoot, AfterForward::Split),
        },
        stored_dtype: None,
        param_dtype: dtype(&settings.param_dtype),
        reduce_dtype: dtype(&settings.reduce_dtype),
        offloads: settings.cpu_offload,
        skips_sync,
    })
}

fn kept_results(text: &str) -> Result<KeptResults> {
    let kind = |name: &String| {
        let known = ResultKind::NAMES.into_iter().find(|(_, known)| known == name);
        known.map(|(kind, _)| kind).ok_or_else(|| format!("no results `{name}`"))
    };
    let names = names(text).into_iter().filter(|name| name != "none").collect::<Vec<_>>();
    Ok(KeptResults::of(&names.iter().map(kind).collect::<Result<Vec<_>>>()?))
}

/// The names of a list with commas between.
fn names(text: &str) -> Vec<String> {
    text.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

fn checkpoint(text: &str) -> Choice {
    let segments = text.strip_prefix("sequential:").and_then(|number| number.parse().ok());
    match (text, segments) {
        ("none", _) => Choice::Nothing,
        ("blocks", _) => Choice::Blocks,
        (_, Some(segments)) => Choice::Sequential(segments),
        (names, None) => Choice::modules(names.split(',').map(str::to_owned).collect()),
    }
}
