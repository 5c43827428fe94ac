//! What `vramfit estimate` shows.

mod device;
mod holders;
mod html;
mod places;
mod text;

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Map, Value, json};
use vramfit_eager::forward::Choice;
use vramfit_eager::memory::ADDED_LOSS;
use vramfit_eager::memory::Category;
use vramfit_graph::bind::Bound;
use vramfit_graph::model::Mode;
use vramfit_training::judgement::Device;
use vramfit_training::{AddedLoss, Loop, Peak, Phase, PhaseReport, Run, ZeroGrad, address_orders};

pub use device::{Fit, fit, notes};
pub(crate) use device::{mark, room};
pub use holders::Holder;
pub use html::page;
pub(crate) use places::Places;
pub(crate) use text::{led, wrapped};

/// What was asked.
pub struct Question<'a> {
    /// The model's name or file.
    pub model: &'a str,
    /// The model at the sizes asked for.
    pub bound: &'a Bound<'a>,
    /// The loop.
    pub training: &'a Loop,
    /// The GPU, and what PyTorch may reserve there.
    pub device: Device<'a>,
    /// The allocator's settings, in PyTorch's syntax.
    pub alloc_conf: &'a str,
    /// What else to tell, such as settings that change nothing.
    pub notes: Vec<String>,
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
    /// The modules that call what is not modelled.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    unmodelled_in: BTreeMap<String, Vec<String>>,
    range: Range,
    reserved_range: Range,
    fit: Option<Fit>,
    /// Bytes of the CUDA context, which `device_used` adds to what is reserved.
    context: u64,
    is_context_measured: bool,
    /// The largest at the peak.
    holders: Vec<Holder>,
    /// What takes over once the first peak is cut.
    second_peak: Option<SecondPeak>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notes: Vec<String>,
    #[serde(skip)]
    vram: Option<u64>,
}

/// The highest peak in another kind of phase than the first's.
#[derive(Clone, Debug, Serialize)]
struct SecondPeak {
    allocated: u64,
    step: Option<u32>,
    phase: &'static str,
}

/// How many holders are told.
const HOLDERS: usize = 20;

/// The least and the most a number may be.
#[derive(Clone, Debug, Serialize)]
struct Range {
    low: u64,
    high: u64,
    /// What makes them differ.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    by: Vec<&'static str>,
}

impl Range {
    /// Of a number of `runs`: each program's under every order of addresses, the usual program first.
    fn of(runs: &[Run], training: &Loop, number: impl Fn(&Run) -> u64) -> Range {
        let bounds = |runs: &[Run]| {
            let numbers = || runs.iter().map(&number);
            (numbers().min().unwrap_or(0), numbers().max().unwrap_or(0))
        };
        let (low, high) = bounds(runs);
        let (usual_low, usual_high) = bounds(&runs[..address_orders().len().min(runs.len())]);
        let mut by = Vec::new();
        if (usual_low, usual_high) != (low, high) {
            let run = &runs[0];
            if !run.missing.is_empty() {
                by.push("what is not modelled");
            }
            if !run.guessed.is_empty() {
                by.push(if training.is_cudnn_benchmarked { "cuDNN's choice" } else { "guessed workspaces" });
            }
        }
        if usual_low != usual_high {
            by.push("the order of addresses");
        }
        Range { low, high, by }
    }

    /// The same, with an upper end of at most `limit`, if there is one, where the lower is.
    fn within(self, limit: Option<u64>) -> Range {
        let high = limit.map_or(self.high, |limit| self.high.min(limit).max(self.low));
        Range { high, ..self }
    }

    /// What makes its ends differ, in words.
    fn causes(&self) -> String {
        self.by.join(" and ")
    }
}

pub(crate) const CATEGORIES: [(&str, Category); Category::COUNT] = [
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
        // cuDNN's search takes less where there is less: no more than the GPU has.
        let limit = question.training.is_cudnn_benchmarked.then(|| question.device.gpu.capacity().high);
        let range = Range::of(runs, question.training, allocated).within(limit);
        let reserved_range = Range::of(runs, question.training, |run| run.peak_reserved).within(limit);
        let unmodelled: Vec<String> =
            run.missing.iter().map(|(name, places)| format!("{name} ×{}", places.len())).collect();
        let device = &question.device;
        let guessed: Vec<String> = run.guessed.iter().map(|(name, count)| format!("{name} ×{count}")).collect();
        let causes = &question.bound.variant.causes;
        let exact = unmodelled.is_empty()
            && causes.is_empty()
            && guessed.is_empty()
            && range.low == range.high
            && reserved_range.low == reserved_range.high
            && device.is_measured(run.libraries);
        let context = device.context_bytes(run.libraries);
        let places = Places::new(question.bound);
        let mut holders = match run.journal.is_empty() {
            true => Vec::new(),
            false => holders::holders(question.bound, run, &places, peak.instant),
        };
        holders.truncate(HOLDERS);
        let mut notes: Vec<String> = question.bound.model.notes.iter().chain(causes).cloned().collect();
        if !run.guessed.is_empty() {
            notes.push(format!("guessed from similar recordings: {}", guessed.join(", ")));
        }
        notes.extend_from_slice(&question.notes);
        notes.extend(device::notes(device, question.bound, run.libraries));
        EstimateReport {
            model: question.model.to_owned(),
            settings: settings(question.bound, question.training, &question.device, question.alloc_conf),
            parameters: question.bound.model.parameter_count().unwrap_or(u64::MAX),
            peak_allocated: peak.allocated,
            peak_reserved: run.peak_reserved,
            device_used: run.peak_reserved + context,
            peak: top.map_or(Value::Null, |phase| place(&places, phase)),
            breakdown: breakdown(&peak),
            phases: run.phases.iter().map(phase).collect(),
            exact,
            unmodelled,
            guessed,
            unmodelled_in: unmodelled_in(run, &places),
            range,
            reserved_range,
            fit: fit(device, runs),
            context,
            is_context_measured: device.gpu.context.is_some(),
            holders,
            second_peak: top.and_then(|top| second_peak(run, top)),
            notes,
            vram: device.vram,
        }
    }

    /// All that hold memory at the peak, the largest first.
    fn all_holders(&self, bound: &Bound<'_>, run: &Run, places: &Places<'_>) -> Vec<Holder> {
        holders::holders(bound, run, places, run.peak().map_or(0, |phase| phase.peak.instant))
    }

    /// Whether it fits, as far as a capacity is known.
    pub fn fits(&self) -> bool {
        self.fit.as_ref().is_none_or(|fit| fit.verdict == "fits")
    }
}

