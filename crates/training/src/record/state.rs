//! What a step or micro-batch leaves behind: two that leave the same behind are followed by the same requests.

use std::rc::Rc;

use vramfit_eager::autograd::Tensor;
use vramfit_eager::launch::Launched;
use vramfit_eager::memory::{Category, Storage};
use vramfit_graph::layout::Layout;

use crate::optimizer::Optimizer;
use crate::process::{Process, Rank};

/// Everything that is live between two steps, in a fixed order.
pub(super) struct State {
    /// The ids of the live allocations, in the order in which they are first found.
    ids: Vec<u32>,
    /// The reference count of each.
    handles: Vec<u32>,
    /// Tensors that each step creates again.
    fresh: Vec<Fresh>,
    /// How many tensors each holder has.
    counts: Vec<usize>,
    launched: Launched,
    /// How many of `ids`, from the first on, stay from step to step.
    lasting: usize,
}

/// A tensor that each step creates again.
#[derive(PartialEq, Eq)]
struct Fresh {
    layout: Rc<Layout>,
    category: Option<Category>,
    has_edge: bool,
    handles: usize,
    /// The index of its memory in [`State::ids`].
    memory: Option<usize>,
}

/// Allocations on their way into a [`State`].
struct Collector {
    /// By id: its index in `ids` plus 1, or 0.
    indexes: Vec<u32>,
    ids: Vec<u32>,
    handles: Vec<u32>,
}

impl Collector {
    fn add(&mut self, id: u32, handles: usize) -> usize {
        let index = &mut self.indexes[id as usize];
        if *index == 0 {
            self.ids.push(id);
            self.handles.push(handles as u32);
            *index = self.ids.len() as u32;
        }
        *index as usize - 1
    }

    fn add_tensor(&mut self, tensor: &Tensor) -> Option<usize> {
        let id = tensor.storage()?.id()?;
        Some(self.add(id, tensor.storage_handles()))
    }

    fn add_fresh(&mut self, tensor: &Tensor) -> Fresh {
        Fresh {
            layout: tensor.shared_layout(),
            category: tensor.storage().map(|storage| storage.category()),
            has_edge: tensor.requires_grad(),
            handles: tensor.handles(),
            memory: self.add_tensor(tensor),
        }
    }
}

impl State {
    /// What the process holds. `None` where the script's names and the libraries do not account for all live memory, such
    /// as that of a graph that no backward pass has freed.
    pub(super) fn of(process: &Process<'_>) -> Option<State> {
        State::with(process, |found, tensor| Some(found.add_fresh(tensor)))
    }

    /// What the process holds without the layouts of fresh tensors, for [`State::is_unchanged`].
    pub(super) fn of_memory(process: &Process<'_>) -> Option<State> {
        State::with(process, |found, tensor| {
            found.add_tensor(tensor);
            None
        })
    }

