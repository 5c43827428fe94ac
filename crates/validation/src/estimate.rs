//! Simulated training steps beside measured ones.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use vramfit_catalogue::{Catalogue, CudaContext};
use vramfit_eager::machine::{H200, Machine};
use vramfit_graph::bind::Bound;
use vramfit_training::Run;
use vramfit_training::answer::STREAMS;

use crate::difference;
use crate::measured::{Case, RecordedTrace, measured, read_compressed, trace};
use crate::recordings::Result;
use crate::segments;
use crate::simulation::{capture_of, simulate_from, simulate_on};

/// The diff of one case with its recorded trace.
///
/// # Errors
/// The case is not known or cannot be simulated.
pub fn difference_of(name: &str) -> Result<String> {
    difference_from(name, capture_of)
}

/// The diff of one case with its recorded trace, simulated from the file that `path` gives for it.
///
/// # Errors
/// The case is not known or cannot be simulated.
pub fn difference_from(name: &str, path: impl Fn(&Case) -> PathBuf) -> Result<String> {
    let measured = measured()?;
    let case = measured.cases.get(name).ok_or_else(|| format!("no case {name} was measured"))?;
    let trace = trace(name);
    simulate_from(&path(case), case, |bound, run| match &trace {
        Ok(trace) => phases(case, run) + &difference_with(trace, bound, run),
        Err(_) => phases(case, run) + "no trace was recorded\n",
    })
}

/// The diff of a trace that `validation/sweep/measure_models.py` wrote with what a capture of the model requests. `settings` are
/// those of the case as JSON, with the names that measured cases have.
///
/// # Errors
/// A file cannot be read, or the capture cannot be used with these settings.
pub fn difference_of_files(capture: &Path, trace: &Path, settings: &str) -> Result<String> {
    let settings = serde_json::from_str(settings).map_err(|error| format!("settings: {error}"))?;
    let trace = read_compressed(trace)?;
    let case = Case { settings, ..Case::default() };
    simulate_from(capture, &case, |bound, run| difference_with(&trace, bound, run))
}

/// What a run and a recorded trace differ in.
fn difference_with(trace: &RecordedTrace, bound: &Bound<'_>, run: &Run) -> String {
    let mut text = String::new();
    for (name, places) in &run.missing {
        let _ = writeln!(text, "unmodelled: {name} ×{}", places.len());
    }
    let (same, all) = difference::agreement(trace, run);
    let _ = writeln!(text, "{same} of {all} events agree");
    if same < all {
        text += &difference::show(trace, bound, run, same);
        text += "\nwithout workspaces:\n";
        text += &difference::show_core(trace, run);
        text += &difference::show_workspaces(trace, bound, run);
    } else {
        text += &segments::table(trace, run);
    }
    text
}

/// The phases whose numbers differ.
fn phases(case: &Case, run: &Run) -> String {
    let mut text = String::new();
    for (simulated, measured) in run.phases.iter().zip(&case.phases) {
        if simulated.allocated != measured.allocated || simulated.peak.allocated != measured.peak {
            let _ = writeln!(
                text,
                "{:8} {:?} allocated {} ({:+}) peak {} ({:+})",
                measured.phase,
                measured.step,
                measured.allocated,
                simulated.allocated.cast_signed() - measured.allocated.cast_signed(),
                measured.peak,
                simulated.peak.allocated.cast_signed() - measured.peak.cast_signed(),
            );
        }
    }
    text
}

/// One line per case: how many events agree, and how many phases end with the measured bytes.
///
/// # Errors
/// The measurements cannot be read.
pub fn overview(part: u32) -> Result<String> {
    overview_on(part, H200)
}

/// The same on another machine, such as one with a cuDNN that is asked.
///
/// # Errors
/// The measurements cannot be read.
pub fn overview_on(part: u32, machine: Machine) -> Result<String> {
    let measured = measured()?;
    let catalogue = Catalogue::built_in().map_err(|error| error.to_string())?;
    let gpu = catalogue.find("H200").map_err(|error| error.to_string())?;
    let context = gpu.context.ok_or("the H200's context is not in the catalogue")?;
    let mut text = String::new();
    let mut summary = Summary::default();
    for (name, case) in measured.cases.iter().filter(|(_, case)| case.part == part && !case.phases.is_empty()) {
        let recorded = trace(name).ok();
        let line = simulate_on(case, machine, |_, run| {
            let row = Row::new(case, run, context);
            let events = recorded.as_ref().map_or((0, 0), |trace| difference::agreement(trace, run));
            let core = recorded.as_ref().map_or((0, 0), |trace| difference::agreement_up_to_workspaces(trace, run));
            let core = if part == 2 { format!("  core {:5}/{:5}", core.0, core.1) } else { String::new() };
            let line = format!(
                "{name:32} peak {:+9.4} %  phases {:2}/{:2}  events {:5}/{:5}{core}  reserved {:+.1} MiB {}",
                row.error,
                row.phases.0,
                row.phases.1,
                events.0,
                events.1,
                (run.peak_reserved as f64 - case.peak_reserved as f64) / f64::from(1 << 20),
                run.missing.keys().cloned().collect::<Vec<_>>().join(" ")
            );
            summary.rows.push(row);
            line
        });
        let _ = match line {
            Ok(line) => writeln!(text, "{}", line.trim_end()),
            Err(error) => writeln!(text, "{name:32} {error}"),
        };
    }
    Ok(text + &summary.text())
}

