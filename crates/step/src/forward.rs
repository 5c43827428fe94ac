//! The forward pass: the captured calls, one after another.

use std::collections::BTreeMap;
use std::rc::Rc;

use smallvec::SmallVec;
use vramfit_graph::bind::{Bound, BoundCall, BoundStep, Value};
use vramfit_graph::dtype::Dtype;
use vramfit_graph::model::{Cast, TensorId};

use crate::checkpoint::{Frame, Region};
use crate::launch::Launch;
use crate::memory::Category;
use crate::ops::{Call, Context, Rule, Thread, Unmodelled, copied_slices, rule, seen_again};
use crate::tape::{Backward, Edge, Gradients, Node, Saved};
use crate::tensor::{Layout, Tensor};

/// The rule of each operator of a model, found once.
pub struct Rules(Vec<Known>);

/// What is known of an operator.
#[derive(Clone, Copy)]
struct Known {
    rule: Option<Rule>,
    launch: Launch,
    /// Whether cuDNN computes it, forward and backward, so that its handle is made.
    uses_dnn: bool,
    is_in_place: bool,
}

impl<'a> Passes<'a> {
    /// Of a model, with these regions; operators without a rule need what `guess` says.
    pub fn new(bound: &'a Bound<'a>, regions: Vec<Region>, guess: Guess) -> Passes<'a> {
        let mut casts = BTreeMap::new();
        for (index, step) in bound.steps.iter().enumerate().filter(|_| !regions.is_empty()) {
            if let BoundStep::Call(call) = step
                && call.cast == Cast::Kept
            {
                casts.extend(call.results.iter().flatten().map(|&id| (id, index)));
            }
        }
        Passes { bound, rules: Rules::of(bound), regions, guess, casts }
    }
}

impl Rules {
    /// Finds them.
    pub fn of(bound: &Bound<'_>) -> Rules {
        let known = |name: &str| Known {
            rule: rule(name),
            launch: Launch::of(name),
            uses_dnn: uses_dnn(name),
            is_in_place: is_in_place(name),
        };
        Rules(bound.model.operators.iter().map(|operator| known(&operator.name)).collect())
    }
}

/// Operators that no rule covered, with the steps that call them in one pass.
pub type Missing = BTreeMap<String, Vec<u32>>;

/// What an operator without a rule is taken to need.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Guess {
    /// Its results as captured; everything it reads is saved, and each input gets a gradient.
    #[default]
    Usual,
    /// Its results as captured and nothing else: nothing saved, gradients passed on where they can be.
    Least,
    /// As usual, its results saved too, and scratch of [`SCRATCH`] times all that it reads and writes.
    Most,
}

/// How much scratch an operator is taken to need at most, in all it reads and writes. Nothing bounds what an unknown
/// operator does; this covers fused layers, which keep a few activations of their own.
pub const SCRATCH: u64 = 4;

/// What every pass through a model shares.
pub struct Passes<'a> {
    /// The model.
    pub bound: &'a Bound<'a>,
    /// Its operators' rules.
    pub rules: Rules,
    /// What is checkpointed.
    pub regions: Vec<Region>,
    /// What operators without a rule need.
    pub guess: Guess,
    /// The casts of weights that autocast keeps, each with the step that makes it.
    casts: BTreeMap<TensorId, usize>,
}

/// A forward pass under way.
pub struct Forward<'a> {
    passes: &'a Passes<'a>,
    bound: &'a Bound<'a>,
    /// Custom functions that have begun: whether the grad mode was on.
    functions: Vec<bool>,
    /// Autocast regions that have begun: what was cast to before.
    autocasts: Vec<Option<Dtype>>,
    /// Every tensor that Python holds.
    pub tensors: Vec<Option<Tensor>>,
    /// What no rule covered.
    pub missing: Missing,
    /// Where the gradients of tensors go that were written into through views, by their storage.
    written_bases: BTreeMap<u32, Edge>,
}

/// An instant the training loop cares about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Instant {
    /// The model has returned.
    ModelReturned,
    /// The loss is there; the loop's autocast region has not ended yet.
    LossMade,
}

/// The place of what happens outside the captured calls.
pub const NOWHERE: u32 = u32::MAX;

