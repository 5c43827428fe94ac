//! Training steps simulated from exported archives, beside measured ones and those simulated from captures.

use std::fmt::Write;
use std::path::PathBuf;

use vramfit_training::Run;

use crate::difference;
use crate::estimate::difference_from;
use crate::measured::{Case, folder, measured, trace};
use crate::recordings::Result;
use crate::simulation::{simulate, simulate_from};

/// The archive of a case's model: the one for its sequence length if there is one, because torch.export fixes the length of
/// a recurrent layer's input.
pub fn archive_of(case: &Case) -> PathBuf {
    let folder = folder().join("archives");
    let of_length = case.settings.seq.map(|length| folder.join(format!("{}-{length}.pt2", case.model)));
    of_length.filter(|path| path.exists()).unwrap_or_else(|| folder.join(format!("{}.pt2", case.model)))
}

/// The diff of one case, simulated from its archive, with its recorded trace.
///
/// # Errors
/// The case is not known or cannot be simulated.
pub fn difference_of(name: &str) -> Result<String> {
    difference_from(name, archive_of)
}

/// A case simulated from its archive.
#[derive(Clone, Debug)]
pub struct Row {
    /// The case.
    pub name: String,
    /// 1 for transformers and MLPs, 2 for convolutions and recurrent models.
    pub part: u32,
    /// The measured peak.
    pub measured: u64,
    /// The peak from the archive.
    pub archive: u64,
    /// The peak from the capture.
    pub capture: Option<u64>,
    /// How many allocations and frees agree with the recording, of how many.
    pub events: Option<(usize, usize)>,
    /// Operators without a rule.
    pub unmodelled: Vec<String>,
    /// Why the archive's answer is not exact.
    pub causes: Vec<String>,
}

impl Row {
    /// How far the archive's peak is off, in percent.
    pub fn error(&self) -> f64 {
        100.0 * (self.archive as f64 / self.measured as f64 - 1.0)
    }
}

/// Every measured case, or why it cannot be simulated from an archive.
///
/// # Errors
/// The measurements cannot be read.
pub fn rows() -> Result<Vec<std::result::Result<Row, (String, String)>>> {
    let mut rows = Vec::new();
    // Ranks of several are measured from captures.
    for (name, case) in measured()?.cases.iter().filter(|(_, case)| case.settings.ranks.world <= 1) {
        rows.push(row(name, case).map_err(|error| (name.clone(), error)));
    }
    Ok(rows)
}

fn row(name: &str, case: &Case) -> Result<Row> {
    let path = archive_of(case);
    if !path.exists() {
        return Err("no archive of the model".to_owned());
    }
    let peak = |run: &Run| run.peak().map_or(0, |phase| phase.peak.allocated);
    let recorded = trace(name).ok();
    let capture = simulate(case, |_, run| peak(run)).ok();
    simulate_from(&path, case, |bound, run| Row {
        name: name.to_owned(),
        part: case.part,
        measured: case.peak_allocated,
        archive: peak(run),
        capture,
        events: recorded.as_ref().map(|recorded| difference::agreement(recorded, run)),
        unmodelled: run.missing.keys().cloned().collect(),
        causes: bound.variant.causes.clone(),
    })
}

/// The page `docs/pt2-accuracy.md`.
///
/// # Errors
/// The measurements cannot be read.
pub fn page() -> Result<String> {
    Ok(format!(
        "# How exact estimates from torch.export archives are\n\nMade by `cargo run --release -p vramfit-validation -- \
         archive --write`: every measured case (one H200, torch 2.11.0+cu130), simulated from the archive of its model in \
         `validation/archives/`, which was exported for training in single precision.\n\n- measured: predicted against \
         measured `max_memory_allocated`\n- capture: against the prediction from the model's capture\n- events: how many \
         allocations and frees agree with the recorded trace, from the first one on, of how many\n- operators without a rule\n\n\
         [pt2.md](pt2.md) says what an archive does not contain and how the readers fill it in. Named differences:\n\n{}\n```\n{}```\n",
        EXPLAINED.iter().map(|(names, why)| format!("- `{names}`: {why}\n")).collect::<String>(),
        overview()?
    ))
}

/// Why the prediction from an archive differs from that of a capture, beyond the order of addresses.
pub const EXPLAINED: [(&str, &str); 7] = [
    ("t5*", "its position bias is combined with a mask that eager training does not build"),
    (
        "bert-small*, bert-eager, roberta",
        "eager code first checks whether the mask masks anything; those few bytes shift later blocks",
    ),
    (
        "gpt2*, llama-*, mistral, phi*, gemma, qwen3",
        "variables of helper functions (attention, rotary embedding, loss) are not in the archive, so small tensors are freed at other moments",
    ),
    (
        "*-amp*",
        "autocast's casts follow PyTorch's lists of operators; an export without autocast does not contain the regions in which transformers turns autocast off",
    ),
    ("*-bf16, *-fp16", "casts are distinguished by their source lines"),
    (
        "opt*, whisper*",
        "no archive: torch.export refuses models whose control flow depends on a mask's values or on random numbers",
    ),
    ("decoder, signal", "the same as from the capture: cuDNN chooses another plan than the predicted one"),
];

/// One line per case.
///
/// # Errors
/// The measurements cannot be read.
pub fn overview() -> Result<String> {
    let mut text = String::new();
    let mut errors: Vec<f64> = Vec::new();
    for row in rows()? {
        let _ = match row {
            Ok(row) => {
                errors.push(row.error().abs());
                let capture = row.capture.map_or_else(
                    || "       ?".to_owned(),
                    |capture| format!("{:+8.4}", 100.0 * (row.archive as f64 / capture as f64 - 1.0)),
                );
                let events = row.events.map_or_else(String::new, |(same, all)| format!("{same:>5}/{all:<5}"));
                writeln!(
                    text,
                    "{:32} measured {:+8.4} %  capture {capture} %  events {events} {}",
                    row.name,
                    row.error(),
                    row.unmodelled.join(" ")
                )
            }
            Err((name, error)) => writeln!(text, "{name:32} {error}"),
        };
    }
    errors.sort_by(f64::total_cmp);
    let median = errors.get(errors.len() / 2).copied().unwrap_or(0.0);
    let worst = errors.last().copied().unwrap_or(0.0);
    let _ = writeln!(text, "{} cases: median {median:.4} %, worst {worst:.4} %", errors.len());
    Ok(text)
}
