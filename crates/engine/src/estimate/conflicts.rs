//! Flags that contradict each other, and flags without effect.

mod untrained;
mod updates;

pub use untrained::refuse_untrained;

use vramfit_catalogue::Gpu;
use vramfit_eager::forward::Choice;
use vramfit_graph::bind::Bound;
use vramfit_graph::dtype::Dtype;
use vramfit_graph::model::{Mode, Model, Module, Scheme};
use vramfit_training::optimizer::{Implementation, Kind, Library, Recipe};

use crate::arguments::{
    LossKind, ModeKind, ModelDtype, OutputLifetime, ParallelWay, RunSettings, StateLocation, ZeroGradPosition,
};
use vramfit_report::failure::Failure;

/// Refuses combinations that PyTorch does not support.
pub fn refuse(options: &RunSettings) -> Result<(), Failure> {
    if options.at.grad && options.at.mode == ModeKind::Train {
        return Err(Failure::new("--grad: found --mode train, needed --mode eval")
            .with_hint(Some("training always keeps the graph; --grad keeps it in evaluation")));
    }
    if !options.checkpoint_save.0.is_empty() && options.checkpoint.0 == Choice::Nothing {
        return Err(Failure::new(format!(
            "--checkpoint-save {}: found --checkpoint none, needed modules to checkpoint",
            options.checkpoint_save.0.names()
        ))
        .with_hint(Some("such as --checkpoint blocks; without checkpoints nothing is computed again")));
    }
    if options.at.in_place && options.checkpoint.0 != Choice::Nothing {
        return Err(Failure::new("--in-place: found --checkpoint, needed none").with_hint(Some(
            "a checkpointed module keeps its input for recomputation, which an activation in place may overwrite",
        )));
    }
    updates::refuse(options)?;
    let is_quantized = options.optimizer.0.library() == Library::Bitsandbytes;
    if is_quantized && options.at.dtype == Some(ModelDtype::Fp64) {
        let name = options.optimizer.0.name();
        return Err(Failure::new(format!(
            "--optimizer {name}: found --dtype fp64, needed fp32, bf16 or fp16 for bitsandbytes"
        )));
    }
    let recipe = Recipe::new(options.optimizer.0, options.optimizer_impl.0);
    if !recipe.exists() {
        let fused: Vec<&str> = Kind::NAMES
            .iter()
            .filter(|(_, kind)| *kind != Kind::None && Recipe::new(*kind, Implementation::Fused).exists())
            .map(|(name, _)| *name)
            .collect();
        return Err(Failure::new(format!(
            "--optimizer-impl {}: {} has no such implementation of {} on CUDA",
            recipe.implementation.name(),
            recipe.kind.library().module(),
            recipe.kind.name()
        ))
        .with_hint(Some(format!("optimizers with a fused implementation: {}", fused.join(", ")))));
    }
    Ok(())
}

/// Refuses flags about the micro-batches of a step that has one. A plan may split its batch.
pub fn refuse_whole_batch(options: &RunSettings) -> Result<(), Failure> {
    match options.ranks.no_sync {
        Some(value) if options.accumulate < 2 => Err(Failure::new(format!(
            "--no-sync {value}: found --accumulate {}, needed at least 2 micro-batches",
            options.accumulate
        ))),
        _ => Ok(()),
    }
}

/// Refuses optimizers and quantised weights that do not run on a GPU.
pub fn refuse_gpu(options: &RunSettings, model: &Model, gpu: &Gpu) -> Result<(), Failure> {
    let quantized = model.parameters.iter().filter_map(|weight| weight.quantization.as_deref());
    for scheme in quantized.map(|quantization| quantization.scheme) {
        let (runs, what, needed) = match scheme {
            Scheme::EightBit => (gpu.compute.has_int8_products(), "LLM.int8()", "7.5"),
            Scheme::FourBit { .. } => (gpu.compute.has_bitsandbytes(), "4-bit weights", "6.0"),
        };
        if !runs {
            let (found, name) = (gpu.compute, &gpu.name);
            return Err(Failure::new(format!(
                "{what}: found compute capability {found} of the {name}, needed {needed} for bitsandbytes"
            )));
        }
    }
    let kind = options.optimizer.0;
    if kind.library() == Library::Bitsandbytes && !gpu.compute.has_bitsandbytes() {
        return Err(Failure::new(format!(
            "--optimizer {}: found compute capability {} of the {}, needed 6.0 for bitsandbytes",
            kind.name(),
            gpu.compute,
            gpu.name
        )));
    }
    Ok(())
}