impl<'a> Forward<'a> {
    /// A pass that starts with the tensors that exist before it: weights, inputs, targets.
    pub fn new(passes: &'a Passes<'a>, before: &[Option<Tensor>]) -> Forward<'a> {
        let mut tensors = before.to_vec();
        tensors.resize(passes.bound.tensors.len(), None);
        Forward {
            passes,
            bound: passes.bound,
            functions: Vec::new(),
            autocasts: Vec::new(),
            tensors,
            missing: Missing::new(),
            written_bases: BTreeMap::new(),
        }
    }

    /// Runs the pass; `tell` is told of the instants the loop cares about, with the tensors that Python holds then.
    pub fn run(&mut self, context: &mut Context, mut tell: impl FnMut(&mut Context, &mut [Option<Tensor>], Instant)) {
        context.memory().borrow_mut().set_category(Category::Activations);
        let loss_made = self.loss_made_at();
        let steps = &self.bound.steps;
        let mut regions = self.passes.regions.iter().peekable();
        let mut open: Option<(&Region, Vec<(TensorId, Tensor)>)> = None;
        for (index, step) in steps.iter().enumerate() {
            while regions.next_if(|region| region.first < index).is_some() {}
            if let Some(region) = regions.next_if(|region| region.first == index && context.is_grad_on()) {
                let inputs = self.inputs_of(region);
                if region.is_checkpointed {
                    context.checkpointing.begin(Frame::new((region.first, region.last), inputs));
                    open = Some((region, Vec::new()));
                } else {
                    open = Some((region, inputs));
                }
            }
            if index == loss_made {
                tell(context, &mut self.tensors, Instant::LossMade);
            }
            self.step(context, index, step);
            if open.as_ref().is_some_and(|(region, _)| region.last == index) {
                let memory = Rc::clone(context.memory());
                context.checkpointing.end(&memory);
                open = None;
            }
            if matches!(step, BoundStep::Exit(0, _)) {
                tell(context, &mut self.tensors, Instant::ModelReturned);
            }
        }
        if loss_made == steps.len() {
            tell(context, &mut self.tensors, Instant::LossMade);
        }
    }

    /// Runs a checkpointed region again, until all that its backward pass needs is there.
    pub fn run_again(&mut self, context: &mut Context, frame: &Rc<Frame>) {
        let memory = Rc::clone(context.memory());
        memory.borrow_mut().set_category(Category::Activations);
        let was_grad_on = context.is_grad_on();
        context.set_grad(true);
        for (id, tensor) in &frame.inputs {
            self.tensors[id.0 as usize] = Some(tensor.clone());
        }
        context.checkpointing.begin_again(Rc::clone(frame));
        let (first, last) = frame.steps;
        let steps = &self.bound.steps;
        for (index, step) in steps.iter().enumerate().take(last + 1).skip(first) {
            match step {
                BoundStep::Free(_) => self.step(context, index, step),
                _ if context.checkpointing.is_complete() => {}
                BoundStep::Call(call) => {
                    self.cast_again(context, call);
                    self.step(context, index, step);
                    if context.checkpointing.is_complete() {
                        for id in call.results.iter().flatten() {
                            self.tensors[id.0 as usize] = None;
                        }
                    }
                }
                _ => self.step(context, index, step),
            }
        }
        context.checkpointing.end(&memory);
        context.set_grad(was_grad_on);
        memory.borrow_mut().set_category(Category::Temporary);
    }

    /// Makes the casts of weights that a call uses and an earlier part of the pass has made: a region that is run again
    /// has its own autocast region, which starts without them.
    fn cast_again(&mut self, context: &mut Context, call: &BoundCall<'_>) {
        let mut needed: SmallVec<[usize; 2]> = SmallVec::new();
        let mut add = |id: TensorId| {
            if let Some(&made) = self.passes.casts.get(&id)
                && self.tensors[id.0 as usize].is_none()
            {
                needed.push(made);
            }
        };
        call.arguments.iter().for_each(|value| tensors_of(value, &mut add));
        for made in needed {
            let steps = &self.bound.steps;
            self.step(context, made, &steps[made]);
        }
    }

    /// What a region uses that was there before it, weights and their casts aside.
    fn inputs_of(&self, region: &Region) -> Vec<(TensorId, Tensor)> {
        let given = self.bound.model.parameters.len() + self.bound.model.buffers.len();
        let mut inputs: Vec<(TensorId, Tensor)> = Vec::new();
        let mut add = |id: TensorId| {
            if id.0 as usize >= given
                && !self.passes.casts.contains_key(&id)
                && let Some(tensor) = &self.tensors[id.0 as usize]
                && inputs.iter().all(|(known, _)| *known != id)
            {
                inputs.push((id, tensor.clone()));
            }
        };
        for step in &self.bound.steps[region.first..=region.last] {
            match step {
                BoundStep::Enter(_, tensors) => tensors.iter().for_each(|&id| add(id)),
                BoundStep::Call(call) => call.arguments.iter().for_each(|value| tensors_of(value, &mut add)),
                _ => {}
            }
        }
        inputs
    }

    /// The step before which the script has given the loss its name: after the model and the loss function, within the
    /// outermost autocast region if there is one.
    fn loss_made_at(&self) -> usize {
        let steps = &self.bound.steps;
        let last = steps.iter().rposition(|step| matches!(step, BoundStep::EndLoss | BoundStep::Exit(0, _)));
        last.map_or(steps.len(), |last| last + 1)
    }

    fn step(&mut self, context: &mut Context, index: usize, step: &BoundStep<'_>) {
        match step {
            BoundStep::Call(call) => {
                context.memory().borrow_mut().set_place(index as u32);
                if let Some(visits) = &mut context.visits {
                    visits.note_call(index as u32);
                }
                if context.checkpointing.is_on() {
                    let memory = Rc::clone(context.memory());
                    context.checkpointing.begin_call(index as u32, &memory);
                }
                self.call(context, index, call);
            }
            BoundStep::Free(tensors) => {
                for tensor in *tensors {
                    self.tensors[tensor.0 as usize] = None;
                }
            }
            BoundStep::Grad(is_on) => context.set_grad(*is_on),
            BoundStep::Autocast { is_gpu, dtype, is_enabled, .. } => {
                self.autocasts.push(context.autocast());
                if *is_gpu {
                    context.set_autocast(dtype.filter(|_| *is_enabled));
                }
            }
            BoundStep::EndAutocast => {
                if let Some(before) = self.autocasts.pop() {
                    context.set_autocast(before);
                }
            }
            BoundStep::Function { name, .. } => self.begin_function(context, index, name),
            BoundStep::EndFunction { results, saved } => self.end_function(context, index, results, saved),
            BoundStep::Checkpoint { is_reentrant: true, .. } => {
                self.begin_function(context, index, "torch.utils.checkpoint (reentrant)");
            }
            BoundStep::EndCheckpoint(results) if !results.is_empty() => {
                self.end_function(context, index, results, &[]);
            }
            _ => {}
        }
    }

    /// A function whose backward is not in the capture.
    fn begin_function(&mut self, context: &Context, index: usize, name: &str) {
        self.missing.entry(name.to_owned()).or_default().push(index as u32);
        self.functions.push(context.is_grad_on());
    }

    /// Puts a function whose backward is not known into the graph.
    fn end_function(&mut self, context: &mut Context, index: usize, results: &[TensorId], saved: &[TensorId]) {
        let (Some(true), Some(arguments)) = (self.functions.pop(), self.function_arguments(index)) else { return };
        let was_grad_on = context.is_grad_on();
        context.set_grad(true);
        let inputs: Vec<Tensor> = arguments.iter().filter_map(|id| self.tensors[id.0 as usize].clone()).collect();
        let inputs: Vec<Option<&Tensor>> = inputs.iter().map(Some).collect();
        let saved: Saved = saved.iter().map(|id| self.tensors[id.0 as usize].clone()).collect();
        let touched = inputs.iter().flatten().copied().chain(saved.iter().flatten());
        let unknown = Unknown { guess: self.passes.guess, scratch: scratch(touched) };
        let edge = context.record(&inputs, results.len(), |_| saved, unknown);
        context.set_grad(was_grad_on);
        for (output, id) in results.iter().enumerate() {
            let place = &mut self.tensors[id.0 as usize];
            if let (Some(tensor), Some(edge)) = (place.take(), &edge) {
                let edge = tensor.dtype().is_differentiable().then(|| Edge { output, ..edge.clone() });
                *place = Some(tensor.with_edge(edge));
            }
        }
    }

    /// The arguments of the function or region that ends at this step.
    fn function_arguments(&self, end: usize) -> Option<&'a [TensorId]> {
        let mut depth = 0;
        for step in self.bound.steps[..end].iter().rev() {
            match step {
                BoundStep::EndFunction { .. } | BoundStep::EndCheckpoint(_) => depth += 1,
                BoundStep::Function { arguments, .. } | BoundStep::Checkpoint { arguments, .. } if depth == 0 => {
                    return Some(arguments);
                }
                BoundStep::Function { .. } | BoundStep::Checkpoint { .. } => depth -= 1,
                _ => {}
            }
        }
        None
    }

    fn call(&mut self, context: &mut Context, index: usize, call: &BoundCall<'_>) {
        let is_on_host = |id: &TensorId| self.bound.tensor(*id).is_on_host;
        if !call.results.is_empty() && call.results.iter().flatten().all(is_on_host) {
            self.keep_host_results(call);
            return;
        }
        let view = Call {
            arguments: &call.arguments,
            tensors: &self.tensors,
            captured: call.results.iter().map(|id| id.map(|id| self.bound.tensor(id))).collect(),
        };
        let is_same = |id: &TensorId| call.arguments.iter().any(|it| matches!(it, Value::Tensor(given) if given == id));
        let known = self.passes.rules.0[call.operator as usize];
        if !known.is_in_place && call.results.iter().flatten().all(is_same) {
            return;
        }
        let launch = if !known.is_in_place && is_only_view(&view) { Launch::Quiet } else { known.launch };
        let outcome = match known.rule {
            Some(rule) => rule(context, &view),
            None => Err(Unmodelled),
        };
        let results = match outcome {
            Ok(results) => results,
            Err(Unmodelled) => {
                let name = self.bound.operator_name(call);
                self.missing.entry(name.to_owned()).or_default().push(index as u32);
                unmodelled(context, &view, self.passes.guess)
            }
        };
        drop(view);
        if known.uses_dnn {
            context.use_dnn();
            if results.iter().any(Tensor::requires_grad) {
                context.use_dnn_on(Thread::Backward);
            }
        }
        context.launched(launch);
        for (id, result) in call.results.iter().zip(results) {
            if let Some(id) = id {
                let before = self.tensors[id.0 as usize].take();
                let is_into_view = known.is_in_place && self.bound.tensor(*id).is_view;
                let written =
                    before.as_ref().filter(|before| is_into_view && !is_same_edge(before.edge(), result.edge()));
                let written = written.map(|before| before.edge().cloned());
                drop(before);
                self.tensors[id.0 as usize] = Some(result);
                if let Some(edge) = written {
                    self.write_into_base(context, *id, edge);
                }
            }
        }
    }

    /// A view has been written into, whose gradient went to `before`: its base has a new place in the graph, and so has the
    /// view.
    fn write_into_base(&mut self, context: &mut Context, id: TensorId, before: Option<Edge>) {
        let written = self.tensors[id.0 as usize].take();
        let Some((view, edge)) = written.and_then(|view| view.edge().cloned().map(|edge| (view, edge))) else { return };
        let storage = self.bound.tensor(id).storage;
        let (root, links) = self.base_of(id);
        let live = self.tensors[root].take();
        let is_live = live.is_some();
        let base = live.unwrap_or_else(|| {
            let known = self.written_bases.get(&storage).cloned();
            let edge = known.or_else(|| (0..links).try_fold(before?, |edge, _| edge.node.next.first()?.clone()));
            view.unsafe_view(crate::ops::layout_of(&self.bound.tensors[root])).with_edge(edge)
        });
        let base = {
            let edge = copied_slices(context, &base, view.layout(), edge);
            self.written_bases.insert(storage, edge.clone());
            base.detach().with_edge(Some(edge))
        };
        self.tensors[id.0 as usize] = Some(seen_again(context, &base, &view));
        if is_live {
            self.tensors[root] = Some(base);
        }
    }

    /// The tensor that a view is a view of, and by how many views.
    fn base_of(&self, view: TensorId) -> (usize, usize) {
        let storage = self.bound.tensor(view).storage;
        let (mut id, mut links) = (view, 0);
        while self.bound.tensor(id).is_view {
            let made = self.bound.steps.iter().find_map(|step| match step {
                BoundStep::Call(call) if call.results.contains(&Some(id)) => Some(call),
                _ => None,
            });
            let mut source = None;
            if let Some(call) = made {
                let mut add = |other: TensorId| {
                    if other != id && self.bound.tensor(other).storage == storage {
                        source.get_or_insert(other);
                    }
                };
                call.arguments.iter().for_each(|value| tensors_of(value, &mut add));
            }
            let Some(source) = source else { break };
            id = source;
            links += 1;
        }
        (id.0 as usize, links)
    }

    fn keep_host_results(&mut self, call: &BoundCall<'_>) {
        for id in call.results.iter().flatten() {
            let captured = self.bound.tensor(*id);
            let layout =
                Layout { dtype: captured.dtype, shape: captured.shape.clone(), strides: captured.strides.clone() };
            self.tensors[id.0 as usize] = Some(Tensor::on_host(layout));
        }
    }
}

