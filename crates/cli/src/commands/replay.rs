//! `vramfit replay`: replays a recording through the simulated allocator.

use vramfit_allocator::Settings;
use vramfit_replay::{recorded_settings, replay_recorded, replay_with};
use vramfit_report::memory_summary::memory_summary;
use vramfit_report::replay::ReplayReport;

use crate::arguments::{OtherSettings, Output, Replay, SummaryAt};
use crate::commands::{print, print_json};
use crate::exit_status::ExitStatus;
use crate::failure::Failure;
use crate::snapshot_file;

/// Replays the recording and prints the result.
pub fn run(options: &Replay, output: &Output) -> Result<ExitStatus, Failure> {
    let snapshot = snapshot_file::read(&options.snapshot.path)?;
    let number = snapshot_file::choose_device(&snapshot, &options.snapshot)?;
    let device = &snapshot.devices[number];
    let recorded = recorded_settings(&snapshot).map_err(|error| Failure::at(options.snapshot.path.display(), error))?;
    let faithful = replay_recorded(device, &recorded);
    let mut report = ReplayReport::faithful(device, number, &faithful);
    let mut statistics = match options.summary {
        Some(SummaryAt::Peak) => faithful.statistics_at_peak,
        _ => faithful.statistics,
    };
    if let Some(settings) = other_settings(&options.settings, &recorded)? {
        let what_if = replay_with(device, settings, u64::MAX);
        report = report.under(&what_if, options.settings.alloc_conf.as_deref(), options.settings.vram);
        statistics = match options.summary {
            Some(SummaryAt::Peak) => what_if.statistics_at_peak,
            _ => what_if.statistics,
        };
    }
    if output.json {
        print_json(&report)?;
    } else if options.summary.is_some() {
        print(&memory_summary(&statistics, number))?;
    } else {
        print(&report.text())?;
    }
    let is_bad = report.mismatches > 0 || (report.what_if.is_some() && report.oom.is_some());
    Ok(if is_bad { ExitStatus::Bad } else { ExitStatus::Good })
}

/// The settings of the flags; `None` to use the recorded ones.
fn other_settings(options: &OtherSettings, recorded: &Settings) -> Result<Option<Settings>, Failure> {
    if options.alloc_conf.is_none() && options.vram.is_none() && options.gpu_memory.is_none() {
        return Ok(None);
    }
    let settings = match &options.alloc_conf {
        Some(text) => Settings::parse(text)?,
        None => recorded.clone(),
    };
    let settings = Settings { cap: options.vram, ..settings };
    match options.gpu_memory {
        Some(total) => Ok(Some(settings.on_device(total))),
        None if settings.memory_fraction < 1.0 && settings.cap.is_none() => Err(Failure::new(
            "`per_process_memory_fraction` is a fraction of the GPU's memory, which a snapshot does not record",
        )
        .with_hint(Some("give the GPU's memory with --gpu-memory, or the cap itself with --vram"))),
        None => Ok(Some(settings)),
    }
}
