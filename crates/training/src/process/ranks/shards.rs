//! A model sharded by `fully_shard`: what its hooks do around each sharded module's forward and backward pass.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

use vramfit_eager::autograd::{Backward, Context, Edge, Gradients, Node, OutputHook, Saved, Tensor};
use vramfit_eager::forward::ModuleHooks;
use vramfit_eager::memory::{Category, SideEventKind, Storage};
use vramfit_graph::model::TensorId;

use super::group::{Group, Phase};
use super::streams::{PIECE, create_streams};
use crate::script::Sharded;

/// A sharded model.
pub(crate) struct Shards {
    state: Rc<RefCell<ShardsState>>,
    /// What open modules were given, before hooks gave them other tensors.
    given: RefCell<Vec<Vec<(TensorId, Tensor)>>>,
    reduces: Rc<Cell<bool>>,
}

pub(super) struct ShardsState {
    pub settings: Sharded,
    pub groups: Vec<Group>,
    /// By module: its group, or none if it has no weights of its own. The root is module 0.
    pub modules: HashMap<u32, Option<usize>>,
    /// The groups in the order of the model's modules.
    pub order: Vec<usize>,
    /// The buffer of the last gather of the forward pass, which the next gather frees.
    last_gathered: Option<Storage>,
    /// What was sent in the last reduction, which the next one frees.
    last_reduced: Option<Storage>,
    /// The groups in the order in which their forward passes ended.
    ended: Vec<usize>,
    /// Whether pinned memory has been taken.
    has_pinned: bool,
}

impl ShardsState {
    pub fn new(settings: Sharded, groups: Vec<Group>, modules: HashMap<u32, Option<usize>>, order: Vec<usize>) -> Self {
        ShardsState {
            settings,
            groups,
            modules,
            order,
            last_gathered: None,
            last_reduced: None,
            ended: Vec::new(),
            has_pinned: false,
        }
    }

    fn unshard(&mut self, context: &Context, index: usize) {
        let group = &mut self.groups[index];
        group.unshard(context, &self.settings);
        let is_forward = group.phase == Phase::Forward;
        // A local variable holds the buffer of the gather before until the function returns.
        let before = if group.gathered.is_some() && is_forward { self.last_gathered.take() } else { None };
        if let Some(buffer) = group.wait_for_unshard(context, &self.settings)
            && is_forward
        {
            self.last_gathered = Some(buffer);
        }
        drop(before);
        // The first copy takes pinned memory for its tables.
        if !std::mem::replace(&mut self.has_pinned, true) {
            context.memory().borrow_mut().add_side_event(SideEventKind::LibraryAllocates(PIECE));
        }
    }

    /// The pre-forward hook of a group.
    fn before_forward(&mut self, context: &Context, index: usize) {
        self.groups[index].phase = Phase::Forward;
        self.unshard(context, index);
    }

    /// The forward hook of a group.
    fn after_forward(&mut self, context: &Context, index: usize) {
        let group = &mut self.groups[index];
        group.reshard(context, &self.settings);
        group.positions.push(self.ended.len());
        group.phase = Phase::Idle;
        self.ended.push(index);
    }

    /// The hook on a module's results: gathers its weights again, and those of the module before it.
    fn before_backward(&mut self, context: &Context, index: usize) {
        if self.groups[index].phase == Phase::BeforeBackward {
            return;
        }
        self.groups[index].phase = Phase::BeforeBackward;
        self.unshard(context, index);
        let position = self.groups[index].positions.pop().and_then(|position| position.checked_sub(1));
        if let Some(&next) = position.and_then(|position| self.ended.get(position)) {
            self.groups[next].unshard(context, &self.settings);
        }
    }

    /// `post_backward`: reshards the weights and reduces their gradients.
    fn after_backward(&mut self, context: &Context, index: usize, reduces: bool) {
        let group = &mut self.groups[index];
        group.phase = Phase::AfterBackward;
        group.add_gradients();
        if !reduces {
            group.reshard(context, &self.settings);
            group.keep_gradients(context, &self.settings);
            return;
        }
        let gradients = group.take_gradients();
        group.reshard(context, &self.settings);
        if gradients.is_empty() {
            return;
        }
        self.last_reduced = None;
        group.reduced = None;
        self.last_reduced = Some(group.reduce(context, &self.settings, gradients));
    }

    /// The callback at the end of a backward pass.
    fn finish_backward(&mut self, context: &Context, reduces: bool) {
        for index in self.order.clone() {
            if self.groups[index].phase != Phase::AfterBackward {
                self.after_backward(context, index, reduces);
            }
            let group = &mut self.groups[index];
            group.phase = Phase::Idle;
            group.reduced = None;
            group.gathered = None;
            group.positions.clear();
        }
        self.ended.clear();
        self.last_reduced = None;
    }
}

impl Shards {
    pub(super) fn new(state: ShardsState) -> Shards {
        Shards { state: Rc::new(RefCell::new(state)), given: RefCell::default(), reduces: Rc::new(Cell::new(true)) }
    }