/// Whether two tensors' gradients go to the same place.
fn is_same_edge(one: Option<&Edge>, other: Option<&Edge>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => Rc::ptr_eq(&one.node, &other.node),
        (None, None) => true,
        _ => false,
    }
}

/// Whether an operator is computed by cuDNN: convolutions and recurrent networks.
fn uses_dnn(name: &str) -> bool {
    let base = name.split('.').nth(1).unwrap_or(name);
    base.contains("conv") || matches!(base, "lstm" | "gru" | "rnn_tanh" | "rnn_relu" | "_cudnn_rnn")
}

/// Whether a call only looks at memory that is there.
fn is_only_view(call: &Call<'_>) -> bool {
    let mut results = call.captured.iter().flatten().peekable();
    results.peek().is_some() && results.all(|result| result.is_view)
}

/// Whether an operator writes into its first argument.
fn is_in_place(name: &str) -> bool {
    name.split('.').nth(1).is_some_and(|base| base.ends_with('_') && !base.ends_with("__"))
}

/// All tensors of an argument.
fn tensors_of(value: &Value, add: &mut impl FnMut(TensorId)) {
    match value {
        Value::Tensor(id) => add(*id),
        Value::List(values) => values.iter().for_each(|value| tensors_of(value, add)),
        _ => {}
    }
}

