//! `vramfit run`: dry-runs a training script, or answers from a recording of one.

mod pickled;
mod python;

use std::path::Path;

use serde::Serialize;
use vramfit_allocator::Settings;
use vramfit_explain::explain;
use vramfit_report::estimate::Question;
use vramfit_report::page::command;
use vramfit_report::run::RunReport;
use vramfit_training::answer::{Device, Scenarios};
use vramfit_training::layers::layers;
use vramfit_training::visit;

use crate::arguments::{Output, RunArguments};
use crate::commands::{origin, print, print_json, write_page};
use crate::exit_status::ExitStatus;
use crate::failure::Failure;
use crate::installed_cudnn::InstalledCudnn;
use crate::known_gpus;
use crate::recorded_script::{self, simulated_snapshot};
use vramfit_engine::built_in::load;
use vramfit_engine::cudnn::Cudnn;
use vramfit_engine::known_gpus::REFERENCE;
use vramfit_engine::recording::script;

/// Runs the script in Python, or answers from a recording.
pub fn run(options: &RunArguments, output: &Output) -> Result<ExitStatus, Failure> {
    match &options.recording {
        _ if options.describe_gpu => describe_gpu(options),
        Some(path) => answer(path, options, output),
        None => python::run(),
    }
}

/// What a script may ask about the GPU, for the Python that runs it.
#[derive(Serialize)]
struct GpuRow<'a> {
    name: &'a str,
    compute_capability: String,
    memory: u64,
    multiprocessors: u32,
    /// Bytes of L2 cache.
    cache: Option<u64>,
}

fn describe_gpu(options: &RunArguments) -> Result<ExitStatus, Failure> {
    let known = known_gpus::load_for(options.gpu.as_deref())?;
    let gpu = known.find(options.gpu.as_deref().unwrap_or(REFERENCE))?;
    print_json(&GpuRow {
        name: &gpu.name,
        compute_capability: gpu.compute.to_string(),
        memory: gpu.memory,
        multiprocessors: gpu.multiprocessors,
        cache: gpu.cache.map(|megabytes| (megabytes * f64::from(1 << 20)) as u64),
    })?;
    Ok(ExitStatus::Good)
}

/// What says which lines of the script to change. A recording that is not kept is written first.
fn plan_command(options: &RunArguments, recording: &str, script: &str) -> String {
    let words = |words: &[&str]| command(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>());
    let kept = Path::new(script).with_extension("vramfit").to_string_lossy().into_owned();
    let vram = options.vram.map(|vram| vram.to_string());
    let mut plan = vec!["plan", if options.temporary { &kept } else { recording }];
    plan.extend(options.gpu.iter().flat_map(|gpu| ["--gpu", gpu]));
    plan.extend(vram.iter().flat_map(|vram| ["--vram", vram]));
    if !options.temporary {
        return words(&plan);
    }
    let mut run = vec!["run", "--out", &kept];
    run.extend(options.recorded_with.iter().map(String::as_str));
    format!("{} && {}", words(&run), words(&plan))
}

fn answer(path: &Path, options: &RunArguments, output: &Output) -> Result<ExitStatus, Failure> {
    let name = path.to_string_lossy().into_owned();
    let model = load(&name)?;
    let Some(script) = script(&model) else {
        let hint = "write one with `vramfit run --out FILE SCRIPT`; for a captured model use `vramfit estimate`";
        return Err(
            Failure::new(format!("{name}: found a model, needed the recording of a script")).with_hint(Some(hint))
        );
    };
    let bound = recorded_script::bound(&name, &model)?;
    let alloc_conf = options.alloc_conf.as_deref().unwrap_or("");
    let known = known_gpus::load_for(options.gpu.as_deref())?;
    let gpu = known.find(options.gpu.as_deref().unwrap_or(REFERENCE))?;
    let cudnn = InstalledCudnn::find(options.cudnn.as_deref())?;
    let device = Device { gpu, is_asked: options.gpu.is_some(), vram: options.vram, cudnn: cudnn.answers_for(gpu) };
    let training = recorded_script::training(script);
    let settings = device.settings(Settings::parse(alloc_conf)?);
    let scenarios = Scenarios::record(&bound, &training, device.machine())?;
    let answer = scenarios.answer(&device, &settings, true).map_err(|error| Failure::at(&model.class, error))?;
    let understood = known.understood(options.gpu.as_deref(), options.vram);
    let notes = understood.into_iter().chain(cudnn.not_asked_about(gpu)).collect();
    let plan_command = plan_command(options, &name, &model.class);
    let question =
        Question { model: &model.class, bound: &bound, training: &training, device, alloc_conf, notes, plan_command };
    let snapshot = simulated_snapshot(&bound, script, &answer.expected);
    if let Some(path) = &options.snapshot {
        pickled::write(path, &snapshot)?;
    }
    let explanation = explain(&snapshot, 0, &settings, device.cap(answer.expected.libraries));
    let report = RunReport::new(&question, script, &answer, &snapshot, &explanation);
    if let Some(html) = &options.html {
        let visits = visit(&bound, &training, device.machine())?;
        let origin = origin(&[&name, &html.to_string_lossy()]);
        write_page(html, &report.page(&bound, &answer, &layers(&bound, &visits), &origin))?;
    }
    if output.json {
        print_json(&report)?;
    } else {
        print(&report.text(&snapshot, &explanation, options.verbose))?;
    }
    let fits = answer.fit.is_none() || answer.fits_for_certain();
    Ok(if fits { ExitStatus::Good } else { ExitStatus::Bad })
}