    /// `set_requires_gradient_sync`.
    pub fn set_reduces(&self, reduces: bool) {
        self.reduces.set(reduces);
    }

    /// Runs when a backward pass has ended.
    pub fn after_backward(&self, context: &Context) {
        self.state.borrow_mut().finish_backward(context, self.reduces.get());
    }

    /// Calls `look` with the shards of the weights.
    pub fn each_tensor(&self, mut look: impl FnMut(&Tensor)) {
        for weight in self.state.borrow().groups.iter().flat_map(|group| &group.weights) {
            look(&weight.shard.tensor);
        }
    }

    /// Casts the floating-point inputs of a module to the type it computes in.
    fn cast_inputs(&self, context: &Context, given: &[TensorId], tensors: &mut [Option<Tensor>]) {
        let Some(dtype) = self.state.borrow().settings.param_dtype else { return };
        context.memory().borrow_mut().set_category(Category::Activations);
        for TensorId(id) in given {
            let slot = &mut tensors[*id as usize];
            let is_cast = |tensor: &mut Tensor| tensor.dtype() != dtype && tensor.dtype().is_differentiable();
            if let Some(tensor) = slot.take_if(is_cast) {
                *slot = Some(context.empty(tensor.like(dtype)).with_edge(tensor.edge().cloned()));
            }
        }
    }

    /// Puts a function on the inputs that require gradients, whose backward is called when the module's has run.
    fn watch_inputs(&self, context: &mut Context, index: usize, given: &[TensorId], tensors: &mut [Option<Tensor>]) {
        let watched: Vec<TensorId> = given
            .iter()
            .copied()
            .filter(|id| tensors[id.0 as usize].as_ref().is_some_and(Tensor::requires_grad))
            .collect();
        let inputs: Vec<Tensor> = watched.iter().filter_map(|id| tensors[id.0 as usize].clone()).collect();
        let references: Vec<Option<&Tensor>> = inputs.iter().map(Some).collect();
        let backward = InputsReady { state: Rc::clone(&self.state), group: index, reduces: Rc::clone(&self.reduces) };
        let Some(edge) = context.record(&references, inputs.len(), |_| Saved::new(), backward) else { return };
        for (output, (id, input)) in watched.iter().zip(&inputs).enumerate() {
            let watched = input.view(input.shared_layout()).with_edge(Some(Edge { output, ..edge.clone() }));
            tensors[id.0 as usize] = Some(watched);
        }
    }
}

impl ModuleHooks for Shards {
    fn entered(&self, context: &mut Context, module: u32, given: &[TensorId], tensors: &mut [Option<Tensor>]) {
        let Some(group) = self.state.borrow().modules.get(&module).copied() else { return };
        let originals = given.iter().filter_map(|id| Some((*id, tensors[id.0 as usize].clone()?))).collect();
        self.given.borrow_mut().push(originals);
        create_streams(context);
        self.cast_inputs(context, given, tensors);
        if let Some(index) = group {
            self.state.borrow_mut().before_forward(context, index);
            self.watch_inputs(context, index, given, tensors);
        }
        context.memory().borrow_mut().set_category(Category::Activations);
    }

    fn left(&self, context: &mut Context, module: u32, results: &[TensorId], tensors: &mut [Option<Tensor>]) {
        let Some(group) = self.state.borrow().modules.get(&module).copied() else { return };
        if let Some(index) = group {
            self.state.borrow_mut().after_forward(context, index);
            if context.is_grad_on() {
                for edge in results.iter().filter_map(|id| tensors[id.0 as usize].as_ref()?.edge()) {
                    let state = Rc::clone(&self.state);
                    let hook = move |context: &mut Context| state.borrow_mut().before_backward(context, index);
                    edge.node.add_hook(OutputHook(Rc::new(hook)));
                }
            }
        }
        if module == 0 {
            self.state.borrow_mut().last_gathered = None;
        }
        for (id, original) in self.given.borrow_mut().pop().into_iter().flatten() {
            let slot = &mut tensors[id.0 as usize];
            if slot.is_some() && !results.contains(&id) {
                *slot = Some(original);
            }
        }
        context.memory().borrow_mut().set_category(Category::Activations);
    }
}

/// The function that `fully_shard` puts on a module's inputs.
struct InputsReady {
    state: Rc<RefCell<ShardsState>>,
    group: usize,
    reduces: Rc<Cell<bool>>,
}

impl std::fmt::Debug for InputsReady {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "InputsReady({})", self.group)
    }
}

impl Backward for InputsReady {
    fn apply(&self, context: &mut Context, _node: &Node, gradients: &mut Gradients) -> Gradients {
        self.state.borrow_mut().after_backward(context, self.group, self.reduces.get());
        context.memory().borrow_mut().set_category(Category::Temporary);
        std::mem::take(gradients)
    }
}