/// How far a simulated case is off.
struct Row {
    is_exact: bool,
    /// Of the allocated peak, in percent.
    error: f64,
    /// Of the reserved peak, in percent.
    reserved_error: f64,
    /// Phases that end with the measured bytes, of how many.
    phases: (usize, usize),
    /// Of nvidia-smi's figure for the process, in MiB, where it was recorded.
    device_error: Option<f64>,
}

/// The largest difference from nvidia-smi's figure that counts as a match, in MiB.
const DEVICE_LIMIT: f64 = 30.0;

impl Row {
    fn new(case: &Case, run: &Run, context: CudaContext) -> Row {
        let peak = run.phases.iter().skip(1).map(|phase| phase.peak.allocated).max().unwrap_or(0);
        let same = run.phases.iter().zip(&case.phases).filter(|(one, other)| one.allocated == other.allocated).count();
        let percent = |predicted: u64, measured: u64| (predicted as f64 / measured as f64 - 1.0) * 100.0;
        Row {
            is_exact: peak == case.peak_allocated,
            error: percent(peak, case.peak_allocated),
            reserved_error: percent(run.peak_reserved, case.peak_reserved),
            phases: (same, case.phases.len()),
            device_error: case.device_used().map(|used| {
                let streams = if run.libraries.has_streams { STREAMS } else { 0 };
                let predicted =
                    run.peak_reserved + context.bytes(run.libraries.blas_handles(), run.libraries.dnn) + streams;
                (predicted as f64 - used as f64) / f64::from(1 << 20)
            }),
        }
    }
}

/// All rows in a few numbers.
#[derive(Default)]
struct Summary {
    rows: Vec<Row>,
}

impl Summary {
    fn text(&self) -> String {
        let count = self.rows.len();
        let exact = self.rows.iter().filter(|row| row.is_exact).count();
        let phases = self.rows.iter().fold((0, 0), |sum, row| (sum.0 + row.phases.0, sum.1 + row.phases.1));
        let spread = |take: fn(&Row) -> f64| {
            let mut errors: Vec<f64> = self.rows.iter().map(|row| take(row).abs()).collect();
            errors.sort_by(f64::total_cmp);
            let median = errors.get(count / 2).copied().unwrap_or(0.0);
            let worst = errors.last().copied().unwrap_or(0.0);
            format!("median {median:.2} %, worst {worst:.2} %")
        };
        let (error, reserved) = (spread(|row| row.error), spread(|row| row.reserved_error));
        let mut devices: Vec<f64> = self.rows.iter().filter_map(|row| row.device_error.map(f64::abs)).collect();
        devices.sort_by(f64::total_cmp);
        let near = devices.iter().filter(|error| **error <= DEVICE_LIMIT).count();
        format!(
            "\n{count} cases: the measured peak to the byte in {exact} ({:.1} %)\n  allocated: {error}\n  reserved:  \
             {reserved}\n  device_used: within {DEVICE_LIMIT} MiB of nvidia-smi in {near} of {} cases, median {:.1}, worst {:.1} \
             MiB\n  {} of {} phases end with the measured bytes\n",
            exact as f64 * 100.0 / count.max(1) as f64,
            devices.len(),
            devices.get(devices.len() / 2).copied().unwrap_or(0.0),
            devices.last().copied().unwrap_or(0.0),
            phases.0,
            phases.1
        )
    }
}

/// The page `docs/estimate-accuracy.md`.
///
/// # Errors
/// The measurements cannot be read.
pub fn page() -> Result<String> {
    let (transformers, networks, adapted) = (overview(1)?, overview(2)?, overview(3)?);
    Ok(format!(
        "# How exact the estimate is\n\nMade by `cargo run --release -p vramfit-validation -- estimate --write`: every \
         measured case (one H200, torch 2.11.0+cu130, two or three runs per case), simulated from its capture without a \
         GPU.\n\n- peak: predicted against measured `max_memory_allocated`\n- phases: how many end with the measured \
         allocated bytes\n- events: how many allocations and frees agree with the recorded trace, from the \
         first one on, of how many (without the order of frees between two allocations where it is random); core: the \
         same without cuDNN's workspaces\n- reserved: predicted minus measured `max_memory_reserved`\n\nWhere all \
         events agree and a number does not, CUDA placed a segment at another address than [the rules](cuda-addresses.md) predict. \
         `vramfit estimate` then answers with a range.\n\n## Transformers and MLPs\n\n```\n{transformers}```\n\n## \
         Convolutions and recurrent layers\n\n[cudnn-workspaces.md](cudnn-workspaces.md) explains how cuDNN's workspaces \
         are predicted.\n\n```\n{networks}```\n\n## Adapters and quantised weights\n\nModules of peft and bitsandbytes \
         ([fine-tuning.md](fine-tuning.md)).\n\n```\n{adapted}```\n"
    ))
}
