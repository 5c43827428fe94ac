//! What `vramfit estimate` shows.

use anstyle::{AnsiColor, Style};
use serde::Serialize;
use serde_json::{Map, Value, json};
use vramfit_graph::bind::{Bound, BoundStep};
use vramfit_graph::model::Mode;
use vramfit_step::memory::{Category, Peak};
use vramfit_step::training::{Loop, Phase, PhaseReport, Run};

use crate::out_of_memory::{DeviceMemory, message};
use crate::size::{grouped, human};

/// The CUDA context with its libraries on an H200: 751 to 767 MiB were measured, by what had been loaded.
const CONTEXT: u64 = 767 << 20;

/// What was asked.
pub struct Question<'a> {
    /// The model's name or file.
    pub model: &'a str,
    /// The model at the sizes asked for.
    pub bound: &'a Bound<'a>,
    /// The loop.
    pub training: &'a Loop,
    /// `--vram`.
    pub vram: Option<u64>,
}

/// The contract's JSON.
#[derive(Debug, Serialize)]
pub struct EstimateReport {
    model: String,
    settings: Value,
    parameters: u64,
    peak_allocated: u64,
    peak_reserved: u64,
    device_used: u64,
    peak: Value,
    breakdown: Map<String, Value>,
    phases: Vec<Value>,
    exact: bool,
    unmodelled: Vec<String>,
    /// What was guessed from similar recordings, with how often; the range covers what they took.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    guessed: Vec<String>,
    range: Range,
    reserved_range: Range,
    fit: Option<Fit>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notes: Vec<String>,
}

/// The least and the most a number may be.
#[derive(Clone, Copy, Debug, Serialize)]
struct Range {
    low: u64,
    high: u64,
}

/// Whether it fits.
#[derive(Clone, Debug, Serialize)]
struct Fit {
    gpu: Option<String>,
    capacity: u64,
    verdict: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
}

const CATEGORIES: [(&str, Category); Category::COUNT] = [
    ("parameters", Category::Parameters),
    ("gradients", Category::Gradients),
    ("optimizer", Category::Optimizer),
    ("activations", Category::Activations),
    ("inputs", Category::Inputs),
    ("outputs", Category::Outputs),
    ("temporary", Category::Temporary),
    ("workspace", Category::Workspace),
];

impl EstimateReport {
    /// The report on `runs`: the same simulation under several orders of addresses, the usual one first.
    pub fn new(question: &Question<'_>, runs: &[Run]) -> EstimateReport {
        let run = &runs[0];
        let top = run.peak();
        let peak = top.map_or_else(Peak::default, |phase| phase.peak);
        let allocated = |run: &Run| run.peak().map_or(0, |phase| phase.peak.allocated);
        let range = range(runs.iter().map(allocated));
        let reserved_range = range_of_reserved(runs);
        let unmodelled: Vec<String> = run.missing.iter().map(|(name, count)| format!("{name} ×{count}")).collect();
        let guessed: Vec<String> = run.guessed.iter().map(|(name, count)| format!("{name} ×{count}")).collect();
        let exact = unmodelled.is_empty()
            && guessed.is_empty()
            && range.low == range.high
            && reserved_range.low == reserved_range.high;
        EstimateReport {
            model: question.model.to_owned(),
            settings: settings(question),
            parameters: question.bound.model.parameter_count().unwrap_or(u64::MAX),
            peak_allocated: peak.allocated,
            peak_reserved: run.peak_reserved,
            device_used: run.peak_reserved + CONTEXT,
            peak: top.map_or(Value::Null, |phase| place(question.bound, phase)),
            breakdown: breakdown(&peak),
            phases: run.phases.iter().map(phase).collect(),
            exact,
            unmodelled,
            guessed,
            range,
            reserved_range,
            fit: question.vram.map(|capacity| fit(capacity, runs)),
            notes: question.bound.model.notes.clone(),
        }
    }

    /// Whether it fits, as far as a capacity is known.
    pub fn fits(&self) -> bool {
        self.fit.as_ref().is_none_or(|fit| fit.verdict == "fits")
    }

