//! Simulated training steps beside measured ones.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use vramfit_allocator::{Settings, SimulatedDriver};
use vramfit_catalogue::{Catalogue, CudaContext};
use vramfit_eager::autograd::{HostMemory, KeptResults, ResultKind};
use vramfit_eager::forward::{Choice, LossHead};
use vramfit_eager::machine::H200;
use vramfit_graph::bind::{Bound, bind};
use vramfit_graph::dtype::Dtype;
use vramfit_graph::model::{Model, Symbol};
use vramfit_graph::select::{SizeFlags, Sizes, VariantFlags, select_variant};
use vramfit_readers::read_file;
use vramfit_training::answer::STREAMS;
use vramfit_training::optimizer::{Groups, Implementation, Kind, Recipe};
use vramfit_training::script::{AfterForward, Parallel, Replicated, Sharded};
use vramfit_training::{Loop, Program, Run, StatePlace, ZeroGrad, record};

use crate::difference;
use crate::measured::{Case, CaseSettings, RankSettings, RecordedTrace, folder, measured, read_compressed, trace};
use crate::recordings::Result;
use crate::segments;

/// Simulates a case on a GPU with unlimited memory and passes the result, with its requests, to `look`.
///
/// # Errors
/// There is no capture of the model, or it cannot be used with these settings.
pub fn simulate<T>(case: &Case, look: impl FnOnce(&Bound<'_>, &Run) -> T) -> Result<T> {
    simulate_from(&capture_of(case), case, look)
}

/// The capture of a case's model.
pub fn capture_of(case: &Case) -> PathBuf {
    folder().join(format!("captures/{}.vramfit", case.model))
}

/// Simulates a case from the model in this file and passes the result to `look`.
///
/// # Errors
/// There is no such file, or it cannot be used with these settings.
pub fn simulate_from<T>(path: &Path, case: &Case, look: impl FnOnce(&Bound<'_>, &Run) -> T) -> Result<T> {
    with_bound_from(path, case, |bound, options| {
        let program = record(bound, options, H200).map_err(|error| error.to_string())?;
        let run = program.run_keeping(Settings::default(), SimulatedDriver::in_process(u64::MAX), true);
        Ok(look(bound, &run))
    })?
}

/// Records a case's requests to the allocator and passes them to `look`.
///
/// # Errors
/// There is no capture of the model, or it cannot be used with these settings.
pub fn with_program<T>(case: &Case, look: impl FnOnce(&Bound<'_>, &Program) -> T) -> Result<T> {
    with_bound(case, |bound, options| {
        let program = record(bound, options, H200).map_err(|error| error.to_string())?;
        Ok(look(bound, &program))
    })?
}

/// Binds a case's model to its sizes and passes it with the case's loop to `look`.
///
/// # Errors
/// There is no capture of the model, or it cannot be used with these settings.
pub fn with_bound<T>(case: &Case, look: impl FnOnce(&Bound<'_>, &Loop) -> T) -> Result<T> {
    with_bound_from(&capture_of(case), case, look)
}

/// Binds the model in this file to a case's sizes and passes it with the case's loop to `look`.
///
/// # Errors
/// There is no such file, or it cannot be used with these settings.
pub fn with_bound_from<T>(path: &Path, case: &Case, look: impl FnOnce(&Bound<'_>, &Loop) -> T) -> Result<T> {
    let model = read_file(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let (sizes, flags, options) = choices(&model, &case.settings)?;
    let variant = select_variant(&model, flags).map_err(|error| error.to_string())?;
    let bound = bind(&model, variant, &sizes).map_err(|error| error.to_string())?;
    Ok(look(&bound, &options))
}

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
            splits_optimizer: settings.parallel == "zero1",
            skips_sync,
        });
    }
    let (copies, shards) = match settings.parallel.strip_prefix("hsdp:").and_then(|sizes| sizes.split_once('x')) {
        Some((copies, shards)) => (copies.parse().unwrap_or(1), shards.parse().unwrap_or(1)),
        None if settings.parallel == "fsdp2" => (1, settings.world),
        None => return Parallel::None,
    };
    let dtype = |name: &str| if name == "fp32" { Some(Dtype::Float32) } else { half(name) };
    Parallel::Sharded(Sharded {
        shards,
        copies,
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

/// The diff of one case with its recorded trace.
///
/// # Errors
/// The case is not known or cannot be simulated.
pub fn difference_of(name: &str) -> Result<String> {
    difference_from(name, capture_of)
}

/// The diff of one case with its recorded trace, simulated from the file that `path` gives for it.
///
/// # Errors
/// The case is not known or cannot be simulated.
pub fn difference_from(name: &str, path: impl Fn(&Case) -> PathBuf) -> Result<String> {
    let measured = measured()?;
    let case = measured.cases.get(name).ok_or_else(|| format!("no case {name} was measured"))?;
    let trace = trace(name);
    simulate_from(&path(case), case, |bound, run| match &trace {
        Ok(trace) => phases(case, run) + &difference_with(trace, bound, run),
        Err(_) => phases(case, run) + "no trace was recorded\n",
    })
}

/// The diff of a trace that `validation/sweep/measure_models.py` wrote with what a capture of the model requests. `settings` are
/// those of the case as JSON, with the names that measured cases have.
///
/// # Errors
/// A file cannot be read, or the capture cannot be used with these settings.
pub fn difference_of_files(capture: &Path, trace: &Path, settings: &str) -> Result<String> {
    let settings = serde_json::from_str(settings).map_err(|error| format!("settings: {error}"))?;
    let trace = read_compressed(trace)?;
    let case = Case { settings, ..Case::default() };
    simulate_from(capture, &case, |bound, run| difference_with(&trace, bound, run))
}

/// What a run and a recorded trace differ in.
fn difference_with(trace: &RecordedTrace, bound: &Bound<'_>, run: &Run) -> String {
    let mut text = String::new();
    for (name, places) in &run.missing {
        let _ = writeln!(text, "unmodelled: {name} ×{}", places.len());
    }
    let (same, all) = difference::agreement(trace, run);
    let _ = writeln!(text, "{same} of {all} events agree");
    if same < all {
        text += &difference::show(trace, bound, run, same);
        text += "\nwithout workspaces:\n";
        text += &difference::show_core(trace, run);
        text += &difference::show_workspaces(trace, bound, run);
    } else {
        text += &segments::table(trace, run);
    }
    text
}

/// The phases whose numbers differ.
fn phases(case: &Case, run: &Run) -> String {
    let mut text = String::new();
    for (simulated, measured) in run.phases.iter().zip(&case.phases) {
        if simulated.allocated != measured.allocated || simulated.peak.allocated != measured.peak {
            let _ = writeln!(
                text,
                "{:8} {:?} allocated {} ({:+}) peak {} ({:+})",
                measured.phase,
                measured.step,
                measured.allocated,
                simulated.allocated.cast_signed() - measured.allocated.cast_signed(),
                measured.peak,
                simulated.peak.allocated.cast_signed() - measured.peak.cast_signed(),
            );
        }
    }
    text
}

/// One line per case: how many events agree, and how many phases end with the measured bytes.
///
/// # Errors
/// The measurements cannot be read.
pub fn overview(part: u32) -> Result<String> {
    let measured = measured()?;
    let catalogue = Catalogue::built_in().map_err(|error| error.to_string())?;
    let gpu = catalogue.find("H200").map_err(|error| error.to_string())?;
    let context = gpu.context.ok_or("the H200's context is not in the catalogue")?;
    let mut text = String::new();
    let mut summary = Summary::default();
    for (name, case) in measured.cases.iter().filter(|(_, case)| case.part == part && !case.phases.is_empty()) {
        let recorded = trace(name).ok();
        let line = simulate(case, |_, run| {
            let row = Row::new(case, run, context);
            let events = recorded.as_ref().map_or((0, 0), |trace| difference::agreement(trace, run));
            let core = recorded.as_ref().map_or((0, 0), |trace| difference::agreement_up_to_workspaces(trace, run));
            let core = if part == 2 { format!("  core {:5}/{:5}", core.0, core.1) } else { String::new() };
            let line = format!(
                "{name:32} peak {:+9.4} %  phases {:2}/{:2}  events {:5}/{:5}{core}  reserved {:+.1} MiB {}",
                row.error,
                row.phases.0,
                row.phases.1,
                events.0,
                events.1,
                (run.peak_reserved as f64 - case.peak_reserved as f64) / f64::from(1 << 20),
                run.missing.keys().cloned().collect::<Vec<_>>().join(" ")
            );
            summary.rows.push(row);
            line
        });
        let _ = match line {
            Ok(line) => writeln!(text, "{}", line.trim_end()),
            Err(error) => writeln!(text, "{name:32} {error}"),
        };
    }
    Ok(text + &summary.text())
}

/// How far a simulated case is off.
struct Row {
    is_exact: bool,
    /// Of the allocated peak, in percent.
    error: f64,
    /// Of the reserved peak, in percent.
    reserved_error: f64,
    /// Phases that end with the measured bytes, of how many.
    phases: (usize, usize),
    /// Of nvidia-smi's figure for the process, in MiB, where it was recorded.
    device_error: Option<f64>,
}

/// The largest difference from nvidia-smi's figure that counts as a match, in MiB.
const DEVICE_LIMIT: f64 = 30.0;

impl Row {
    fn new(case: &Case, run: &Run, context: CudaContext) -> Row {
        let peak = run.phases.iter().skip(1).map(|phase| phase.peak.allocated).max().unwrap_or(0);
        let same = run.phases.iter().zip(&case.phases).filter(|(one, other)| one.allocated == other.allocated).count();
        let percent = |predicted: u64, measured: u64| (predicted as f64 / measured as f64 - 1.0) * 100.0;
        Row {
            is_exact: peak == case.peak_allocated,
            error: percent(peak, case.peak_allocated),
            reserved_error: percent(run.peak_reserved, case.peak_reserved),
            phases: (same, case.phases.len()),
            device_error: case.device_used().map(|used| {
                let streams = if run.libraries.has_streams { STREAMS } else { 0 };
                let predicted = run.peak_reserved + context.bytes(run.libraries.blas, run.libraries.dnn) + streams;
                (predicted as f64 - used as f64) / f64::from(1 << 20)
            }),
        }
    }
}

/// All rows in a few numbers.
#[derive(Default)]
struct Summary {
    rows: Vec<Row>,
}

impl Summary {
    fn text(&self) -> String {
        let count = self.rows.len();
        let exact = self.rows.iter().filter(|row| row.is_exact).count();
        let phases = self.rows.iter().fold((0, 0), |sum, row| (sum.0 + row.phases.0, sum.1 + row.phases.1));
        let spread = |take: fn(&Row) -> f64| {
            let mut errors: Vec<f64> = self.rows.iter().map(|row| take(row).abs()).collect();
            errors.sort_by(f64::total_cmp);
            let median = errors.get(count / 2).copied().unwrap_or(0.0);
            let worst = errors.last().copied().unwrap_or(0.0);
            format!("median {median:.2} %, worst {worst:.2} %")
        };
        let (error, reserved) = (spread(|row| row.error), spread(|row| row.reserved_error));
        let mut devices: Vec<f64> = self.rows.iter().filter_map(|row| row.device_error.map(f64::abs)).collect();
        devices.sort_by(f64::total_cmp);
        let near = devices.iter().filter(|error| **error <= DEVICE_LIMIT).count();
        format!(
            "\n{count} cases: the measured peak to the byte in {exact} ({:.1} %)\n  allocated: {error}\n  reserved:  \
             {reserved}\n  device_used: within {DEVICE_LIMIT} MiB of nvidia-smi in {near} of {} cases, median {:.1}, worst {:.1} \
             MiB\n  {} of {} phases end with the measured bytes\n",
            exact as f64 * 100.0 / count.max(1) as f64,
            devices.len(),
            devices.get(devices.len() / 2).copied().unwrap_or(0.0),
            devices.last().copied().unwrap_or(0.0),
            phases.0,
            phases.1
        )
    }
}

/// The page `docs/estimate-accuracy.md`.
///
/// # Errors
/// The measurements cannot be read.
pub fn page() -> Result<String> {
    let (transformers, networks, adapted) = (overview(1)?, overview(2)?, overview(3)?);
    Ok(format!(
        "# How exact the estimate is\n\nMade by `cargo run --release -p vramfit-validation -- estimate --write`: every \
         measured case (one H200, torch 2.11.0+cu130, two or three runs per case), simulated from its capture without a \
         GPU.\n\n- peak: predicted against measured `max_memory_allocated`\n- phases: how many end with the measured \
         allocated bytes\n- events: how many allocations and frees agree with the recorded trace, from the \
         first one on, of how many (without the order of frees between two allocations where it is random); core: the \
         same without cuDNN's workspaces\n- reserved: predicted minus measured `max_memory_reserved`\n\nWhere all \
         events agree and a number does not, CUDA placed a segment at another address than [the rules](cuda-addresses.md) predict. \
         `vramfit estimate` then answers with a range.\n\n## Transformers and MLPs\n\n```\n{transformers}```\n\n## \
         Convolutions and recurrent layers\n\n[cudnn-workspaces.md](cudnn-workspaces.md) explains how cuDNN's workspaces \
         are predicted.\n\n```\n{networks}```\n\n## Adapters and quantised weights\n\nModules of peft and bitsandbytes \
         ([fine-tuning.md](fine-tuning.md)).\n\n```\n{adapted}```\n"
    ))
}
