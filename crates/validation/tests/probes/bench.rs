//! Runs rules as the probe script ran operators: on leaves, in the middle of a network, without gradients.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use smallvec::{SmallVec, smallvec};
use vramfit_eager::autograd::engine;
use vramfit_eager::autograd::{Backward, Context, Gradients, Node, Tensor, Thread};
use vramfit_eager::machine::H200;
use vramfit_eager::memory::{Entry, Memory, SharedMemory};
use vramfit_eager::operators::{Call, MemoryRule, facts, find};
use vramfit_graph::bind::{BoundTensor, Value};
use vramfit_graph::dtype::Dtype;
use vramfit_graph::format::Format;
use vramfit_graph::layout::{Layout, contiguous_strides};
use vramfit_graph::model::TensorId;

use crate::recorded::Probe;

/// A tensor by its number on the bench.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Id(pub u32);

/// An argument of a call.
pub trait IntoValue {
    fn value(self) -> Value;
}
impl IntoValue for Id {
    fn value(self) -> Value {
        Value::Tensor(TensorId(self.0))
    }
}
impl IntoValue for i64 {
    fn value(self) -> Value {
        Value::Int(self)
    }
}
impl IntoValue for f64 {
    fn value(self) -> Value {
        Value::Float(self)
    }
}
impl IntoValue for bool {
    fn value(self) -> Value {
        Value::Bool(self)
    }
}
impl IntoValue for () {
    fn value(self) -> Value {
        Value::None
    }
}
impl IntoValue for Dtype {
    fn value(self) -> Value {
        Value::Dtype(self)
    }
}
impl IntoValue for &str {
    fn value(self) -> Value {
        Value::Text(self.to_owned())
    }
}
impl IntoValue for Value {
    fn value(self) -> Value {
        self
    }
}
impl<T: IntoValue> IntoValue for Vec<T> {
    fn value(self) -> Value {
        Value::List(self.into_iter().map(IntoValue::value).collect())
    }
}

/// The arguments of a call, mixed as they come.
#[macro_export]
macro_rules! with {
    ($($argument:expr),* $(,)?) => { vec![$($crate::bench::IntoValue::value($argument)),*] };
}

/// A type and shape that a call is said to give; strides are left to the rule.
pub type Given = (Dtype, Vec<i64>);

/// The simulated process with the probe's tensors.
pub struct Bench {
    pub context: Context,
    pub probe: Probe,
    memory: SharedMemory,
    tensors: Vec<Option<Tensor>>,
    names: HashMap<u32, String>,
    /// What went wrong.
    pub error: Option<String>,
}

impl Bench {
    fn new(probe: &Probe) -> Bench {
        let memory = Memory::new();
        let memory = Rc::new(RefCell::new(memory));
        let mut context = Context::new(Rc::clone(&memory), H200);
        for thread in [Thread::Backward, Thread::Main] {
            context.set_thread(thread);
            context.use_blas_lt();
        }
        Bench { context, probe: probe.clone(), memory, tensors: Vec::new(), names: HashMap::new(), error: None }
    }

    fn put(&mut self, tensor: Tensor) -> Id {
        self.tensors.push(Some(tensor));
        Id(self.tensors.len() as u32 - 1)
    }

    fn journal_length(&self) -> usize {
        self.memory.borrow().journal().len()
    }

    /// Names the memory that was asked for last.
    fn name_last(&mut self, name: String) {
        let last = self.memory.borrow().journal().iter().rev().find_map(|entry| match entry {
            Entry::Allocate { id, .. } => Some(*id),
            Entry::Free { .. } => None,
        });
        if let Some(id) = last {
            self.names.insert(id, name);
        }
    }

    pub fn tensor(&self, id: Id) -> &Tensor {
        self.tensors[id.0 as usize].as_ref().expect("the tensor is there")
    }

    pub fn shape(&self, id: Id) -> Vec<i64> {
        self.tensor(id).shape().to_vec()
    }

    pub fn dtype(&self, id: Id) -> Dtype {
        self.tensor(id).dtype()
    }

    /// Python drops a tensor.
    pub fn free(&mut self, id: Id) {
        self.tensors[id.0 as usize] = None;
    }

    /// A call whose one result has the broadcast shape and common type of its tensors, unless the probe's own output
    /// says otherwise.
    pub fn call(&mut self, name: &str, arguments: Vec<Value>) -> Id {
        let given = self.elementwise_result(&arguments);
        self.call_as(name, arguments, given)
    }

