//! The graph that is recorded.

use std::cell::RefCell;
use std::rc::Rc;

use smallvec::SmallVec;
use vramfit_graph::layout::Layout;

use super::Context;
use crate::autograd::{Backward, Edge, Node, Packed, ResultKind, Results, Saved, Tensor};

impl Context {
    /// The results of an operator: `compute` finds them, unless a checkpointed region kept them.
    pub(crate) fn computed(&mut self, kind: ResultKind, compute: impl FnOnce(&mut Context) -> Results) -> Results {
        let is_muted = self.memory.borrow().is_muted();
        let kept = if is_muted { None } else { self.checkpointing.take_kept(kind) };
        if let Some(kept) = kept {
            return kept;
        }
        let results = compute(self);
        self.checkpointing.keep(kind, &results);
        results
    }

    /// Records a call in the graph if one of its inputs requires a gradient; returns the edge of its first output.
    pub fn record(
        &mut self,
        inputs: &[Option<&Tensor>],
        outputs: usize,
        saved: impl FnOnce(&dyn Fn(usize) -> bool) -> Saved,
        backward: impl Backward + 'static,
    ) -> Option<Edge> {
        if !self.is_grad_on || !inputs.iter().flatten().any(|input| input.requires_grad()) {
            return None;
        }
        let mut next: SmallVec<[Option<Edge>; 3]> = SmallVec::new();
        let mut shapes: SmallVec<[Option<Rc<Layout>>; 3]> = SmallVec::new();
        for input in inputs {
            next.push(input.and_then(|input| input.edge().cloned()));
            shapes.push(input.map(Tensor::shared_layout));
        }
        let wants = |index: usize| next.get(index).is_some_and(Option::is_some);
        let saved = saved(&wants);
        let early = if backward.saves_afterwards() { &[] } else { inputs };
        let (saved, packed) = match self.offload.target().filter(|_| !self.checkpointing.is_on()) {
            Some(to) => {
                let copies = self.offload.pack(to, early, saved, &self.memory);
                if let (Some(visits), Some(copies)) = (&mut self.visits, &copies) {
                    visits.note_host_copy(self.memory.borrow().origin(), copies.traffic());
                }
                (Saved::new(), copies.map(|copies| Box::new(Packed::HostCopies(copies))))
            }
            None => self.checkpointing.pack(early, saved, &self.memory),
        };
        if let Some(visits) = &mut self.visits {
            visits.note_saved(self.memory.borrow().origin(), saved.iter().flatten());
        }
        Some(self.node(next, shapes, outputs, (saved, packed), backward))
    }

    /// Records a node with these edges and input layouts, which saves no tensors.
    pub fn record_as(
        &mut self,
        inputs: impl Iterator<Item = (Option<Edge>, Option<Rc<Layout>>)>,
        backward: impl Backward + 'static,
    ) -> Edge {
        let (next, inputs) = inputs.unzip();
        self.node(next, inputs, 1, (Saved::new(), None), backward)
    }

    /// A node with the thread's next number; returns the edge of its first output.
    fn node(
        &mut self,
        next: SmallVec<[Option<Edge>; 3]>,
        inputs: SmallVec<[Option<Rc<Layout>>; 3]>,
        outputs: usize,
        (saved, packed): (Saved, Option<Box<Packed>>),
        backward: impl Backward + 'static,
    ) -> Edge {
        let number = &mut self.sequences[self.thread as usize];
        *number += u64::from(!self.is_recalling);
        let mut node = Node::new(*number, backward);
        node.saved = RefCell::new(saved);
        node.packed = RefCell::new(packed);
        (node.inputs, node.next, node.outputs) = (inputs, next, outputs);
        node.origin = self.memory.borrow().origin();
        Edge { node: Rc::new(node), output: 0 }
    }
}
