//! Writes into tensors that have views: the base gets a new edge, and so does each view when it is used next.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use vramfit_graph::bind::{Bound, BoundStep};
use vramfit_graph::model::TensorId;

use super::Forward;
use super::passes::Passes;
use crate::autograd::{Context, Edge, Tensor};
use crate::operators::{copied_slices, layout_of, seen_again};

/// The bases that were written into.
#[derive(Debug, Default)]
pub(super) struct WrittenBases {
    by_base: BTreeMap<TensorId, WrittenBase>,
    families: OnceCell<Families>,
}

/// A base that was written into while it had views.
#[derive(Debug, Default)]
struct WrittenBase {
    /// How often.
    writes: u32,
    /// Its edge, where Python holds only views of it: they hold the base.
    edge: Option<Edge>,
    /// After how many writes each view got its edge.
    seen: BTreeMap<TensorId, u32>,
}

/// Which tensors share memory and history.
#[derive(Debug)]
struct Families {
    /// The base of each view, and how many views are between them.
    bases: BTreeMap<TensorId, (TensorId, usize)>,
    /// The views of each base.
    views: BTreeMap<TensorId, Vec<TensorId>>,
}

impl Families {
    fn of(bound: &Bound<'_>, passes: &Passes<'_>) -> Families {
        let mut families = Families { bases: BTreeMap::new(), views: BTreeMap::new() };
        for step in &bound.steps {
            let BoundStep::Call(call) = step else { continue };
            let leaves_base = passes.facts(call).leaves_base;
            for id in call.results.iter().flatten().filter(|id| bound.tensor(**id).is_view) {
                let storage = bound.tensor(*id).storage;
                let mut source = None;
                call.each_tensor(&mut |other: TensorId| {
                    if other != *id && bound.tensor(other).storage == storage {
                        source.get_or_insert(other);
                    }
                });
                // A detached tensor is a base of its own. A result in place has its base already.
                let Some(source) = source.filter(|_| !leaves_base && !families.bases.contains_key(id)) else {
                    continue;
                };
                let (base, links) = families.bases.get(&source).copied().unwrap_or((source, 0));
                families.bases.insert(*id, (base, links + 1));
                families.views.entry(base).or_default().push(*id);
            }
        }
        families
    }
}

impl Forward<'_> {
    fn families(&self) -> &Families {
        self.written_bases.families.get_or_init(|| Families::of(self.bound, self.passes))
    }

    /// The base of a view, or itself where it has a history of its own, and how many views are between them.
    fn base_of(&self, view: TensorId) -> (TensorId, usize) {
        self.families().bases.get(&view).copied().unwrap_or((view, 0))
    }

    fn has_live_views(&self, base: TensorId) -> bool {
        let views = self.families().views.get(&base);
        views.is_some_and(|views| views.iter().any(|view| self.tensors[view.0 as usize].is_some()))
    }

    /// Rebases the history of a view that was written in place; its edge was `before` the write.
    pub(super) fn write_into_base(&mut self, context: &mut Context, id: TensorId, before: Option<Edge>) {
        let written = self.tensors[id.0 as usize].take();
        let Some((view, edge)) = written.and_then(|view| view.edge().cloned().map(|edge| (view, edge))) else { return };
        if self.hidden_views.contains(&id) {
            let hidden = before.and_then(|edge| edge.node.next.first()?.clone());
            let base = view.detach().with_edge(hidden);
            let base = base.detach().with_edge(Some(copied_slices(context, &base, view.layout(), edge)));
            self.tensors[id.0 as usize] = Some(seen_again(context, &base, &view));
            return;
        }
        let (root, links) = self.base_of(id);
        if root == id {
            // A detached tensor is a base of its own.
            self.tensors[root.0 as usize] = Some(view);
            return;
        }
        let live = self.tensors[root.0 as usize].take();
        let is_live = live.is_some();
        let known = self.written_bases.by_base.get(&root).and_then(|base| base.edge.clone());
        let base = live.unwrap_or_else(|| {
            let edge = known.or_else(|| (0..links).try_fold(before?, |edge, _| edge.node.next.first()?.clone()));
            seen_as_base(self.bound, root, &view, edge)
        });
        let edge = copied_slices(context, &base, view.layout(), edge);
        let base = base.detach().with_edge(Some(edge.clone()));
        self.tensors[id.0 as usize] = Some(seen_again(context, &base, &view));
        let written = self.written_bases.by_base.entry(root).or_default();
        written.writes += 1;
        written.seen.insert(id, written.writes);
        if is_live {
            self.tensors[root.0 as usize] = Some(base);
        } else {
            written.edge = Some(edge);
        }
    }

    /// Counts a write into a tensor that may have views.
    pub(super) fn note_write(&mut self, base: TensorId) {
        if self.has_live_views(base) {
            self.written_bases.by_base.entry(base).or_default().writes += 1;
        }
    }

    /// Notes which write a new view has seen.
    pub(super) fn note_view(&mut self, id: TensorId) {
        if self.written_bases.by_base.is_empty() {
            return;
        }
        let (root, _) = self.base_of(id);
        if let Some(base) = self.written_bases.by_base.get_mut(&root).filter(|_| root != id) {
            base.seen.insert(id, base.writes);
        }
    }

    /// Gives a view whose base was written since a new edge, as autograd does when it looks for the old one.
    pub(super) fn renew_view(&mut self, context: &mut Context, id: TensorId) {
        let (root, _) = self.base_of(id);
        let Some(base) = self.written_bases.by_base.get_mut(&root).filter(|_| root != id) else { return };
        if base.seen.get(&id).is_some_and(|&seen| seen == base.writes) {
            return;
        }
        let live = self.tensors[root.0 as usize].as_ref();
        let edge = live.map_or_else(|| base.edge.clone(), |base| base.edge().cloned());
        base.seen.insert(id, base.writes);
        if let Some(view) = self.tensors[id.0 as usize].take() {
            let renewed =
                edge.map(|edge| seen_again(context, &seen_as_base(self.bound, root, &view, Some(edge)), &view));
            self.tensors[id.0 as usize] = Some(renewed.unwrap_or(view));
        }
    }

    pub(super) fn has_written_bases(&self) -> bool {
        !self.written_bases.by_base.is_empty()
    }

    /// Python releases a tensor. The last view of a base releases that, too.
    pub(super) fn release(&mut self, id: TensorId) {
        let released = self.tensors[id.0 as usize].take();
        if !self.has_written_bases() {
            return;
        }
        let (root, _) = self.base_of(id);
        let has_views = self.has_live_views(root);
        let is_live = self.tensors[root.0 as usize].is_some();
        if let Some(base) = self.written_bases.by_base.get_mut(&root) {
            if id == root {
                base.edge = released.as_ref().and_then(Tensor::edge).cloned();
            }
            if !has_views && !is_live {
                self.written_bases.by_base.remove(&root);
            }
        }
    }
}

/// The base on the memory of a view of it.
fn seen_as_base(bound: &Bound<'_>, base: TensorId, view: &Tensor, edge: Option<Edge>) -> Tensor {
    view.unsafe_view(layout_of(&bound.tensors[base.0 as usize])).with_edge(edge)
}

/// Whether two edges lead to the same node.
pub(super) fn is_same_edge(one: Option<&Edge>, other: Option<&Edge>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => Rc::ptr_eq(&one.node, &other.node),
        (None, None) => true,
        _ => false,
    }
}
