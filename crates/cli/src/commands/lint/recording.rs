//! `vramfit lint --with`: what a recorded run says about findings.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use flate2::Crc;
use vramfit_explain::cost::{Costs, Lines, Subject as Question};
use vramfit_explain::{Explanation, explain};
use vramfit_lint::files::FileReport;
use vramfit_lint::{Document, Finding, Recorded, Subject, TextRange};
use vramfit_replay::recorded_settings;
use vramfit_trace::snapshot::Snapshot;

use crate::arguments::SnapshotFile;
use crate::failure::Failure;
use crate::snapshot_file;

/// A recorded run.
pub struct Recording {
    path: PathBuf,
    snapshot: Snapshot,
    explanation: Explanation,
    /// The checksums of recorded files, by name; none of a snapshot, which has only lines.
    checksums: HashMap<String, u32>,
}

impl Recording {
    /// Reads a recording of `vramfit run --out`, or a snapshot of PyTorch.
    pub fn read(path: &Path) -> Result<Recording, Failure> {
        let (snapshot, explanation, checksums) = if path.extension().is_some_and(|ending| ending == "vramfit") {
            simulated(path)?
        } else {
            let snapshot = snapshot_file::read(path)?;
            let file = SnapshotFile { path: path.to_path_buf(), device: None };
            let device = snapshot_file::choose_device(&snapshot, &file)?;
            let explanation = explain(&snapshot, device, &recorded_settings(&snapshot)?, None);
            (snapshot, explanation, HashMap::new())
        };
        Ok(Recording { path: path.to_path_buf(), snapshot, explanation, checksums })
    }

    /// Adds to each finding what the recording says. Returns what the reader should know.
    pub fn attach(&self, reports: &mut [FileReport]) -> Vec<String> {
        let costs = Costs::new(&self.snapshot, &self.explanation);
        let files = costs.files();
        let paths: Vec<&Path> = reports.iter().map(|report| report.path.as_path()).collect();
        let Matches { names, ambiguous } = matches(&paths, &files);
        let mut notes: Vec<String> = ambiguous
            .into_iter()
            .map(|(name, paths)| {
                format!(
                    "{}: `{name}` may be any of {}; run lint in the folder in which the script ran",
                    self.path.display(),
                    paths.join(", ")
                )
            })
            .collect();
        if names.is_empty() && notes.is_empty() && !reports.is_empty() {
            let own: Vec<&str> = files.into_iter().filter(|file| is_own(file)).take(5).collect();
            let has = if own.is_empty() { "no source lines".into() } else { format!("lines of {}", own.join(", ")) };
            notes.push(format!("{}: found {has}, needed those of the files checked", self.path.display()));
        }
        for (index, report) in reports.iter_mut().enumerate() {
            let (Some(file), Some(document)) = (names.get(&index), &report.document) else { continue };
            if self.has_changed(file, &report.path) {
                notes.push(format!(
                    "{}: {} has changed since it was recorded, so its lines may be others; record it again with `vramfit run --out`",
                    self.path.display(),
                    report.path.display()
                ));
            }
            for finding in &mut report.checked.findings {
                finding.recorded = recorded(&costs, file, document, finding)
                    .map(|recorded| Recorded { peak: self.explanation.history.peak_allocated().1, ..recorded });
            }
        }
        notes
    }

    /// Whether the file at `path` is another than the one that was recorded as `name`, as far as the recording can say.
    fn has_changed(&self, name: &str, path: &Path) -> bool {
        let (Some(recorded), Ok(bytes)) = (self.checksums.get(name), std::fs::read(path)) else { return false };
        let mut checksum = Crc::new();
        checksum.update(&bytes);
        checksum.sum() != *recorded
    }
}

