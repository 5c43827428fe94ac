//! `vramfit catalogue`: the GPUs that `--gpu` accepts.

use vramfit_report::catalogue::CatalogueReport;

use crate::arguments::Output;
use crate::commands::{print, print_json};
use crate::exit_status::ExitStatus;
use crate::failure::Failure;
use crate::known_gpus;

/// Lists the GPUs.
pub fn run(output: &Output) -> Result<ExitStatus, Failure> {
    let known = known_gpus::catalogue()?;
    let report = CatalogueReport::new(known.gpus());
    if output.json {
        print_json(&report)?
    } else {
        print(&report.text())?
    }
    Ok(ExitStatus::Good)
}