/// The modules that call each operator without a rule, each once, in order.
fn unmodelled_in(run: &Run, places: &Places<'_>) -> BTreeMap<String, Vec<String>> {
    let modules = |calls: &[u32]| {
        let mut modules: Vec<String> = Vec::new();
        for module in calls.iter().filter_map(|&place| places.module(place)) {
            if modules.last().is_none_or(|last| last != module) {
                modules.push(module.to_owned());
            }
        }
        modules
    };
    run.missing
        .iter()
        .map(|(name, calls)| (name.clone(), modules(calls)))
        .filter(|(_, found)| !found.is_empty())
        .collect()
}

/// The highest peak of the phases of another kind than `top`'s.
fn second_peak(run: &Run, top: &PhaseReport) -> Option<SecondPeak> {
    let is_other = |phase: &&PhaseReport| phase.phase != Phase::Build && phase.phase != top.phase;
    let second = run.phases.iter().filter(is_other).rev().max_by_key(|phase| phase.peak.allocated)?;
    Some(SecondPeak { allocated: second.peak.allocated, step: second.step, phase: second.phase.name() })
}

/// A category's name in the contract.
fn category_name(category: Category) -> &'static str {
    CATEGORIES.iter().find(|(_, known)| *known == category).map_or("temporary", |(name, _)| name)
}

/// All settings of a run, as JSON.
pub fn settings(bound: &Bound<'_>, training: &Loop, device: &Device<'_>, alloc_conf: &str) -> Value {
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
        "grad": bound.variant.has_grad,
        "optimizer": training.optimizer.kind.name(),
        "optimizer_impl": training.optimizer.implementation.name(),
        "weight_decay": training.optimizer.adds_decay,
        "clip_grad": training.clips_gradients,
        "accumulate": training.accumulate,
        "checkpoint": checkpoint(&training.checkpoint),
        "zero_grad": match training.zero_grad {
            ZeroGrad::BeforeForward => "before-forward",
            ZeroGrad::BeforeBackward => "before-backward",
        },
        "set_to_none": training.sets_to_none,
        "cudnn_benchmark": training.is_cudnn_benchmarked,
        "inputs": if training.has_fresh_inputs { "fresh" } else { "kept" },
        "outputs": if training.releases_outputs { "released" } else { "held" },
        "loss": loss(bound, training),
        "steps": training.steps,
        "gpu": device.gpu.name,
        "vram": device.vram,
        "alloc_conf": alloc_conf,
    })
}

/// `--checkpoint`, as it is written.
pub fn checkpoint(choice: &Choice) -> String {
    match choice {
        Choice::Nothing => "none".to_owned(),
        Choice::Blocks => "blocks".to_owned(),
        Choice::Sequential(segments) => format!("sequential:{segments}"),
        Choice::Modules(names) => names.join(","),
    }
}

/// Where the loss comes from.
fn loss(bound: &Bound<'_>, training: &Loop) -> &'static str {
    match training.loss {
        _ if bound.variant.loss.is_some() => "captured",
        AddedLoss::CrossEntropy => "cross-entropy",
        AddedLoss::Mean => "mean",
        AddedLoss::None => "none",
    }
}

pub(crate) fn breakdown(peak: &Peak) -> Map<String, Value> {
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
fn place(places: &Places<'_>, phase: &PhaseReport) -> Value {
    let at = phase.peak.origin;
    let is_forward_or_backward = phase.phase != Phase::Step;
    let operator = places.operator(at).filter(|_| is_forward_or_backward);
    let module = places.module(at).filter(|_| operator.is_some() || at == ADDED_LOSS && is_forward_or_backward);
    json!({
        "step": phase.step,
        "phase": phase.phase.name(),
        "module": module,
        "op": operator,
    })
}
