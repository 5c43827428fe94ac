//! Runs captured probes as the probe script ran operators: on leaves, in the middle of a network, without gradients.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use smallvec::{SmallVec, smallvec};
use vramfit_cudnn::Scenario;
use vramfit_cudnn::convolution::{Assumption, PlanTable};
use vramfit_eager::autograd::engine;
use vramfit_eager::autograd::{Backward, Context, Gradients, Node, Tensor, Thread};
use vramfit_eager::forward::{Forward, Passes};
use vramfit_eager::machine::H200;
use vramfit_eager::memory::{Entry, Memory, SharedMemory};
use vramfit_graph::bind::{Bound, bind};
use vramfit_graph::dtype::Dtype;
use vramfit_graph::layout::Layout;
use vramfit_graph::model::{Mode, Model};
use vramfit_graph::select::Sizes;

use crate::recorded::Probe;

/// What a probe's simulated calls request.
#[derive(Clone, Debug)]
pub struct Simulated(Vec<Event>);

#[derive(Clone, Debug)]
enum Event {
    Allocate {
        id: u32,
        bytes: u64,
        /// For a workspace that is not certain.
        range: Option<(u64, u64)>,
    },
    Free {
        id: u32,
        /// For memory that was there before.
        name: Option<String>,
    },
}

impl Simulated {
    /// How many allocations are workspaces that are not certain.
    fn ranges(&self) -> usize {
        self.0.iter().filter(|event| matches!(event, Event::Allocate { range: Some(_), .. })).count()
    }

    /// Whether only one size was possible for every request.
    pub fn is_certain(&self) -> bool {
        self.ranges() == 0
    }

    /// The events as recordings have them. Of workspaces that are not certain, those are left out whose bit in `absent` is set.
    fn texts(&self, absent: u32, bytes: impl Fn(u64, Option<(u64, u64)>, usize) -> u64) -> Vec<String> {
        let (mut numbers, mut left_out) = (HashMap::new(), Vec::new());
        let (mut texts, mut range_index) = (Vec::new(), 0);
        for event in &self.0 {
            match event {
                Event::Allocate { id, bytes: expected, range } => {
                    if range.is_some() {
                        range_index += 1;
                        if absent.checked_shr(range_index - 1).unwrap_or(0) & 1 == 1 {
                            left_out.push(*id);
                            continue;
                        }
                    }
                    numbers.insert(*id, numbers.len());
                    texts.push(format!("+{}", bytes(*expected, *range, texts.len())));
                }
                Event::Free { id, .. } if left_out.contains(id) => {}
                Event::Free { id, name } => texts.push(match (numbers.get(id), name) {
                    (Some(number), _) => format!("-#{number}"),
                    (None, name) => format!("-{}", name.as_deref().unwrap_or("?")),
                }),
            }
        }
        texts
    }

    /// The events with the expected sizes.
    pub fn expected(&self) -> Vec<String> {
        self.texts(0, |expected, _, _| expected)
    }

    /// Whether the recorded events are possible: each request as it is, or a workspace within its range. A workspace of no
    /// bytes is not recorded.
    pub fn allows(&self, recorded: &[String], ordered: impl Fn(Vec<String>) -> Vec<String>) -> bool {
        let at = |index: usize| recorded.get(index)?.strip_prefix('+')?.parse::<u64>().ok();
        let taken = |expected: u64, range: Option<(u64, u64)>, index: usize| match (range, at(index)) {
            (Some((lower, upper)), Some(bytes)) if (lower..=upper).contains(&bytes) => bytes,
            _ => expected,
        };
        let can_be_absent = |absent: u32| {
            let ranges = self.0.iter().filter_map(|event| match event {
                Event::Allocate { range, .. } => *range,
                Event::Free { .. } => None,
            });
            ranges
                .enumerate()
                .all(|(index, (lower, _))| absent.checked_shr(index as u32).unwrap_or(0) & 1 == 0 || lower == 0)
        };
        // Of many matrices, each of which takes a workspace, all take one.
        let count = if self.ranges() > MOST_ABSENT { 1 } else { 1_u32 << self.ranges() };
        (0..count).filter(|&absent| can_be_absent(absent)).any(|absent| ordered(self.texts(absent, taken)) == recorded)
    }
}