/// The most scratch that an operator on these tensors is taken to need.
fn scratch<'a>(tensors: impl Iterator<Item = &'a Tensor>) -> u64 {
    let bytes = tensors.fold(0_u64, |sum, tensor| sum.saturating_add(tensor.layout().bytes()));
    bytes.saturating_mul(SCRATCH)
}

/// A function whose backward is not known: a gradient for each input.
#[derive(Debug)]
struct Unknown {
    guess: Guess,
    scratch: u64,
}

impl Backward for Unknown {
    fn apply(&self, context: &mut Context, node: &Node, gradients: &mut Gradients) -> Gradients {
        let scratch = (self.guess == Guess::Most).then(|| context.scratch(self.scratch));
        let incoming = gradients.iter().flatten().next().filter(|_| self.guess == Guess::Least).cloned();
        let results = node
            .inputs
            .iter()
            .enumerate()
            .map(|(index, input)| {
                let input = input.as_ref().filter(|_| node.wants(index))?;
                let is_same = |given: &&Tensor| given.shape() == input.shape.as_slice() && given.dtype() == input.dtype;
                let passed = incoming.as_ref().filter(is_same).cloned();
                Some(passed.unwrap_or_else(|| context.empty_contiguous(input.dtype, &input.shape)))
            })
            .collect();
        drop(scratch);
        results
    }
}