fn recorded(costs: &Costs<'_>, file: &str, document: &Document, finding: &Finding) -> Option<Recorded> {
    let lines = |range: TextRange| {
        let (first, last) = document.lines(range)?;
        Some(Lines { file: file.to_owned(), first, last })
    };
    let all = |ranges: &[TextRange]| ranges.iter().map(|&range| lines(range)).collect::<Option<Vec<Lines>>>();
    let own = lines(finding.range)?;
    if !costs.has_run(&own) && !costs.has_run(&lines(finding.block)?) {
        return Some(Recorded::default());
    }
    let question = match &finding.subject {
        Subject::Nothing => None,
        Subject::Kept { made, body } => Some(Question::Kept { made: all(made)?, body: all(body)? }),
        Subject::Pass => Some(Question::Passes(own)),
        Subject::Gradients => Some(Question::Gradients),
        Subject::Made => Some(Question::Made(own)),
    };
    let cost = question.and_then(|question| costs.of(&question));
    Some(Recorded {
        has_run: true,
        bytes: cost.map(|cost| cost.bytes),
        each: cost.and_then(|cost| cost.each),
        peak_reduction: cost.and_then(|cost| cost.peak_reduction),
        peak: 0,
    })
}

/// Whether a recorded file may be the user's.
fn is_own(file: &str) -> bool {
    file.ends_with(".py") && !file.contains("site-packages/") && !file.contains("dist-packages/")
}

/// Which checked file is which of the recording.
struct Matches<'a> {
    /// The recording's name, by the number of the checked file.
    names: HashMap<usize, &'a str>,
    /// Names that several checked files could have.
    ambiguous: Vec<(&'a str, Vec<String>)>,
}

/// A recording names files relative to the folder in which the script ran, or by their whole path.
fn matches<'a>(paths: &[&Path], files: &[&'a str]) -> Matches<'a> {
    let whole: Vec<PathBuf> = paths
        .iter()
        .map(|path| path.canonicalize().or_else(|_| std::path::absolute(path)).unwrap_or_else(|_| path.to_path_buf()))
        .collect();
    let mut found = Matches { names: HashMap::new(), ambiguous: Vec::new() };
    // The longest name says most: `models/train.py` before `train.py`.
    let mut files: Vec<&str> = files.iter().copied().filter(|file| is_own(file)).collect();
    files.sort_by_key(|file| (std::cmp::Reverse(Path::new(file).components().count()), *file));
    for file in files {
        let recorded = Path::new(file);
        let here = recorded.canonicalize().ok();
        let exact = whole.iter().position(|path| Some(path) == here.as_ref());
        if let Some(index) = exact {
            found.names.insert(index, file);
            continue;
        }
        let ends = |index: &usize| recorded.is_relative() && whole[*index].ends_with(recorded);
        let candidates: Vec<usize> =
            (0..paths.len()).filter(ends).filter(|index| !found.names.contains_key(index)).collect();
        match candidates.as_slice() {
            [] => {}
            [index] => {
                found.names.insert(*index, file);
            }
            several => {
                let paths = several.iter().map(|&index| paths[index].display().to_string()).collect();
                found.ambiguous.push((file, paths));
            }
        }
    }
    found
}

/// A simulated run, what explains it, and the checksums of the script's files.
type Simulated = (Snapshot, Explanation, HashMap<String, u32>);

#[cfg(not(feature = "simulate"))]
fn simulated(path: &Path) -> Result<Simulated, Failure> {
    Err(Failure::new(format!("{}: found a recording, needed a snapshot: this build cannot simulate", path.display())))
}

/// Simulates the recorded script on the GPU that `vramfit run` takes by default.
#[cfg(feature = "simulate")]
fn simulated(path: &Path) -> Result<Simulated, Failure> {
    use crate::recorded_script;

    let name = path.to_string_lossy().into_owned();
    let hint = Some("write one with `vramfit run --out FILE SCRIPT`");
    if !path.is_file() {
        return Err(Failure::new(format!("{name}: found no such file, needed a recording")).with_hint(hint));
    }
    let model = vramfit_engine::built_in::load(&name)?;
    let Some(script) = vramfit_engine::recording::script(&model) else {
        return Err(Failure::new(format!("{name}: found a model, needed the recording of a script")).with_hint(hint));
    };
    let snapshot = recorded_script::simulated(&name, &model, script)?;
    let explanation = explain(&snapshot, 0, &recorded_settings(&snapshot)?, None);
    let checksums = script.files.iter().map(|file| (file.name.clone(), file.checksum)).collect();
    Ok((snapshot, explanation, checksums))
}