/// So many ranges at most may be workspaces of no bytes.
const MOST_ABSENT: usize = 16;

/// Memory that has a name of its own in the recording.
type Names = HashMap<u32, String>;

/// Runs a probe in a mode: the events of all its parts, in order. `None` where this mode was not captured.
pub fn run(probe: &Probe, model: &Model, mode: &str) -> Option<Result<Simulated, String>> {
    let wanted = match mode {
        "leaf" => Mode::Train,
        "chained" => Mode::EvalGrad,
        _ => Mode::Eval,
    };
    let variant = model.variants.iter().position(|variant| variant.mode == wanted)?;
    let bound = bind(model, variant, &Sizes::example(model).unwrap()).unwrap();
    Some(simulated(probe, &bound, mode == "chained"))
}

/// Peaks of live bytes beyond what was there before: of the forward pass, and of all that follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peaks {
    pub forward: u64,
    pub backward: u64,
}

/// The peaks of a probe on leaves or without gradients, in a scenario. `None` where this mode was not captured.
pub fn peaks(probe: &Probe, model: &Model, mode: &str, scenario: Scenario) -> Option<Peaks> {
    let wanted = if mode == "leaf" { Mode::Train } else { Mode::Eval };
    let variant = model.variants.iter().position(|variant| variant.mode == wanted)?;
    let bound = bind(model, variant, &Sizes::example(model).unwrap()).unwrap();
    let memory: SharedMemory = Rc::new(RefCell::new(Memory::new()));
    let mut context = Context::new(Rc::clone(&memory), H200);
    let tensors = leaves(probe, &bound, &context, &mut Names::new(), false);
    let start = memory.borrow().journal().len();
    context.set_grad(bound.variant.has_grad);
    let passes = Passes::new(&bound, Vec::new(), scenario);
    let mut forward = Forward::new(&passes, &tensors);
    forward.run(&mut context, |_, _, _| {});
    let end = memory.borrow().journal().len();
    let held = if bound.variant.has_grad { backward(&mut context, &bound, &mut forward) } else { Vec::new() };
    let journal = memory.borrow().journal()[start..].to_vec();
    drop((held, forward, tensors));
    let mut sizes: HashMap<u32, u64> = HashMap::new();
    let (mut live, mut peaks) = (0, Peaks { forward: 0, backward: 0 });
    for (index, entry) in journal.iter().enumerate() {
        match entry {
            Entry::Allocate { id, bytes, .. } => {
                sizes.insert(*id, *bytes);
                live += bytes;
            }
            // What was there before is not counted.
            Entry::Free { id } => live -= sizes.remove(id).unwrap_or(0),
        }
        let peak = if start + index < end { &mut peaks.forward } else { &mut peaks.backward };
        *peak = (*peak).max(live);
    }
    Some(peaks)
}

fn simulated(probe: &Probe, bound: &Bound<'_>, is_chained: bool) -> Result<Simulated, String> {
    let memory: SharedMemory = Rc::new(RefCell::new(Memory::new()));
    let mut context = Context::new(Rc::clone(&memory), H200);
    for thread in [Thread::Backward, Thread::Main] {
        context.set_thread(thread);
        context.use_blas_lt();
    }
    let mut names = Names::new();
    let tensors = leaves(probe, bound, &context, &mut names, is_chained);
    let mut start = memory.borrow().journal().len();
    context.set_grad(bound.variant.has_grad);
    let passes = Passes::new(bound, Vec::new(), Scenario::default());
    let mut forward = Forward::new(&passes, &tensors);
    forward.run(&mut context, |_, _, _| {});
    if !forward.missing.is_empty() {
        let missing: Vec<&str> = forward.missing.keys().map(String::as_str).collect();
        return Err(format!("unmodelled: {}", missing.join(", ")));
    }
    if is_chained {
        // The activations are made before the recording begins.
        for (position, _) in probe.roles.iter().enumerate().filter(|(_, role)| *role == "activation") {
            let Entry::Allocate { id, .. } = memory.borrow().journal()[start] else {
                return Err("no input".to_owned());
            };
            names.insert(id, format!("in{position}"));
            start += 1;
        }
    }
    let held = if bound.variant.has_grad { backward(&mut context, bound, &mut forward) } else { Vec::new() };
    let events = events(&memory, &context.plan_table(), &names, start);
    drop((held, forward, tensors));
    Ok(events)
}

