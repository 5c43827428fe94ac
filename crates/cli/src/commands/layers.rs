//! `vramfit layers`: the modules of a model.

use vramfit_allocator::Settings;
use vramfit_report::layers::{LayersReport, Question};
use vramfit_training::layers::{layers, totals};
use vramfit_training::optimizer::{Implementation, Recipe};
use vramfit_training::{Loop, train, visit};

use crate::arguments::{Layers, Output};
use crate::commands::{print, print_json};
use crate::exit_status::ExitStatus;
use crate::failure::Failure;
use crate::known_gpus;
use vramfit_engine::estimate::added_loss;
use vramfit_engine::known_gpus::REFERENCE;

/// Simulates a step and prints its modules.
pub fn run(options: &Layers, output: &Output) -> Result<ExitStatus, Failure> {
    let model = options.model.load()?;
    let bound = options.model.bind(&model)?;
    let training = Loop {
        optimizer: Recipe::new(options.optimizer.0, Implementation::Default),
        checkpoint: options.checkpoint.0.clone(),
        loss: added_loss(options.loss),
        ..Loop::default()
    };
    let known = known_gpus::load()?;
    let machine = known.find(REFERENCE)?.into();
    let visits = visit(&bound, &training, machine)?;
    let run = train(&bound, &training, Settings::default(), machine, false)?;
    let layers = layers(&bound, &visits);
    let totals = totals(&bound, &visits, &layers);
    let question = Question { model: &options.model.model, bound: &bound, training: &training, depth: options.depth };
    let report = LayersReport::new(&question, &layers, totals, &run);
    if output.json {
        print_json(&report)?
    } else {
        print(&report.text())?
    }
    Ok(ExitStatus::Good)
}
