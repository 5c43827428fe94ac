//! `vramfit estimate`: predicts the memory of a training run.

use vramfit_engine::estimate::{Estimated, conflicts};
use vramfit_engine::recording;
use vramfit_report::estimate::page;
use vramfit_report::page::command;
use vramfit_training::layers::layers;
use vramfit_training::visit;

use crate::arguments::{EstimateArguments, Output};
use crate::commands::{origin, print, print_json, write_page};
use crate::exit_status::ExitStatus;
use crate::failure::Failure;
use crate::installed_cudnn::InstalledCudnn;
use crate::known_gpus;

/// Simulates a training run and prints the answer.
pub fn run(given: &EstimateArguments, output: &Output) -> Result<ExitStatus, Failure> {
    let options = &given.run;
    conflicts::refuse(options)?;
    let model = options.with_torch(options.load()?);
    recording::refuse(&options.at.model, &model)?;
    let known = known_gpus::load_for(options.gpu.as_deref())?;
    let cudnn = InstalledCudnn::find(options.cudnn.as_deref())?;
    let plan_command = plan_command(std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()));
    let Estimated { bound, training, device, answer, report } =
        Estimated::new(options, &model, &known, &cudnn, plan_command)?;
    if let Some(path) = &given.html {
        let visits = visit(&bound, &training, device.machine())?;
        let origin = origin(&[&options.at.model, &path.to_string_lossy()]);
        write_page(path, &page(&report, &bound, &answer, &layers(&bound, &visits), &origin))?;
    }
    if output.json {
        print_json(&report)?;
    } else {
        print(&report.text(given.verbose))?;
    }
    let fits = answer.fit.is_none() || answer.fits_for_certain();
    Ok(if fits { ExitStatus::Good } else { ExitStatus::Bad })
}

/// `vramfit plan` with the words of an `estimate` command, except those about its output.
fn plan_command(words: impl Iterator<Item = String>) -> String {
    let mut kept: Vec<String> = Vec::new();
    let mut words = words.peekable();
    while let Some(word) = words.next() {
        match word.as_str() {
            "estimate" if kept.is_empty() => kept.push("plan".to_owned()),
            "--html" => {
                words.next();
            }
            "--json" | "--no-color" | "--verbose" | "-v" => {}
            _ if word.starts_with("--color") || word.starts_with("--html=") => {}
            "--" => {
                kept.push(word);
                kept.extend(words.by_ref());
            }
            _ => kept.push(word),
        }
    }
    command(&kept)
}