/// The probe's arguments, and what else was there before.
fn leaves(
    probe: &Probe,
    bound: &Bound<'_>,
    context: &Context,
    names: &mut Names,
    is_chained: bool,
) -> Vec<Option<Tensor>> {
    let mut tensors = vec![None; bound.tensors.len()];
    let layout = |id: usize| {
        let found = &bound.tensors[id];
        Layout { dtype: found.dtype, shape: found.shape.clone(), strides: found.strides.clone() }
    };
    for id in &bound.variant.constants {
        let place = id.0 as usize;
        tensors[place] = Some(match bound.tensors[place].is_on_host {
            true => Tensor::on_host(layout(place)),
            false => context.empty(layout(place)),
        });
    }
    for parameter in &bound.model.parameters {
        let place = parameter.tensor.0 as usize;
        let tensor = context.empty(layout(place));
        let edge = engine::sink(Rc::new(RefCell::new(None)), tensor.shared_layout(), 0);
        tensors[place] = Some(tensor.with_edge(Some(edge)));
    }
    for (position, (input, role)) in bound.model.inputs.iter().zip(&probe.roles).enumerate() {
        let place = input.tensor.0 as usize;
        let mut tensor = context.empty(layout(place));
        let name = if role == "activation" && is_chained { "leaf" } else { "in" };
        let last = context.memory().borrow().journal().last().copied();
        if let Some(Entry::Allocate { id, .. }) = last {
            names.insert(id, format!("{name}{position}"));
        }
        if role != "constant" {
            let edge = engine::sink(Rc::new(RefCell::new(None)), tensor.shared_layout(), 0);
            tensor = tensor.with_edge(Some(edge));
        }
        tensors[place] = Some(tensor);
    }
    tensors
}

/// Runs the backward pass; what the script still holds afterwards.
fn backward(context: &mut Context, bound: &Bound<'_>, forward: &mut Forward<'_>) -> Vec<Tensor> {
    let outputs: Vec<Tensor> =
        bound.variant.outputs.iter().filter_map(|id| forward.tensors[id.0 as usize].clone()).collect();
    let ends: Vec<&Tensor> = outputs.iter().filter(|output| output.requires_grad()).collect();
    let gradients: Vec<Tensor> = ends.iter().map(|end| context.empty(end.layout().like(end.dtype()))).collect();
    context.set_thread(Thread::Backward);
    let inputs: Vec<Option<&Tensor>> = ends.into_iter().map(Some).collect();
    let edge = context.record(&inputs, 1, |_| gradients.iter().cloned().map(Some).collect(), Roots);
    if let Some(edge) = edge {
        // A first gradient that is no memory starts the node that gives out the others.
        let nothing = Tensor::on_host(Layout::contiguous(Dtype::Float32, &[]));
        engine::run(context, &edge, nothing);
    }
    outputs.into_iter().chain(gradients).collect()
}

/// Gives its saved tensors out as gradients.
#[derive(Debug)]
struct Roots;

impl Backward for Roots {
    fn apply(&self, _context: &mut Context, node: &Node, _gradients: &mut Gradients) -> Gradients {
        let gradients: SmallVec<[Option<Tensor>; 4]> = node.saved.borrow().iter().cloned().collect();
        if gradients.is_empty() { smallvec![] } else { gradients }
    }
}

fn events(memory: &SharedMemory, plans: &PlanTable, names: &Names, start: usize) -> Simulated {
    let event = |entry: &Entry| match *entry {
        Entry::Allocate { id, bytes, plan, .. } => {
            let range = plan.map(|plan| {
                let assuming = |scenario| plans.own(plan, Assumption::All(scenario));
                (assuming(Scenario::Lower), assuming(Scenario::Upper))
            });
            Event::Allocate { id, bytes, range: range.filter(|(lower, upper)| lower < upper) }
        }
        Entry::Free { id } => Event::Free { id, name: names.get(&id).cloned() },
    };
    Simulated(memory.borrow().journal()[start..].iter().map(event).collect())
}
