//! `vramfit plan` for the recording of a script.

use vramfit_engine::cudnn::Cudnn;
use vramfit_engine::known_gpus::REFERENCE;
use vramfit_graph::model::{Model, RecordedScript};
use vramfit_plan::{AllocConf, Control, RecordedTraining, Unanswerable};
use vramfit_report::plan::RecordedPlanReport;
use vramfit_training::answer::Device;

use super::watch;
use crate::arguments::{Output, PlanArguments};
use crate::commands::{print, print_json};
use crate::exit_status::ExitStatus;
use crate::failure::Failure;
use crate::installed_cudnn::InstalledCudnn;
use crate::known_gpus;
use crate::recorded_script;

/// The flags that have a meaning for a recording.
const FLAGS: [&str; 9] =
    ["--gpu", "--vram", "--alloc-conf", "--cudnn", "--margin", "--all", "--json", "--color", "--no-color"];

/// Searches for changes that a recording can tell the effect of, and prints them.
pub fn run(
    given: &PlanArguments,
    output: &Output,
    model: &Model,
    script: &RecordedScript,
) -> Result<ExitStatus, Failure> {
    let options = &given.run;
    let name = &options.at.model;
    refuse_flags(name)?;
    let bound = recorded_script::bound(name, model)?;
    let known = known_gpus::load_for(options.gpu.as_deref())?;
    let gpu = known.find(options.gpu.as_deref().unwrap_or(REFERENCE))?;
    let cudnn = InstalledCudnn::find(options.cudnn.as_deref())?;
    let device = Device { gpu, is_asked: options.gpu.is_some(), vram: options.vram, cudnn: cudnn.answers_for(gpu) };
    let alloc_conf = AllocConf::parse(options.alloc_conf.as_deref().unwrap_or_default())?;
    let training = RecordedTraining { bound: &bound, script, device, alloc_conf, margin: given.margin.margin.0 };
    let control = Control::default();
    let outcome = watch::watched(&control, || training.plan(&control))?.map_err(|error| Failure::at(name, error))?;
    let fit = outcome.start.fit.as_ref().ok_or_else(|| Failure::at(name, Unanswerable::NoCapacity))?;
    let understood = known.understood(options.gpu.as_deref(), options.vram);
    let notes = understood.into_iter().chain(cudnn.not_asked_about(gpu)).collect();
    let report = RecordedPlanReport::new(name, (&model.class, script), &device, (&outcome, fit), notes);
    if output.json {
        print_json(&report)?;
    } else {
        print(&report.text(given.all))?;
    }
    Ok(if report.fits() { ExitStatus::Good } else { ExitStatus::Bad })
}

/// Flags that describe a training say nothing about a script that was recorded.
fn refuse_flags(name: &str) -> Result<(), Failure> {
    let given = std::env::args().skip(1).filter(|word| word.starts_with("--"));
    let mut flags = given.map(|word| word.split('=').next().unwrap_or_default().to_owned());
    match flags.find(|flag| !FLAGS.contains(&flag.as_str())) {
        Some(flag) => {
            let needed = "found the recording of a script, whose training is what the script did";
            let hint = format!(
                "for a recording `vramfit plan` takes --gpu, --vram, --alloc-conf, --cudnn, --margin and --all; change what {flag} is about in \
                 the script and record it again with `vramfit run --out {name} SCRIPT`"
            );
            Err(Failure::new(format!("{name}: {needed}; {flag} does not change it")).with_hint(Some(hint)))
        }
        None => Ok(()),
    }
}