    /// A call with one result of the given type and shape.
    pub fn call_as(&mut self, name: &str, arguments: Vec<Value>, given: Given) -> Id {
        self.call_all(name, arguments, &[given])[0]
    }

    /// A call with the results of the probe as recorded.
    pub fn last(&mut self, name: &str, arguments: Vec<Value>) -> Vec<Id> {
        let leaf = self.probe.modes.values().find(|mode| !mode.outputs.is_empty());
        let Some(mode) = leaf else { return vec![self.call(name, arguments)] };
        let given: Vec<Given> = mode.outputs.iter().map(|(shape, _, dtype)| (*dtype, shape.clone())).collect();
        self.call_all(name, arguments, &given)
    }

    /// A call with several results.
    pub fn call_all(&mut self, name: &str, arguments: Vec<Value>, given: &[Given]) -> Vec<Id> {
        let captured: Vec<BoundTensor> = given.iter().map(|(dtype, shape)| bound(*dtype, shape)).collect();
        let is_in_place = name.split('.').nth(1).is_some_and(|base| base.ends_with('_') && !base.ends_with("__"));
        let results = {
            let call =
                Call { arguments: &arguments, tensors: &self.tensors, captured: captured.iter().map(Some).collect() };
            match facts(find(name)).memory {
                MemoryRule::Modelled(rule) => rule(&mut self.context, &call).map_err(|_| format!("{name}: unmodelled")),
                MemoryRule::NotModelled => Err(format!("{name}: no rule")),
            }
        };
        match results {
            Ok(results) if is_in_place => {
                let Value::Tensor(TensorId(target)) = arguments[0] else { panic!("in place of no tensor") };
                self.tensors[target as usize] = results.into_iter().next();
                vec![Id(target)]
            }
            Ok(results) => results.into_iter().map(|result| self.put(result)).collect(),
            Err(error) => {
                self.error.get_or_insert(error);
                let context = &self.context;
                let made: Vec<Tensor> =
                    given.iter().map(|(dtype, shape)| context.empty_contiguous(*dtype, shape)).collect();
                made.into_iter().map(|tensor| self.put(tensor)).collect()
            }
        }
    }

    fn elementwise_result(&self, arguments: &[Value]) -> Given {
        let mut shape: Vec<i64> = Vec::new();
        let mut dtype: Option<Dtype> = None;
        for value in arguments {
            let Value::Tensor(TensorId(id)) = value else { continue };
            let tensor = self.tensor(Id(*id));
            let other = tensor.shape();
            while shape.len() < other.len() {
                shape.insert(0, 1);
            }
            let skipped = shape.len() - other.len();
            for (dim, &size) in other.iter().enumerate() {
                if shape[skipped + dim] == 1 {
                    shape[skipped + dim] = size;
                }
            }
            dtype = Some(dtype.map_or(tensor.dtype(), |known| wider(known, tensor.dtype())));
        }
        (dtype.unwrap_or(Dtype::Float32), shape)
    }
}

fn wider(one: Dtype, other: Dtype) -> Dtype {
    match (one.is_differentiable(), other.is_differentiable()) {
        (true, false) => one,
        (false, true) => other,
        (true, true) if one != other => Dtype::Float32,
        _ => one,
    }
}

fn bound(dtype: Dtype, shape: &[i64]) -> BoundTensor {
    let elements: i64 = shape.iter().product();
    BoundTensor {
        dtype,
        shape: shape.into(),
        strides: contiguous_strides(shape),
        storage: 0,
        offset: 0,
        elements,
        bytes: elements.unsigned_abs() * dtype.bytes(),
        extent: elements.unsigned_abs() * dtype.bytes(),
        requires_grad: false,
        is_leaf: false,
        is_on_host: false,
        is_view: false,
    }
}

/// What a row does: calls with the probe's arguments, and its results.
pub type Body = fn(&mut Bench, &[Id]) -> Vec<Id>;

