//! Simulated training steps beside measured ones.

use std::fmt::Write;

use vramfit_allocator::{Settings, SimulatedDriver};
use vramfit_graph::bind::{Bound, bind};
use vramfit_graph::dtype::Dtype;
use vramfit_graph::read::read_file;
use vramfit_graph::select::{SizeFlags, Sizes, VariantFlags, select_variant};
use vramfit_step::checkpoint::Choice;
use vramfit_step::optimizer::{Implementation, Kind, Recipe};
use vramfit_step::training::{H200, Loop, Program, Run, ZeroGrad, record};

use crate::difference;
use crate::measured::{Case, CaseSettings, folder, measured, trace};
use crate::recordings::Result;

/// Simulates a case on a GPU without end and hands the result, requests included, to `look`.
///
/// # Errors
/// There is no capture of the model, or it cannot be used with these settings.
pub fn simulate<T>(case: &Case, look: impl FnOnce(&Bound<'_>, &Run) -> T) -> Result<T> {
    with_program(case, |bound, program| {
        look(bound, &program.run_keeping(Settings::default(), SimulatedDriver::in_process(u64::MAX), true))
    })
}

/// Records what a case asks of the allocator and hands it to `look`.
///
/// # Errors
/// There is no capture of the model, or it cannot be used with these settings.
pub fn with_program<T>(case: &Case, look: impl FnOnce(&Bound<'_>, &Program) -> T) -> Result<T> {
    with_bound(case, |bound, options| {
        let program = record(bound, options, H200).map_err(|error| error.to_string())?;
        Ok(look(bound, &program))
    })?
}

/// Hands a case's model, at its sizes, and its loop to `look`.
///
/// # Errors
/// There is no capture of the model, or it cannot be used with these settings.
pub fn with_bound<T>(case: &Case, look: impl FnOnce(&Bound<'_>, &Loop) -> T) -> Result<T> {
    let path = folder().join(format!("captures/{}.vramfit", case.model));
    let model = read_file(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let settings = &case.settings;
    let flags = SizeFlags { batch: Some(settings.batch), sequence: settings.seq, sizes: Vec::new() };
    let sizes = Sizes::select(&model, &flags).map_err(|error| error.to_string())?;
    let amp = half(&settings.amp);
    let flags = VariantFlags {
        dtype: amp.map_or_else(|| half(&settings.dtype), |_| None),
        amp,
        is_eval: settings.mode == "eval",
        has_grad: settings.grad,
    };
    let variant = select_variant(&model, flags).map_err(|error| error.to_string())?;
    let bound = bind(&model, variant, &sizes).map_err(|error| error.to_string())?;
    let options = options(settings)?;
    Ok(look(&bound, &options))
}

fn half(name: &str) -> Option<Dtype> {
    match name {
        "bf16" => Some(Dtype::Bfloat16),
        "fp16" => Some(Dtype::Float16),
        _ => None,
    }
}

/// The loop of a case.
fn options(settings: &CaseSettings) -> Result<Loop> {
    let kind = Kind::named(&settings.optimizer).ok_or_else(|| format!("no optimizer {}", settings.optimizer))?;
    let implementation = Implementation::named(&settings.optimizer_impl)
        .ok_or_else(|| format!("no implementation {}", settings.optimizer_impl))?;
    let zero_grad = match settings.zero_grad.as_str() {
        "before-forward" => ZeroGrad::BeforeForward,
        "before-backward" => ZeroGrad::BeforeBackward,
        other => return Err(format!("no place {other} for zero_grad")),
    };
    Ok(Loop {
        steps: 3,
        optimizer: Recipe::new(kind, implementation),
        clips_gradients: settings.clip_grad,
        accumulate: settings.accumulate,
        zero_grad,
        sets_to_none: settings.set_to_none,
        has_fresh_inputs: settings.inputs == "fresh",
        checkpoint: checkpoint(&settings.checkpoint),
        ..Loop::default()
    })
}

fn checkpoint(text: &str) -> Choice {
    let segments = text.strip_prefix("sequential:").and_then(|number| number.parse().ok());
    match (text, segments) {
        ("none", _) => Choice::Nothing,
        ("blocks", _) => Choice::Blocks,
        (_, Some(segments)) => Choice::Sequential(segments),
        (names, None) => Choice::Modules(names.split(',').map(str::to_owned).collect()),
    }
}

/// The diff of one case with its recorded trace.
///
/// # Errors
/// The case is not known or cannot be simulated.
pub fn difference_of(name: &str) -> Result<String> {
    let measured = measured()?;
    let case = measured.cases.get(name).ok_or_else(|| format!("no case {name} was measured"))?;
    let trace = trace(name);
    simulate(case, |bound, run| {
        let mut text = String::new();
        for (name, places) in &run.missing {
            let _ = writeln!(text, "unmodelled: {name} ×{}", places.len());
        }
        text += &phases(case, run);
        let Ok(trace) = &trace else {
            text += "no trace was recorded\n";
            return text;
        };
        let (same, all) = difference::agreement(trace, run);
        let _ = writeln!(text, "{name}: {same} of {all} events agree");
        if same < all {
            text += &difference::show(trace, bound, run, same);
        }
        text
    })
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

/// One line a case: agreement of events, and of the numbers at the end of each phase.
///
/// # Errors
/// The measurements cannot be read.
pub fn overview(part: u32) -> Result<String> {
    let measured = measured()?;
    let mut text = String::new();
    let (mut exact, mut simulated) = (0, 0);
    for (name, case) in measured.cases.iter().filter(|(_, case)| case.part == part && !case.phases.is_empty()) {
        let recorded = trace(name).ok();
        let line = simulate(case, |_, run| {
            let peak = run.phases.iter().skip(1).map(|phase| phase.peak.allocated).max().unwrap_or(0);
            let phases = run.phases.iter().zip(&case.phases).filter(|(one, other)| one.allocated == other.allocated);
            let events = recorded.as_ref().map_or((0, 0), |trace| difference::agreement(trace, run));
            simulated += 1;
            exact += usize::from(peak == case.peak_allocated);
            let error = (peak as f64 / case.peak_allocated as f64 - 1.0) * 100.0;
            format!(
                "{name:32} peak {error:+9.4} %  phases {:2}/{:2}  events {:5}/{:5}  reserved {:+.1} MiB {}",
                phases.count(),
                case.phases.len(),
                events.0,
                events.1,
                (run.peak_reserved as f64 - case.peak_reserved as f64) / f64::from(1 << 20),
                run.missing.keys().cloned().collect::<Vec<_>>().join(" ")
            )
        });
        let _ = match line {
            Ok(line) => writeln!(text, "{line}"),
            Err(error) => writeln!(text, "{name:32} {error}"),
        };
    }
    let _ = writeln!(text, "{exact} of {simulated} simulated cases have the measured peak to the byte");
    Ok(text)
}

/// The page `docs/estimate-accuracy.md`.
///
/// # Errors
/// The measurements cannot be read.
pub fn page() -> Result<String> {
    let rows = overview(1)?;
    Ok(format!(
        "# How exact the estimate is\n\nMade by `cargo run --release -p vramfit-validation -- estimate --write`: every \
         measured case of transformers and MLPs (one H200, torch 2.11.0+cu130; three runs a case gave the same numbers), \
         simulated from its capture without a GPU.\n\n- peak: predicted against measured `max_memory_allocated`\n- \
         phases: in how many the allocated bytes at the end are the measured ones\n- events: how many allocations and \
         frees agree with the recorded trace, from the first one on, of how many (the order of frees between two allocations \
         aside, where it is chance)\n- reserved: predicted minus measured `max_memory_reserved`\n\nWhere all events agree and a \
         number does not, CUDA put a segment elsewhere than [the rules](cuda-addresses.md) say. `vramfit estimate` then \
         answers with a range.\n\n```\n{rows}```\n"
    ))
}