    /// The report for a terminal.
    pub fn text(&self) -> String {
        let bold = Style::new().bold();
        let good = AnsiColor::Green.on_default();
        let bad = AnsiColor::Red.on_default().bold();
        let mut text = format!("{bold}{}{bold:#}: {} parameters\n\n", self.model, grouped(self.parameters));
        let spread = |range: Range| match range.low == range.high {
            true => String::new(),
            false if self.guessed.is_empty() => {
                format!("   {} to {}, by the order of addresses", human(range.low), human(range.high))
            }
            false => format!("   {} to {}, by guessed workspaces", human(range.low), human(range.high)),
        };
        text += &format!("peak allocated  {:>10}{}\n", human(self.peak_allocated), spread(self.range));
        text += &format!("peak reserved   {:>10}{}\n", human(self.peak_reserved), spread(self.reserved_range));
        text += &format!("on the device   {:>10}   with the CUDA context of an H200\n", human(self.device_used));
        let word = |key: &str| self.peak[key].as_str().unwrap_or("").to_owned();
        let step = self.peak["step"].as_u64().map_or_else(String::new, |step| format!("step {}, ", step + 1));
        let module = word("module");
        let place = if module.is_empty() { word("op") } else { format!("{module} ({})", word("op")) };
        text += &format!("the peak is in  {step}{} {place}\n\n", word("phase"));
        for (name, bytes) in &self.breakdown {
            let bytes = bytes.as_u64().unwrap_or(0);
            let part = 100.0 * bytes as f64 / self.peak_allocated.max(1) as f64;
            if bytes > 0 {
                text += &format!("  {name:14}{:>10} {part:5.1} %\n", human(bytes));
            }
        }
        text += &format!("\n  {:16}{:>12}{:>12}{:>12}\n", "phase", "peak", "at its end", "reserved");
        for phase in &self.phases {
            let number = |key: &str| human(phase[key].as_u64().unwrap_or(0));
            let step = phase["step"].as_u64().map_or_else(String::new, |step| format!("{} ", step + 1));
            let name = format!("{step}{}", phase["phase"].as_str().unwrap_or(""));
            text +=
                &format!("  {name:16}{:>12}{:>12}{:>12}\n", number("peak"), number("allocated"), number("reserved"));
        }
        if !self.unmodelled.is_empty() {
            text += &format!("\n{bad}not modelled{bad:#}: {}\n", self.unmodelled.join(", "));
        }
        if !self.guessed.is_empty() {
            text += &format!("\nguessed from similar recordings: {}\n", self.guessed.join(", "));
        }
        for note in &self.notes {
            text += &format!("\nnote: {note}\n");
        }
        if let Some(fit) = &self.fit {
            let style = if fit.verdict == "fits" { good } else { bad };
            text += &format!("\n{style}{}{style:#} in {}\n", fit.verdict, human(fit.capacity));
            if let Some(message) = &fit.message {
                text += &format!("  {message}\n");
            }
        }
        text
    }
}

fn range(values: impl Iterator<Item = u64>) -> Range {
    let (low, high) = values.fold((u64::MAX, 0), |(low, high), value| (low.min(value), high.max(value)));
    Range { low: low.min(high), high }
}

fn range_of_reserved(runs: &[Run]) -> Range {
    range(runs.iter().map(|run| run.peak_reserved))
}

fn fit(capacity: u64, runs: &[Run]) -> Fit {
    let failed = runs.iter().filter(|run| run.failure.is_some()).count();
    let is_sure = runs.iter().all(|run| run.missing.is_empty());
    let verdict = match failed {
        0 if is_sure => "fits",
        count if count == runs.len() => "does-not-fit",
        _ => "too-close",
    };
    let failure = runs.iter().find_map(|run| run.failure);
    let message = failure.map(|error| message(&error, &DeviceMemory::default()));
    Fit { gpu: None, capacity, verdict, message }
}

fn settings(question: &Question<'_>) -> Value {
    let training = question.training;
    let bound = question.bound;
    let sizes: Map<String, Value> = bound
        .model
        .symbols
        .iter()
        .zip(bound.sizes.as_slice())
        .map(|(symbol, &size)| (symbol.name.clone(), size.into()))
        .collect();
    json!({
        "sizes": sizes,
        "precision": bound.variant.precision.to_string(),
        "mode": if bound.variant.mode == Mode::Train { "train" } else { "eval" },
        "optimizer": training.optimizer.kind.name(),
        "optimizer_impl": training.optimizer.implementation.name(),
        "clip_grad": training.clips_gradients,
        "accumulate": training.accumulate,
        "set_to_none": training.sets_to_none,
        "cudnn_benchmark": training.plans.are_benchmarked,
        "steps": training.steps,
        "vram": question.vram,
    })
}

fn breakdown(peak: &Peak) -> Map<String, Value> {
    let mut map: Map<String, Value> = CATEGORIES
        .iter()
        .map(|&(name, category)| (name.to_owned(), peak.account.requested[category as usize].into()))
        .collect();
    map.insert("rounding".into(), peak.account.rounding.into());
    map
}

fn phase(phase: &PhaseReport) -> Value {
    let mut row = json!({
        "step": phase.step,
        "phase": phase.phase.name(),
        "allocated": phase.allocated,
        "peak": phase.peak.allocated,
        "reserved": phase.reserved,
    });
    if let (Some(micro), Some(row)) = (phase.micro, row.as_object_mut()) {
        row.insert("micro".into(), micro.into());
    }
    row
}

/// Where the program was at the peak.
fn place(bound: &Bound<'_>, phase: &PhaseReport) -> Value {
    let at = phase.peak.place as usize;
    let is_call = phase.phase != Phase::Step;
    let operator = match bound.steps.get(at) {
        Some(BoundStep::Call(call)) if is_call => Some(bound.operator_name(call)),
        _ => None,
    };
    json!({
        "step": phase.step,
        "phase": phase.phase.name(),
        "module": operator.and_then(|_| module_at(bound, at)),
        "op": operator,
    })
}

/// The innermost named module that runs step `at` of the forward pass.
fn module_at(bound: &Bound<'_>, at: usize) -> Option<String> {
    let mut open: Vec<u32> = Vec::new();
    for step in &bound.steps[..at] {
        match step {
            BoundStep::Enter(module, _) => open.push(*module),
            BoundStep::Exit(_, _) => {
                open.pop();
            }
            _ => {}
        }
    }
    let path = |module: &u32| bound.model.modules[*module as usize].path.clone();
    open.iter().rev().find_map(path).filter(|path| !path.is_empty())
}
