//! Writing into a part of a tensor: what autograd does with the whole (`CopySlices`).

use std::cell::RefCell;
use std::rc::Rc;

use smallvec::smallvec;
use vramfit_graph::layout::Layout;

use crate::autograd::{Backward, Context, Edge, Gradients, Node, Tensor};

/// The whole's gradient is copied, the part's gradient taken out of it, and what the part had before put back.
#[derive(Debug)]
struct CopySlices {
    whole: Rc<Layout>,
    part: Layout,
    /// What was done to the part.
    written: Edge,
    /// In its backward pass, the gradients of the whole and of the part.
    begun: RefCell<Option<(Tensor, Tensor)>>,
}

impl Backward for CopySlices {
    fn begin(&self, context: &mut Context, gradients: &Gradients) {
        if let Some(gradient) = &gradients[0] {
            let whole = context.empty(self.whole.with_dtype(gradient.dtype()));
            let seen = Layout { dtype: gradient.dtype(), ..self.part.clone() };
            let part = context.empty(seen.like(gradient.dtype()));
            *self.begun.borrow_mut() = Some((whole, part));
        }
    }

    fn apply(&self, context: &mut Context, node: &Node, _gradients: &mut Gradients) -> Gradients {
        let inner = &self.written.node;
        let count = inner.next.len().max(1);
        let Some((whole, part)) = self.begun.take() else { return smallvec![None; count] };
        let mut given: Gradients = smallvec![Some(part)];
        (*inner.saved.borrow_mut()).clone_from(&node.saved.borrow());
        let mut results = inner.backward.apply(context, inner, &mut given);
        inner.saved.borrow_mut().clear();
        drop(given);
        results.resize(count, None);
        // What the part had before is copied into the whole, which is the gradient.
        let before = results[0].take();
        drop(before);
        if node.wants(0) {
            results[0] = Some(whole);
        }
        results
    }
}

/// Where a view's gradient goes after its base was written into: into zeros of the base's size.
#[derive(Debug)]
struct Strided(Rc<Layout>);

impl Backward for Strided {
    fn apply(&self, context: &mut Context, _node: &Node, gradients: &mut Gradients) -> Gradients {
        let gradient = gradients[0].clone();
        smallvec![gradient.map(|gradient| context.empty(self.0.with_dtype(gradient.dtype())))]
    }
}

/// Where the gradient of `whole` goes after its part was written into. What that writing saved is saved here.
pub fn copied_slices(context: &mut Context, whole: &Tensor, part: &Layout, written: Edge) -> Edge {
    let inner = std::rc::Rc::clone(&written.node);
    let (saved, packed) = (std::mem::take(&mut *inner.saved.borrow_mut()), inner.packed.take());
    let backward = CopySlices { whole: whole.shared_layout(), part: part.clone(), written, begun: RefCell::default() };
    let edge = context.record_as(
        inner.next.iter().enumerate().map(|(place, next)| match place {
            0 => (whole.edge().cloned(), Some(whole.shared_layout())),
            _ => (next.clone(), inner.inputs.get(place).cloned().flatten()),
        }),
        backward,
    );
    *edge.node.saved.borrow_mut() = saved;
    *edge.node.packed.borrow_mut() = packed;
    edge
}

/// The view of a whole that has a new place in the graph.
pub fn seen_again(context: &mut Context, whole: &Tensor, view: &Tensor) -> Tensor {
    let edge = context.record(&[Some(whole)], 1, |_| smallvec![], Strided(whole.shared_layout()));
    view.detach().with_edge(edge)
}
