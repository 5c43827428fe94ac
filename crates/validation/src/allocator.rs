//! The allocator against recordings: replays with the recorded settings, and what-if answers beside measured runs.

use std::collections::BTreeMap;
use std::fmt::Write;

use vramfit_allocator::Settings;
use vramfit_replay::{RecordedReplay, WhatIf, recorded_settings, replay_recorded, replay_with};
use vramfit_trace::snapshot::Device;

use crate::recordings::{Peaks, Recording, Result, Run, names, peaks};

/// The device of a recording; each was made on one GPU.
pub fn device(recording: &Recording) -> Result<&Device> {
    recording
        .snapshot
        .devices
        .iter()
        .find(|device| !device.segments.is_empty())
        .ok_or_else(|| format!("{}: no GPU in it", recording.name))
}

/// The faithful replay of a recording.
///
/// # Errors
/// The recording has no GPU or settings that are not modelled.
pub fn faithful(recording: &Recording) -> Result<RecordedReplay> {
    let settings = recorded_settings(&recording.snapshot).map_err(|error| error.to_string())?;
    Ok(replay_recorded(device(recording)?, &settings))
}

/// The recording's requests under other settings.
///
/// # Errors
/// The recording has no GPU, or the settings are not valid.
pub fn what_if(recording: &Recording, alloc_conf: &str, cap: Option<u64>) -> Result<WhatIf> {
    let settings = Settings::parse(alloc_conf).map_err(|error| error.to_string())?;
    let settings = Settings { cap, ..settings }.on_device(recording.report.total_memory);
    Ok(replay_with(device(recording)?, settings, recording.report.total_memory))
}

/// A what-if answer beside the measured runs under that setting.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The training.
    pub case: String,
    /// The settings, by name.
    pub label: String,
    /// The recording the answer was made from.
    pub source: String,
    /// The lowest and highest peak reserved that was measured.
    pub measured: (u64, u64),
    /// How many runs were measured.
    pub runs: usize,
    /// The answer.
    pub predicted: u64,
    /// The measured peak allocated.
    pub measured_allocated: u64,
    /// The answer.
    pub predicted_allocated: u64,
    /// Whether the measured run ran out of memory.
    pub has_failed: bool,
    /// Whether the simulated run does.
    pub fails: bool,
}

impl Answer {
    /// How far the answer is outside the measured range, as a fraction of the nearest measured value.
    pub fn error(&self) -> f64 {
        let (low, high) = self.measured;
        let nearest = self.predicted.clamp(low, high);
        if nearest == 0 { 0.0 } else { (self.predicted as f64 - nearest as f64) / nearest as f64 }
    }
}

/// Every what-if question that was measured: a recording under default settings, replayed under each other setting.
///
/// A recording that ends in an error lacks the requests that would have followed. For such a case the answer comes from a
/// recording of the same program that completed, if there is one.
///
/// # Errors
/// A recording cannot be loaded.
pub fn answers() -> Result<Vec<Answer>> {
    let Peaks { runs, .. } = peaks()?;
    let mut groups: BTreeMap<(&str, &str), Vec<&Run>> = BTreeMap::new();
    for run in &runs {
        groups.entry((&run.case, &run.label)).or_default().push(run);
    }
    let names = names()?;
    let mut sources: BTreeMap<&str, Option<Recording>> = BTreeMap::new();
    let mut answers = Vec::new();
    for ((case, label), runs) in &groups {
        if label.is_empty() {
            continue;
        }
        if !sources.contains_key(case) {
            sources.insert(case, whole_recording(case, &names)?);
        }
        let Some(Some(source)) = sources.get(case) else { continue };
        let first = runs[0];
        let found = what_if(source, &first.alloc_conf, first.cap)?;
        let reserved = || runs.iter().map(|run| run.peak_reserved);
        answers.push(Answer {
            case: (*case).to_owned(),
            label: (*label).to_owned(),
            source: source.name.clone(),
            measured: (reserved().min().unwrap_or(0), reserved().max().unwrap_or(0)),
            runs: runs.len(),
            predicted: found.totals.peak_reserved,
            measured_allocated: first.peak_allocated,
            predicted_allocated: found.totals.peak_allocated,
            has_failed: first.oom,
            fails: found.failure.is_some(),
        });
    }
    Ok(answers)
}

/// The recording of `case` under default settings, or the first one that completed.
fn whole_recording(case: &str, names: &[String]) -> Result<Option<Recording>> {
    let prefix = format!("{case}.");
    let own = names.iter().filter(|name| *name == case || name.starts_with(&prefix));
    for name in own {
        let recording = Recording::load(name)?;
        if recording.report.oom.is_none() {
            return Ok(Some(recording));
        }
    }
    Ok(None)
}