/// Runs a probe in a mode: the events of all parts, in order.
pub fn run(probe: &Probe, mode: &str, body: Body) -> Result<Vec<String>, String> {
    let mut bench = Bench::new(probe);
    bench.context.set_grad(mode != "no_grad");
    let mut leaves = Vec::new();
    let mut arguments = Vec::new();
    for (position, argument) in probe.arguments.iter().enumerate() {
        let mut layout = Layout::contiguous(argument.dtype, &argument.shape);
        if argument.layout.as_deref() == Some("transposed") {
            let rank = argument.shape.len();
            let mut swapped = argument.shape.clone();
            swapped.swap(rank - 1, rank - 2);
            layout.strides = contiguous_strides(&swapped);
            layout.strides.swap(rank - 1, rank - 2);
        } else if argument.layout.as_deref() == Some("channels-last") {
            layout = Format::ChannelsLast.layout(argument.dtype, &argument.shape);
        } else if argument.layout.is_some() {
            return Err("layout".to_owned());
        }
        let mut tensor = bench.context.empty(layout);
        let name = if argument.role == "activation" && mode == "chained" { "leaf" } else { "in" };
        bench.name_last(format!("{name}{position}"));
        if argument.role != "constant" {
            let gradient = Rc::new(RefCell::new(None));
            let edge = engine::sink(Rc::clone(&gradient), tensor.shared_layout(), 0);
            tensor = tensor.with_edge(Some(edge));
            leaves.push((tensor.clone(), gradient));
        }
        let mut id = bench.put(tensor);
        if argument.role == "activation" && mode == "chained" {
            let leaf = id;
            id = bench.call("aten.mul.Tensor", with![leaf, 1.0]);
            bench.free(leaf);
            bench.name_last(format!("in{position}"));
        }
        arguments.push(id);
    }
    let start = bench.journal_length();
    let outputs = body(&mut bench, &arguments);
    if let Some(error) = bench.error {
        return Err(error);
    }
    let held = if mode == "no_grad" { Vec::new() } else { backward(&mut bench, mode, &arguments, &outputs) };
    let events = events(&bench, start);
    drop(held);
    drop(leaves);
    Ok(events)
}

/// Runs the backward pass; what the script still holds afterwards.
fn backward(bench: &mut Bench, mode: &str, arguments: &[Id], outputs: &[Id]) -> Vec<Tensor> {
    let needs_grad = |bench: &Bench, id: &Id| bench.tensor(*id).requires_grad();
    let mut ends: Vec<Id> = outputs.iter().copied().filter(|id| needs_grad(bench, id)).collect();
    let mut kept: Vec<Tensor> = Vec::new();
    if mode == "chained" {
        let held: Vec<Tensor> = outputs.iter().map(|id| bench.tensor(*id).clone()).collect();
        // Python clears a list from its end.
        for &id in outputs.iter().chain(arguments.iter().rev()) {
            bench.free(id);
        }
        let mut tensors: Vec<Tensor> = Vec::new();
        for output in held.iter().filter(|output| output.requires_grad()) {
            let id = bench.put(output.clone());
            let end = bench.call("aten.mul.Tensor", with![id, 1.0]);
            tensors.push(bench.tensor(end).clone());
            bench.free(id);
            bench.free(end);
        }
        for output in held {
            drop(output);
        }
        ends = tensors.into_iter().map(|tensor| bench.put(tensor)).collect();
    } else {
        kept = outputs.iter().map(|id| bench.tensor(*id).clone()).collect();
    }
    if ends.is_empty() {
        return kept;
    }
    let roots: Vec<Tensor> = ends.iter().map(|id| bench.tensor(*id).clone()).collect();
    let gradients: Vec<Tensor> =
        roots.iter().map(|root| bench.context.empty(root.layout().like(root.dtype()))).collect();
    bench.context.set_thread(Thread::Backward);
    let inputs: Vec<Option<&Tensor>> = roots.iter().map(Some).collect();
    let edge = bench.context.record(&inputs, 1, |_| gradients.iter().cloned().map(Some).collect(), Roots);
    if let Some(edge) = edge {
        // A first gradient that is no memory starts the node that gives out the others.
        let nothing = Tensor::on_host(Layout::contiguous(Dtype::Float32, &[]));
        engine::run(&mut bench.context, &edge, nothing);
    }
    kept.extend(gradients);
    kept
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

fn events(bench: &Bench, start: usize) -> Vec<String> {
    let memory = bench.memory.borrow();
    let mut numbers: HashMap<u32, usize> = HashMap::new();
    memory.journal()[start..]
        .iter()
        .map(|entry| match entry {
            Entry::Allocate { id, bytes, .. } => {
                numbers.insert(*id, numbers.len());
                format!("+{bytes}")
            }
            Entry::Free { id } => match numbers.get(id) {
                Some(number) => format!("-#{number}"),
                None => format!("-{}", bench.names.get(id).map_or("?", String::as_str)),
            },
        })
        .collect()
}
