//! What a step leaves behind, as far as the next step can tell: two steps that leave the same behind are followed by the
//! same requests.

use std::rc::Rc;

use super::steps::Script;
use crate::optimizer::Optimizer;
use vramfit_eager::autograd::Tensor;
use vramfit_eager::launch::Launched;
use vramfit_eager::memory::{Category, Storage};
use vramfit_graph::layout::Layout;

/// Everything that is held between two steps, in a fixed order.
pub(super) struct State {
    /// The memory, by its number in the requests; each piece once, in the order in which it is first found.
    ids: Vec<u32>,
    /// How often each is counted.
    handles: Vec<u32>,
    /// What comes anew in each step.
    fresh: Vec<Fresh>,
    /// How much there is of everything.
    counts: Vec<usize>,
    launched: Launched,
    /// How many of `ids`, from the first on, stay from step to step.
    lasting: usize,
}

/// A tensor that comes anew in each step.
#[derive(PartialEq, Eq)]
struct Fresh {
    layout: Rc<Layout>,
    category: Option<Category>,
    has_edge: bool,
    handles: usize,
    /// Which of the pieces of memory it lies on.
    memory: Option<usize>,
}

/// Memory on the way into a [`State`].
struct Collector {
    /// For each number of the requests, the place in `ids` plus 1.
    places: Vec<u32>,
    ids: Vec<u32>,
    handles: Vec<u32>,
}

impl Collector {
    fn add(&mut self, id: u32, handles: usize) -> usize {
        let place = &mut self.places[id as usize];
        if *place == 0 {
            self.ids.push(id);
            self.handles.push(handles as u32);
            *place = self.ids.len() as u32;
        }
        *place as usize - 1
    }

    fn tensor(&mut self, tensor: &Tensor) -> Option<usize> {
        let id = tensor.storage()?.id()?;
        Some(self.add(id, tensor.storage_handles()))
    }

    fn fresh(&mut self, tensor: &Tensor) -> Fresh {
        Fresh {
            layout: tensor.shared_layout(),
            category: tensor.storage().map(|storage| storage.category()),
            has_edge: tensor.requires_grad(),
            handles: tensor.handles(),
            memory: self.tensor(tensor),
        }
    }
}

impl State {
    /// What the script holds; `None` where something else holds memory too, such as a part of the graph that no backward
    /// pass has gone through, so that this would not be all.
    pub(super) fn of(script: &Script<'_>) -> Option<State> {
        State::with(script, |found, tensor| Some(found.fresh(tensor)))
    }

    /// The same, as far as the memory goes: what lies where.
    pub(super) fn places(script: &Script<'_>) -> Option<State> {
        State::with(script, |found, tensor| {
            found.tensor(tensor);
            None
        })
    }

    fn with(script: &Script<'_>, mut see: impl FnMut(&mut Collector, &Tensor) -> Option<Fresh>) -> Option<State> {
        let (next_id, live) = {
            let memory = script.context.memory().borrow();
            (memory.next_id(), memory.live())
        };
        let mut found = Collector {
            places: vec![0; next_id as usize],
            ids: Vec::with_capacity(live as usize),
            handles: Vec::with_capacity(live as usize),
        };
        let mut counts: Vec<usize> = Vec::with_capacity(64);
        let model = script.bound.model;
        let weights = model.parameters.len() + model.buffers.len();
        let inputs = weights..weights + model.inputs.len() + model.targets.len();
        let is_fresh = |index: &usize| script.options.has_fresh_inputs && inputs.contains(index);
        let held = || script.tensors.iter().enumerate().filter_map(|(index, held)| held.as_ref().map(|it| (index, it)));
        for (_, tensor) in held().filter(|(index, _)| !is_fresh(index)) {
            found.tensor(tensor);
        }
        if let Some(optimizer) = &script.optimizer {
            optimizer.kept().filter_map(Storage::id).for_each(|id| {
                found.add(id, 1);
            });
            counts.extend(optimizer.has_state().map(State::counted));
        }
        script.context.each_workspace(|storage| {
            if let Some(id) = storage.id() {
                found.add(id, 0);
            }
            counts.push(usize::from(storage.id().is_some()));
        });
        let lasting = found.ids.len();
        let mut fresh = Vec::new();
        for (_, tensor) in held().filter(|(index, _)| is_fresh(index)) {
            fresh.extend(see(&mut found, tensor));
        }
        for parameter in &script.parameters {
            let gradient = parameter.gradient.borrow();
            counts.push(usize::from(gradient.is_some()));
            fresh.extend(gradient.as_ref().and_then(|gradient| see(&mut found, gradient)));
        }
        fresh.extend(script.held.all().chain(&script.classes).filter_map(|tensor| see(&mut found, tensor)));
        counts.extend(script.held.counts());
        counts.push(usize::from(script.classes.is_some()));
        for tensor in script.scaler.iter().flat_map(|scaler| scaler.kept()) {
            counts.push(usize::from(tensor.is_some()));
            fresh.extend(tensor.and_then(|tensor| see(&mut found, tensor)));
        }
        let Collector { ids, handles, .. } = found;
        (ids.len() == live as usize).then_some(State {
            ids,
            handles,
            fresh,
            counts,
            launched: script.context.launched_so_far(),
            lasting,
        })
    }

    /// Whether the next step cannot tell one from the other.
    pub(super) fn is_like(&self, other: &State) -> bool {
        self.lasting == other.lasting
            && self.ids[..self.lasting] == other.ids[..other.lasting]
            && self.handles == other.handles
            && self.counts == other.counts
            && self.launched == other.launched
            && self.fresh == other.fresh
    }

    /// Whether after another step of the optimizer alone everything lies where it lay.
    pub(super) fn still_lies(&self, script: &Script<'_>) -> bool {
        let held = script.tensors.iter().flatten().filter_map(|tensor| tensor.storage()?.id());
        let kept = script.optimizer.iter().flat_map(Optimizer::kept).filter_map(Storage::id);
        let mut workspaces = 0;
        script.context.each_workspace(|_| workspaces += 1);
        let mut known = 0;
        let is_where_it_was = held.chain(kept).all(|id| {
            let is_next = self.ids.get(known) == Some(&id);
            known += usize::from(is_next);
            is_next || self.ids[..known].contains(&id)
        });
        let has_state: Vec<usize> =
            script.optimizer.iter().flat_map(Optimizer::has_state).map(State::counted).collect();
        script.context.memory().borrow().live() as usize == self.ids.len()
            && is_where_it_was
            && known + workspaces == self.lasting
            && self.counts.starts_with(&has_state)
            && self.launched == script.context.launched_so_far()
    }

    /// How much state a weight has, as a count.
    fn counted(state: Option<usize>) -> usize {
        state.map_or(0, |count| count + 1)
    }

    /// The memory that stays from step to step.
    pub(super) fn lasting(&self) -> &[u32] {
        &self.ids[..self.lasting]
    }

    /// The memory, in the same order in every state.
    pub(super) fn ids(&self) -> &[u32] {
        &self.ids
    }
}