/// The page `docs/allocator-accuracy.md`.
///
/// # Errors
/// A recording cannot be loaded.
pub fn page() -> Result<String> {
    let peaks = peaks()?;
    let mut text = format!(
        "# How exact the allocator is\n\nMade by `cargo run --release -p vramfit-validation -- allocator --write`, from \
         the recordings in `validation/recordings/` ({}, torch {}). Sizes in MiB.\n\n",
        peaks.gpu, peaks.torch
    );
    write_replays(&mut text)?;
    write_answers(&mut text, &peaks)?;
    Ok(text)
}

fn write_replays(text: &mut String) -> Result<()> {
    *text += "## Replays\n\nEach recording's own requests with its own segment addresses. A mismatch is any allocation \
              that gets another block, any segment allocated or freed elsewhere, any block of the final layout that \
              differs. The peaks are compared with `torch.cuda.memory_stats()` at the end of the run. A `-` marks a \
              recording that began late or whose ring buffer overflowed.\n\n\
              | recording | events | mismatches | peak allocated | off by | peak reserved | off by |\n\
              | --- | ---: | ---: | ---: | ---: | ---: | ---: |\n";
    let (mut events, mut mismatches) = (0, 0);
    for name in names()? {
        let recording = Recording::load(&name)?;
        let replay = faithful(&recording)?;
        events += replay.events;
        mismatches += replay.mismatches;
        let report = &recording.report;
        let off = |replayed: u64, reported: u64| match recording.is_complete() {
            true => format!("{} B", replayed as i64 - reported as i64),
            false => "-".to_owned(),
        };
        let _ = writeln!(
            text,
            "| {name} | {} | {} | {} | {} | {} | {} |",
            replay.events,
            replay.mismatches,
            mebibytes(replay.replayed.peak_allocated),
            off(replay.replayed.peak_allocated, report.peak_allocated),
            mebibytes(replay.replayed.peak_reserved),
            off(replay.replayed.peak_reserved, report.peak_reserved),
        );
    }
    let _ = writeln!(text, "| **all** | **{events}** | **{mismatches}** | | | | |\n");
    Ok(())
}

fn write_answers(text: &mut String, peaks: &Peaks) -> Result<()> {
    let answers = answers()?;
    let exact = answers.iter().filter(|answer| answer.error() == 0.0).count();
    let within = answers.iter().filter(|answer| answer.error().abs() <= 0.01).count();
    let right = answers.iter().filter(|answer| answer.fails == answer.has_failed).count();
    let _ = writeln!(
        text,
        "## What if\n\nA recording under one setting, replayed under another; the simulated driver chooses the addresses. \
         Measured: the range of the peak reserved over the runs under that setting. Of {} answers {exact} are exact and \
         {within} are within 1 %; {right} predict correctly whether the run runs out of memory.\n\n\
         | training | setting | from recording | runs | measured reserved | predicted | error | measured allocated | \
         predicted | out of memory | predicted |\n\
         | --- | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | --- | --- |",
        answers.len()
    );
    for answer in &answers {
        let (low, high) = answer.measured;
        let measured = if low == high { mebibytes(low) } else { format!("{} – {}", mebibytes(low), mebibytes(high)) };
        let yes = |is: bool| if is { "yes" } else { "no" };
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {measured} | {} | {:+.2} % | {} | {} | {} | {} |",
            answer.case,
            answer.label,
            answer.source,
            answer.runs,
            mebibytes(answer.predicted),
            answer.error() * 100.0,
            mebibytes(answer.measured_allocated),
            mebibytes(answer.predicted_allocated),
            yes(answer.has_failed),
            yes(answer.fails),
        );
    }
    *text += "\nThe settings: ";
    let mut settings: BTreeMap<&str, &str> = BTreeMap::new();
    for run in &peaks.runs {
        if !run.alloc_conf.is_empty() && !run.label.contains("cap") {
            settings.insert(&run.label, &run.alloc_conf);
        }
    }
    let listed: Vec<String> = settings.iter().map(|(label, conf)| format!("`{label}` is `{conf}`")).collect();
    *text += &listed.join(", ");
    *text += "; `cap95`, `cap85` and `cap-low` are caps at 95 % and 85 % of the peak reserved and 70 % of the peak \
              allocated.\n";
    Ok(())
}

fn mebibytes(bytes: u64) -> String {
    format!("{:.1}", bytes as f64 / f64::from(1 << 20))
}
