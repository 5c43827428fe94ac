//! What `vramfit plan` and `vramfit max-batch` answer: the cheapest changes that make a training fit, the largest batch that fits.

pub mod cluster;

use vramfit_eager::samples::{LossOverBatch, loss_over_batch};
use vramfit_graph::bind::Bound;
use vramfit_graph::model::{Example, Model};
use vramfit_graph::select::VariantFlags;
use vramfit_plan::max_batch::{LIMIT, MaxBatch};
use vramfit_plan::tricks::in_place;
use vramfit_plan::{
    AllocConf, Cluster, Control, OtherForms, Outcome, SearchOptions, Setup, Workbench, max_batch, plan_with,
};
use vramfit_report::estimate::gpu_notes;
use vramfit_training::Loop;
use vramfit_training::answer::Device;
use vramfit_training::script::Parallel;

use crate::arguments::{Margin, ModeKind, ParallelWay, PlanArguments, RunSettings};
use crate::cudnn::Cudnn;
use crate::estimate::{conflicts, training};
use crate::known_gpus::{KnownGpus, REFERENCE};
use vramfit_report::failure::Failure;

/// Plans are for trainings whose layers are whole.
pub fn refuse_unplanned(options: &RunSettings) -> Result<(), Failure> {
    match options.at.mode {
        ModeKind::Train if options.ranks.parallel == ParallelWay::Tp => {
            Err(Failure::new("plan: found --parallel tp, for which no plans are searched").with_hint(Some(
                "`vramfit estimate` and `vramfit max-batch` take --parallel tp; --gpus searches DDP, FSDP2, HSDP and DeepSpeed",
            )))
        }
        ModeKind::Train => Ok(()),
        ModeKind::Eval => Err(Failure::new("plan: found --mode eval, needed --mode train")
            .with_hint(Some("`vramfit max-batch --mode eval` gives the largest batch for evaluation"))),
    }
}

/// What a search found.
pub struct Searched {
    /// The plans.
    pub outcome: Outcome,
    /// What to know about them.
    pub notes: Vec<String>,
}

/// Searches for plans until `control` stops it.
pub fn searched<'m>(
    given: &PlanArguments,
    bench: &Workbench<'m>,
    setup: &Setup,
    known: &'m KnownGpus,
    cudnn: &dyn Cudnn,
    control: &Control,
) -> Result<Searched, Failure> {
    let options = &given.run;
    let device = |gpu| Device { gpu, is_asked: true, vram: None, cudnn: cudnn.answers_for(gpu) };
    let others: Vec<Device<'_>> = known.catalogue.gpus().iter().filter(|gpu| !gpu.is_laptop()).map(device).collect();
    let bound = bench.try_bind(setup).map_err(|error| Failure::at(&options.at.model, error))?;
    let mut notes = conflicts::without_effect(options, &bound);
    notes.extend(cudnn.not_asked_about(bench.device.gpu));
    let keep = cluster::kept(&given.keep.0, setup);
    let search = SearchOptions { keep: &keep, ..SearchOptions::default() };
    let outcome =
        plan_with(search, bench, setup, &others, control).map_err(|error| Failure::at(&options.at.model, error))?;
    notes.extend(gpu_notes(&bench.device, &bound, &outcome.answer));
    if !bench.has_measured_times() {
        notes.push(format!(
            "times are rough: they were measured on an H200 and scaled to the {} by its peak rates",
            bench.device.gpu.name
        ));
    }
    notes.extend(cluster::fewest(bench, &outcome, control));
    Ok(Searched { outcome, notes })
}

/// The largest batch that fits, as far as `control` lets it search.
pub fn largest_batch(
    options: &RunSettings,
    bench: &Workbench<'_>,
    setup: &Setup,
    control: &Control,
) -> Result<MaxBatch, Failure> {
    conflicts::refuse_whole_batch(options)?;
    max_batch(bench, setup, LIMIT, control).ok_or_else(|| {
        Failure::new(format!("{}: found no batch size, needed one", options.at.model)).with_hint(Some(
            "capture the model with a variable batch size: dimension 0 of every input is `batch` by default",
        ))
    })
}

