//! `vramfit models`: the built-in models.

use vramfit_report::models::ModelsReport;

use crate::arguments::Output;
use crate::commands::{print, print_json};
use crate::exit_status::ExitStatus;
use crate::failure::Failure;
use vramfit_engine::built_in::built_in;

/// Lists the models.
pub fn run(output: &Output) -> Result<ExitStatus, Failure> {
    let mut report = ModelsReport::default();
    for built_in in built_in()? {
        report.add(built_in.row);
    }
    if output.json {
        print_json(&report)?
    } else {
        print(&report.text())?
    }
    Ok(ExitStatus::Good)
}
