//! Results that only the graph has, which the formulas of a differentiable backward pass use.
//!
//! An operator that consists of others, such as a cross entropy, is one call, and no tensor has a name within it. What one of its
//! calls made, such as the logarithms of the softmax, is saved in the graph. When autograd takes it out, it is a tensor with the
//! history that it had, so what a formula computes of it can be differentiated in turn.

use std::rc::{Rc, Weak};

use vramfit_graph::bind::{BoundCall, BoundStep, Value};
use vramfit_graph::layout::Layout;
use vramfit_graph::model::TensorId;

use super::Forward;
use crate::autograd::{Edge, Node, Tensor};
use crate::operators::{Effect, Facts, ScriptCall, layout_of};

/// The result behind which a step finds another.
pub(super) fn result_of(step: &BoundStep<'_>, operators: &[&Facts]) -> Option<TensorId> {
    match step {
        BoundStep::Call(call) if operators[call.operator as usize].effect == Effect::Script(ScriptCall::FindResult) => {
            given(call)
        }
        _ => None,
    }
}

fn given(call: &BoundCall<'_>) -> Option<TensorId> {
    match call.arguments.first() {
        Some(Value::Tensor(id)) => Some(*id),
        _ => None,
    }
}

impl Forward<'_> {
    /// Python drops a tensor. Its node lives on if a graph has it.
    pub(super) fn remember_node(&mut self, id: TensorId) {
        if let Some(edge) = self.tensors[id.0 as usize].as_ref().and_then(Tensor::edge) {
            let node = Rc::downgrade(&edge.node);
            self.dropped_nodes.insert(id, node);
        }
    }

    /// Takes a result out of the graph, with its history. Where it is not there, the tensor is one without a history.
    pub(super) fn find_result(&mut self, call: &BoundCall<'_>) {
        let Some(Some(id)) = call.results.first().copied() else { return };
        let layout = layout_of(self.bound.tensor(id));
        let found = given(call).and_then(|of| self.saved_behind(of, call, &layout));
        self.tensors[id.0 as usize] = Some(found.unwrap_or_else(|| Tensor::on_host(layout)));
    }

    fn saved_behind(&self, of: TensorId, call: &BoundCall<'_>, layout: &Layout) -> Option<Tensor> {
        let live = self.tensors[of.0 as usize].as_ref().and_then(Tensor::edge).map(|edge| Rc::clone(&edge.node));
        let start = live.or_else(|| self.dropped_nodes.get(&of).and_then(Weak::upgrade))?;
        let Some(Value::List(way)) = call.arguments.get(1) else { return None };
        let Some(&Value::Int(output)) = call.arguments.get(2) else { return None };
        // The node itself saves its result, or one of those on the way its input.
        let mut nodes: Vec<Rc<Node>> = vec![start];
        for place in way {
            let Value::Int(place) = place else { return None };
            let next = nodes.last()?.next.get(usize::try_from(*place).ok()?)?.clone()?;
            nodes.push(next.node);
        }
        let is_it = |saved: &&Tensor| saved.dtype() == layout.dtype && saved.shape() == layout.shape.as_slice();
        let find = |node: &Rc<Node>| node.saved.borrow().iter().flatten().find(is_it).map(Tensor::detach);
        let result = nodes.iter().rev().find_map(find)?;
        let node = nodes.pop()?;
        Some(result.with_edge(Some(Edge { node, output: usize::try_from(output).ok()? })))
    }
}
