//! `vramfit catalogue`: the GPUs that `--gpu` knows.

use vramfit_report::catalogue::CatalogueReport;

use crate::Verdict;
use crate::arguments::Output;
use crate::commands::{print, print_json};
use crate::failure::Failure;
use crate::known_gpus::KnownGpus;

/// Lists them.
pub fn run(output: &Output) -> Result<Verdict, Failure> {
    let known = KnownGpus::load()?;
    let report = CatalogueReport::new(known.catalogue.gpus());
    if output.json {
        print_json(&report)?
    } else {
        print(&report.text())?
    }
    Ok(Verdict::Good)
}
