//! `vramfit models`: the models that need no file.

use vramfit_report::models::ModelsReport;

use crate::Verdict;
use crate::arguments::Output;
use crate::built_in::built_in;
use crate::commands::{print, print_json};
use crate::failure::Failure;

/// Lists them.
pub fn run(output: &Output) -> Result<Verdict, Failure> {
    let mut report = ModelsReport::default();
    for built_in in built_in()? {
        report.add(built_in.row);
    }
    if output.json {
        print_json(&report)?
    } else {
        print(&report.text())?
    }
    Ok(Verdict::Good)
}
