//! `vramfit explain`: findings in a recorded run.

use vramfit_explain::{Finding, explain};
use vramfit_replay::recorded_settings;
use vramfit_report::explain::{ExplainReport, page, text};

use crate::arguments::{Explain, Output};
use crate::commands::{origin, print, print_json, write_page};
use crate::exit_status::ExitStatus;
use crate::failure::Failure;
use crate::snapshot_file;

/// Explains the recording and prints the findings; any finding is a bad status, a note is not.
pub fn run(options: &Explain, output: &Output) -> Result<ExitStatus, Failure> {
    let snapshot = snapshot_file::read(&options.snapshot.path)?;
    let number = snapshot_file::choose_device(&snapshot, &options.snapshot)?;
    let settings = recorded_settings(&snapshot)?;
    let explanation = explain(&snapshot, number, &settings, options.vram);
    if let Some(path) = &options.html {
        let name = options.snapshot.path.file_name().unwrap_or(options.snapshot.path.as_os_str());
        let origin = origin(&[&options.snapshot.path.to_string_lossy(), &path.to_string_lossy()]);
        write_page(path, &page(&snapshot, &explanation, &name.to_string_lossy(), &origin))?;
    }
    if output.json {
        print_json(&ExplainReport::new(&snapshot, &explanation))?;
    } else {
        print(&text(&snapshot, &explanation))?;
    }
    let is_healthy = explanation.findings.iter().all(Finding::is_note);
    Ok(if is_healthy { ExitStatus::Good } else { ExitStatus::Bad })
}
