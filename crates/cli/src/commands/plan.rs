//! `vramfit plan`: the cheapest changes that make a training fit. `vramfit max-batch`: the largest batch that fits.

mod recorded;
mod watch;

use vramfit_engine::built_in::load;
use vramfit_engine::cudnn::Cudnn;
use vramfit_engine::estimate::conflicts;
use vramfit_engine::known_gpus::KnownGpus;
use vramfit_engine::plan::{Searched, cluster, largest_batch, need_capacity, on_bench, refuse_unplanned, searched};
use vramfit_engine::recording;
use vramfit_graph::model::Model;
use vramfit_plan::max_batch::LIMIT;
use vramfit_plan::{Cluster, Control, Setup, Workbench};
use vramfit_report::cudnn::cudnn_notes;
use vramfit_report::estimate::wrapped;
use vramfit_report::plan::{MaxBatchReport, PlanReport, page};

use crate::arguments::{Margin, MaxBatchArguments, Output, PlanArguments, RunSettings};
use crate::commands::{origin, print, print_json, write_page};
use crate::exit_status::ExitStatus;
use crate::failure::Failure;
use crate::installed_cudnn::InstalledCudnn;
use crate::known_gpus;

/// Searches for plans and prints them.
pub fn run(given: &PlanArguments, output: &Output) -> Result<ExitStatus, Failure> {
    let options = &given.run;
    refuse_unplanned(options)?;
    let cluster = cluster::cluster(given)?;
    conflicts::refuse(options)?;
    need_capacity(options, "plan")?;
    let plain = options.with_torch(load(&options.at.model)?);
    if let Some(script) = recording::script(&plain) {
        return recorded::run(given, output, &plain, script);
    }
    with_bench(options, &plain, given.margin.margin, cluster, |bench, setup, known, cudnn, notes| {
        let first = notes;
        let control = Control::default();
        let search = || searched(given, bench, setup, known, cudnn, &control);
        let Searched { outcome, notes } = watch::watched(&control, search)??;
        let report = PlanReport { model: &options.at.model, bench, outcome: &outcome, notes };
        if let Some(path) = &given.html {
            let origin = origin(&[&options.at.model, &path.to_string_lossy()]);
            write_page(path, &page(&report, &origin))?;
        }
        if output.json {
            print_json(&report.json())?;
        } else {
            print(&report.text(given.all))?;
        }
        first.iter().for_each(|note| eprint!("{}", wrapped(&format!("note: {note}"), 0)));
        Ok(if report.fits() { ExitStatus::Good } else { ExitStatus::Bad })
    })
}

/// Tries one batch after another and prints the largest that fits.
pub fn run_max_batch(given: &MaxBatchArguments, output: &Output) -> Result<ExitStatus, Failure> {
    let options = &given.run;
    if options.at.batch.is_some() {
        eprintln!("note: --batch has no effect: every batch from 1 on is tried");
    }
    options.ranks.config_notes.iter().for_each(|note| eprintln!("note: {note}"));
    conflicts::refuse(options)?;
    need_capacity(options, "max-batch")?;
    let plain = options.with_torch(load(&options.at.model)?);
    recording::refuse(&options.at.model, &plain)?;
    with_bench(options, &plain, given.margin.margin, None, |bench, setup, _, cudnn, notes| {
        notes.iter().for_each(|note| eprintln!("note: {note}"));
        let control = Control::default();
        let found = watch::watched(&control, || largest_batch(options, bench, setup, &control))??;
        if output.json {
            print_json(&MaxBatchReport::new(found, &bench.device))?;
        } else {
            print(&format!("{}\n", found.batch))?;
        }
        for note in cudnn.not_asked_about(bench.device.gpu).into_iter().chain(cudnn_notes(&bench.device)) {
            eprintln!("note: {note}");
        }
        if !found.is_final {
            let how = if found.batch < LIMIT { "stopped early" } else { "the largest that is tried" };
            eprintln!("{how}: every batch up to {} fits; larger ones were not tried", found.batch);
        }
        Ok(if found.batch > 0 { ExitStatus::Good } else { ExitStatus::Bad })
    })
}

/// Creates the workbench and setup that the flags describe.
fn with_bench(
    options: &RunSettings,
    plain: &Model,
    margin: Margin,
    cluster: Option<Cluster>,
    work: impl for<'m> FnOnce(
        &Workbench<'m>,
        &Setup,
        &'m KnownGpus,
        &InstalledCudnn,
        Vec<String>,
    ) -> Result<ExitStatus, Failure>,
) -> Result<ExitStatus, Failure> {
    let known = known_gpus::load_for(options.gpu.as_deref())?;
    let cudnn = InstalledCudnn::find(options.cudnn.as_deref())?;
    on_bench(options, (margin, cluster), plain, &known, &cudnn, |bench, setup, known, notes| {
        work(bench, setup, known, &cudnn, notes)
    })
}