/// An operator without a rule.
fn unmodelled(context: &mut Context, call: &Call<'_>, guess: Guess) -> SmallVec<[Tensor; 1]> {
    let mut inputs: Vec<Option<&Tensor>> = Vec::new();
    let mut add = |id: TensorId| inputs.push(call.tensors.get(id.0 as usize).and_then(Option::as_ref));
    call.arguments.iter().for_each(|value| tensors_of(value, &mut add));
    let results: SmallVec<[Tensor; 1]> = (0..call.captured.len())
        .filter_map(|index| call.result(index).ok())
        .map(|layout| {
            let shares = call.captured.iter().flatten().any(|captured| captured.is_view);
            match inputs.iter().flatten().next() {
                Some(source) if shares => source.view(layout),
                _ => context.empty(layout),
            }
        })
        .collect();
    let scratch = scratch(inputs.iter().flatten().copied().chain(&results));
    if guess == Guess::Most {
        drop(context.scratch(scratch));
    }
    let saved = |_: &dyn Fn(usize) -> bool| -> Saved {
        match guess {
            Guess::Least => Saved::new(),
            Guess::Usual => inputs.iter().map(|input| input.cloned()).collect(),
            Guess::Most => {
                let written = results.iter().map(|result| Some(result.detach()));
                inputs.iter().map(|input| input.cloned()).chain(written).collect()
            }
        }
    };
    let edge = context.record(&inputs, results.len(), saved, Unknown { guess, scratch });
    results
        .into_iter()
        .enumerate()
        .map(|(output, result)| {
            let edge = edge.clone().filter(|_| result.dtype().is_differentiable());
            result.with_edge(edge.map(|edge| Edge { output, ..edge }))
        })
        .collect()
}
