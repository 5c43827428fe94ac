//! Writes through views: the base and the view get new edges.

use std::rc::{Rc, Weak};

use vramfit_graph::bind::BoundStep;
use vramfit_graph::model::TensorId;

use super::Forward;
use crate::autograd::{Context, Edge};
use crate::operators::{copied_slices, seen_again};

impl Forward<'_> {
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
        let storage = self.bound.tensor(id).storage;
        let (root, links) = self.base_of(id);
        if root == id.0 as usize {
            // A detached tensor is a base of its own.
            self.tensors[root] = Some(view);
            return;
        }
        let live = self.tensors[root].take();
        let is_live = live.is_some();
        let base = live.unwrap_or_else(|| {
            let known = self.written_bases.get(&storage).and_then(Weak::upgrade).map(|node| Edge { node, output: 0 });
            let edge = known.or_else(|| (0..links).try_fold(before?, |edge, _| edge.node.next.first()?.clone()));
            view.unsafe_view(crate::operators::layout_of(&self.bound.tensors[root])).with_edge(edge)
        });
        let base = {
            let edge = copied_slices(context, &base, view.layout(), edge);
            self.written_bases.insert(storage, Rc::downgrade(&edge.node));
            base.detach().with_edge(Some(edge))
        };
        self.tensors[id.0 as usize] = Some(seen_again(context, &base, &view));
        if is_live {
            self.tensors[root] = Some(base);
        }
    }

    /// The base of a view, or itself where it has a history of its own, and how many views are between them.
    fn base_of(&self, view: TensorId) -> (usize, usize) {
        let storage = self.bound.tensor(view).storage;
        let (mut id, mut links) = (view, 0);
        while self.bound.tensor(id).is_view {
            let made = self.bound.steps.iter().find_map(|step| match step {
                BoundStep::Call(call) if call.results.contains(&Some(id)) => Some(call),
                _ => None,
            });
            let mut source = None;
            if let Some(call) = made.filter(|call| !self.passes.facts(call).leaves_base) {
                let mut add = |other: TensorId| {
                    if other != id && self.bound.tensor(other).storage == storage {
                        source.get_or_insert(other);
                    }
                };
                call.each_tensor(&mut add);
            }
            let Some(source) = source else { break };
            id = source;
            links += 1;
        }
        (id.0 as usize, links)
    }
}

/// Whether two edges lead to the same node.
pub(super) fn is_same_edge(one: Option<&Edge>, other: Option<&Edge>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => Rc::ptr_eq(&one.node, &other.node),
        (None, None) => true,
        _ => false,
    }
}