/// There must be something to fit into.
pub fn need_capacity(options: &RunSettings, command: &str) -> Result<(), Failure> {
    if options.gpu.is_some() || options.vram.is_some() {
        return Ok(());
    }
    Err(Failure::new(format!("{command}: found neither --gpu nor --vram, needed one of them"))
        .with_hint(Some("such as --gpu \"RTX 3060\" or --vram 11GiB; `vramfit catalogue` lists the GPUs")))
}

/// Creates the workbench and setup for a loaded model, with what to know about its sizes.
pub fn on_bench<R>(
    options: &RunSettings,
    (margin, cluster): (Margin, Option<Cluster>),
    plain: &Model,
    known: &KnownGpus,
    cudnn: &dyn Cudnn,
    work: impl for<'m> FnOnce(&Workbench<'m>, &Setup, &'m KnownGpus, Vec<String>) -> Result<R, Failure>,
) -> Result<R, Failure> {
    let plain = &options.at.rewritten(plain.clone())?;
    let model = options.at.fine_tuned(plain.clone())?;
    let bound = options.bind(&model)?;
    let alloc_conf = AllocConf::parse(options.alloc_conf.as_deref().unwrap_or_default())?;
    let gpu = known.find(options.gpu.as_deref().unwrap_or(REFERENCE))?;
    conflicts::refuse_gpu(options, &model, gpu)?;
    let device = Device { gpu, is_asked: options.gpu.is_some(), vram: options.vram, cudnn: cudnn.answers_for(gpu) };
    let mut notes = known.understood(options.gpu.as_deref(), options.vram);
    for (symbol, size) in model.symbols.iter().zip(bound.sizes.as_slice()) {
        if let Example::DataDependent { producer } = &symbol.example {
            notes.push(format!("size `{}` ({producer}) stays {size} at every batch", symbol.name));
        }
    }
    let mut setup = setup(options, &bound, alloc_conf)?;
    if let Some(cluster) = cluster.filter(|_| setup.training.parallel == Parallel::None) {
        setup.training.parallel = cluster.replicated();
    }
    vramfit_training::check(&bound, &setup.training)?;
    drop(bound);
    let forms = other_forms(plain, &model, options, gpu.compute.has_bfloat16())?;
    let in_place = rewritten(&model, options);
    let bench = Workbench::new(&model, in_place.as_ref(), device)
        .with_forms(&forms)
        .with_margin(margin.0)
        .with_cluster(cluster);
    work(&bench, &setup, known, notes)
}

/// The model with in-place activations, which only plans for a training use.
fn rewritten(model: &Model, options: &RunSettings) -> Option<Model> {
    (options.at.mode == ModeKind::Train).then(|| in_place::rewrite(model)).flatten()
}

/// The model with adapters and with fused attention, which only plans for a training use.
fn other_forms(plain: &Model, model: &Model, options: &RunSettings, has_bfloat16: bool) -> Result<OtherForms, Failure> {
    if options.at.mode != ModeKind::Train {
        return Ok(OtherForms::default());
    }
    let how = options.at.fine_tuning.read()?;
    let adapted = OtherForms::of(plain, model, how.lora.as_ref(), has_bfloat16);
    Ok(adapted.with_fused_attention(model, in_place::rewrite))
}

fn setup(options: &RunSettings, bound: &Bound<'_>, alloc_conf: AllocConf) -> Result<Setup, Failure> {
    let variant = VariantFlags {
        dtype: options.computed_dtype(),
        amp: options.at.amp.map(Into::into),
        is_eval: options.at.mode == ModeKind::Eval,
        has_grad: options.at.grad,
    };
    let adds_losses = loss_over_batch(bound.model, bound.variant) == Some(LossOverBatch::Sum);
    let training = Loop { adds_losses, ..training(options, bound.model)? };
    Ok(Setup { alloc_conf, ..Setup::new(bound.sizes.clone(), variant, training) })
}