    fn with(
        process: &Process<'_>,
        mut add_fresh: impl FnMut(&mut Collector, &Tensor) -> Option<Fresh>,
    ) -> Option<State> {
        let (next_id, live) = {
            let memory = process.context.memory().borrow();
            (memory.next_id(), memory.live())
        };
        let mut found = Collector {
            indexes: vec![0; next_id as usize],
            ids: Vec::with_capacity(live as usize),
            handles: Vec::with_capacity(live as usize),
        };
        let mut counts: Vec<usize> = Vec::with_capacity(64);
        for tensor in tensors(process, false) {
            found.add_tensor(tensor);
        }
        for rank in process.ranks.iter().flatten() {
            if !rank.is_settled() {
                return None;
            }
            rank.each_tensor(|tensor| {
                found.add_tensor(tensor);
            });
        }
        for tensor in process.averages.iter().flatten().flat_map(|average| &average.copies) {
            found.add_tensor(tensor);
        }
        for optimizer in process.optimizers.iter().flatten() {
            optimizer.kept().filter_map(Storage::id).for_each(|id| {
                found.add(id, 1);
            });
            counts.extend(optimizer.state_counts());
        }
        process.context.each_workspace(|storage| {
            if let Some(id) = storage.id() {
                found.add(id, 0);
            }
            counts.push(usize::from(storage.id().is_some()));
        });
        let lasting = found.ids.len();
        for id in process.optimizers.iter().flatten().flat_map(Optimizer::replaced).filter_map(Storage::id) {
            found.add(id, 1);
        }
        let mut fresh = Vec::new();
        for tensor in tensors(process, true) {
            fresh.extend(add_fresh(&mut found, tensor));
        }
        for parameter in process.parameters.iter().flatten() {
            let gradient = parameter.gradient.borrow();
            counts.push(usize::from(gradient.is_some()));
            fresh.extend(gradient.as_ref().and_then(|gradient| add_fresh(&mut found, gradient)));
        }
        for pass in &process.passes {
            fresh.extend(pass.names.all().chain(&pass.classes).filter_map(|tensor| add_fresh(&mut found, tensor)));
            counts.extend(pass.names.counts());
            counts.push(usize::from(pass.classes.is_some()));
        }
        for rank in process.ranks.iter().flatten() {
            let tensors = rank.fresh();
            counts.push(tensors.len());
            fresh.extend(tensors.iter().filter_map(|tensor| add_fresh(&mut found, tensor)));
        }
        for tensor in process.scalers.iter().flat_map(|scaler| scaler.kept()) {
            counts.push(usize::from(tensor.is_some()));
            fresh.extend(tensor.and_then(|tensor| add_fresh(&mut found, tensor)));
        }
        let Collector { ids, handles, .. } = found;
        (ids.len() == live as usize).then_some(State {
            ids,
            handles,
            fresh,
            counts,
            launched: process.context.launched_so_far(),
            lasting,
        })
    }

    /// Whether a step that begins with one state requests the same as a step that begins with the other.
    pub(super) fn is_like(&self, other: &State) -> bool {
        self.lasting == other.lasting
            && self.ids[..self.lasting] == other.ids[..other.lasting]
            && self.handles == other.handles
            && self.counts == other.counts
            && self.launched == other.launched
            && self.fresh == other.fresh
    }

    /// Whether another update alone has left this state as it was.
    pub(super) fn is_unchanged(&self, process: &Process<'_>) -> bool {
        let held = tensors(process, false).filter_map(|tensor| tensor.storage()?.id());
        let optimizers = || process.optimizers.iter().flatten();
        let kept = optimizers().flat_map(Optimizer::kept).filter_map(Storage::id);
        let mut workspaces = 0;
        process.context.each_workspace(|_| workspaces += 1);
        let mut known = 0;
        let is_in_order = held.chain(kept).all(|id| {
            let is_next = self.ids.get(known) == Some(&id);
            known += usize::from(is_next);
            is_next || self.ids[..known].contains(&id)
        });
        let mut replaced = optimizers().flat_map(Optimizer::replaced).filter_map(Storage::id);
        let state_counts: Vec<usize> = optimizers().flat_map(Optimizer::state_counts).collect();
        process.context.memory().borrow().live() as usize == self.ids.len()
            && is_in_order
            && replaced.all(|id| self.ids.contains(&id))
            && known + workspaces == self.lasting
            && self.counts.starts_with(&state_counts)
            && self.launched == process.context.launched_so_far()
    }

    /// The ids that stay from step to step.
    pub(super) fn lasting(&self) -> &[u32] {
        &self.ids[..self.lasting]
    }

    /// All ids, in the same order in every state.
    pub(super) fn ids(&self) -> &[u32] {
        &self.ids
    }
}

/// The tensors that exist before a pass: those that each step creates again, or the others.
fn tensors<'p>(process: &'p Process<'_>, are_fresh: bool) -> impl Iterator<Item = &'p Tensor> {
    process.passes.iter().zip(&process.script.passes).flat_map(move |(live, pass)| {
        let model = pass.bound.model;
        let weights = model.parameters.len() + model.buffers.len();
        let inputs = weights..weights + model.inputs.len() + model.targets.len();
        let has_fresh_weights = process.ranks[pass.model].as_ref().is_some_and(Rank::has_fresh_weights);
        let is_fresh = move |index: usize| match index < model.parameters.len() {
            true => has_fresh_weights,
            false => live.has_fresh_inputs && inputs.contains(&index),
        };
        let tensors = live.tensors.iter().enumerate();
        tensors.filter(move |(index, _)| is_fresh(*index) == are_fresh).filter_map(|(_, tensor)| tensor.as_ref())
    })
}