/// What PyTorch's backward pass refuses: `fully_shard` casts a batch norm's weights and input, and not its running statistics.
/// Kernels for one dimension and for channels last do not compare them.
fn refused_by_backward(options: &RunSettings, bound: &Bound<'_>) -> Option<String> {
    let computed = options.ranks.param_dtype.map(Dtype::from)?;
    let stored = options.at.dtype.map(Dtype::from);
    let stored = stored.or_else(|| bound.model.parameters.first().map(|weight| weight.dtype))?;
    let is_asked = options.ranks.parallel.is_sharded() && bound.variant.mode == Mode::Train && !options.channels_last;
    let is_norm = |module: &&Module| matches!(module.class.as_str(), "BatchNorm2d" | "BatchNorm3d");
    let norm = bound.model.modules.iter().find(is_norm).filter(|_| is_asked && stored != computed)?;
    let (path, class) = (norm.path.as_deref().unwrap_or_default(), &norm.class);
    let (computed, stored) = (computed.short_name(), stored.short_name());
    Some(format!(
        "PyTorch refuses the backward pass of `{path}` ({class}) unless its input is channels_last: it computes in {computed}, and its \
         running statistics stay in {stored}; cast them to {computed} too"
    ))
}

/// A product of two matrices has no larger rank than the smaller side of the layer that it is added to.
fn wide_rank(options: &RunSettings, model: &Model) -> Option<String> {
    let rank = i64::from(options.at.fine_tuning.lora?);
    let sides = model.parameters.iter().filter_map(|weight| {
        let name = weight.names.first()?;
        let is_first = name.contains(".lora_A.");
        (is_first || name.contains(".lora_B.")).then(|| weight.shape[usize::from(is_first)])
    });
    let least = sides.min().filter(|least| rank > *least)?;
    Some(format!(
        "--lora {rank}: an adapter of rank {least} can change the smallest adapted layer as much, with fewer weights"
    ))
}

/// A note for each flag without effect, after those about DeepSpeed's configuration and what PyTorch refuses.
pub fn without_effect(options: &RunSettings, bound: &Bound<'_>) -> Vec<String> {
    let mut notes = options.ranks.config_notes.clone();
    notes.extend(refused_by_backward(options, bound));
    notes.extend(wide_rank(options, bound.model));
    if bound.variant.mode != Mode::Train {
        let asked = [
            ("--optimizer", options.optimizer.0 != Kind::AdamW),
            ("--optimizer-impl", options.optimizer_impl.0 != Implementation::Default),
            ("--optimizer-groups", options.optimizer_groups.is_some()),
            ("--optimizer-state", options.optimizer_state != StateLocation::Gpu),
            ("--step-in-backward", options.step_in_backward),
            ("--weight-decay", options.weight_decay),
            ("--clip-grad", options.clip_grad),
            ("--checkpoint", options.checkpoint.0 != Choice::Nothing),
            ("--checkpoint-save", !options.checkpoint_save.0.is_empty()),
            ("--offload-activations", options.offload_activations.memory().is_some() && !bound.variant.has_grad),
            ("--freeze", !options.freeze.is_empty()),
            ("--ema", options.ema),
            ("--accumulate", options.accumulate != 1),
            ("--no-sync", options.ranks.no_sync.is_some()),
            ("--zero-grad", options.zero_grad != ZeroGradPosition::BeforeForward),
            ("--set-to-none", !options.set_to_none),
            ("--outputs", options.outputs != OutputLifetime::Held),
        ];
        let asked: Vec<&str> = asked.iter().filter(|(_, is_asked)| *is_asked).map(|(name, _)| *name).collect();
        if !asked.is_empty() {
            notes.push(format!("{}: no effect in evaluation", asked.join(", ")));
        }
    } else if options.optimizer.0 == Kind::None && options.optimizer_impl.0 != Implementation::Default {
        notes.push("--optimizer-impl: no effect with --optimizer none".to_owned());
    }
    if matches!(options.ranks.parallel, ParallelWay::DeepSpeed(_)) {
        let asked = [
            ("--clip-grad", options.clip_grad),
            ("--zero-grad", options.zero_grad != ZeroGradPosition::BeforeForward),
            ("--set-to-none", !options.set_to_none),
        ];
        let asked: Vec<&str> = asked.iter().filter(|(_, is_asked)| *is_asked).map(|(name, _)| *name).collect();
        if !asked.is_empty() {
            let why = "DeepSpeed's engine clips and frees gradients itself";
            notes.push(format!("{}: no effect, {why}", asked.join(", ")));
        }
    }
    match options.loss {
        Some(_) if bound.variant.loss.is_some() => {
            notes.push("--loss: no effect, the captured step returns a loss".to_owned());
        }
        Some(LossKind::None) if bound.variant.mode == Mode::Train => {
            notes.push("--loss none: there is no backward pass without a loss".to_owned());
        }
        None if bound.variant.loss.is_none() && bound.variant.mode == Mode::Train => {
            notes.push("the captured step returns no loss: cross-entropy of the first output is added".to_owned());
        }
        _ => {}
    }
    notes
}
