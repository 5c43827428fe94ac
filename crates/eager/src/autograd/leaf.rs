//! Leaves: the nodes that write their `.grad`.

use std::cell::RefCell;
use std::rc::Rc;

use smallvec::smallvec;

use super::{Backward, Context, Edge, Gradients, Node, Tensor, append};
use crate::memory::Category;
use vramfit_graph::layout::{Layout, contiguous_strides};

/// The number of a leaf that has no hook.
const NO_LEAF: u32 = u32::MAX;

/// The node that writes the `.grad` of a leaf.
#[derive(Debug)]
pub struct AccumulateGrad {
    /// The leaf's gradient.
    pub gradient: Rc<RefCell<Option<Tensor>>>,
    /// The leaf's own layout, which its gradient gets too.
    pub layout: Rc<Layout>,
    /// The number that a hook is called with.
    pub leaf: u32,
    /// The leaf itself, where nothing else may hold it: a node holds its leaf as long as the graph lives.
    pub held: RefCell<Option<Tensor>>,
}

/// A function of a leaf's number.
type LeafFunction = dyn Fn(&mut Context, u32);

/// What `register_post_accumulate_grad_hook` registers: called with the leaf's number when it has its gradient.
#[derive(Clone)]
pub struct GradientHook(pub Rc<LeafFunction>);

impl std::fmt::Debug for GradientHook {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("GradientHook")
    }
}

impl Backward for AccumulateGrad {
    fn apply(&self, context: &mut Context, _node: &Node, gradients: &mut Gradients) -> Gradients {
        let Some(new) = gradients[0].take() else { return smallvec![] };
        let mut held = self.gradient.borrow_mut();
        if let Some(before) = held.clone() {
            if before.is_sparse() && !new.is_sparse() {
                // What is sparse cannot take what is not.
                *held = Some(context.empty(new.shared_layout()));
            } else {
                // Added in place; the new gradient is dropped.
                append(context, &before, &new);
            }
            drop(before);
            drop(held);
            self.call_hook(context);
            return smallvec![];
        }
        if let Some(rows) = new.rows().map(|rows| rows.borrow().clone()) {
            let is_plain = rows.values.layout().is_contiguous() && rows.indices.layout().is_contiguous();
            let rows = if new.handles() <= 1 && is_plain { rows } else { rows.copied(context) };
            if let Some(storage) = rows.values.storage() {
                storage.become_category(Category::Gradients);
            }
            *held = Some(Tensor::sparse(rows, new.shared_layout()));
            drop(held);
            self.call_hook(context);
            return smallvec![];
        }
        let obeys =
            if self.layout.is_dense() { has_strides(new.layout(), &self.layout) } else { new.layout().is_contiguous() };
        let kept = if new.handles() <= 1 && obeys {
            new.detach()
        } else {
            let strides = if self.layout.is_dense() {
                self.layout.strides.clone()
            } else {
                contiguous_strides(&self.layout.shape)
            };
            context.empty(Layout { dtype: new.dtype(), shape: self.layout.shape.clone(), strides })
        };
        if let Some(storage) = kept.storage() {
            storage.become_category(Category::Gradients);
        }
        *held = Some(kept);
        drop(held);
        // What was passed in is held until the hook has returned, also where it is the gradient's memory.
        self.call_hook(context);
        drop(new);
        smallvec![]
    }

    fn gradient(&self) -> Option<&Rc<RefCell<Option<Tensor>>>> {
        Some(&self.gradient)
    }

    fn leaf_has_data_of(&self, data: &Tensor) {
        if let Some(held) = self.held.borrow_mut().as_mut() {
            *held = data.detach();
        }
    }
}

impl AccumulateGrad {
    fn call_hook(&self, context: &mut Context) {
        if let Some(GradientHook(hook)) = context.gradient_hook.clone() {
            hook(context, self.leaf);
        }
    }
}

/// Whether strides agree where they matter.
fn has_strides(layout: &Layout, wanted: &Layout) -> bool {
    layout.shape.iter().enumerate().all(|(dim, &size)| size == 1 || layout.strides[dim] == wanted.strides[dim])
}

/// A new [`AccumulateGrad`] node of a leaf that lives anyway, whose number hooks are called with.
pub fn sink(gradient: Rc<RefCell<Option<Tensor>>>, layout: Rc<Layout>, leaf: u32) -> Edge {
    accumulating(AccumulateGrad { gradient, layout, leaf, held: RefCell::default() })
}

/// A new [`AccumulateGrad`] node that holds its leaf; no hook is called for it.
pub fn sink_of(leaf: &Tensor) -> Edge {
    sink_with(leaf, Rc::default())
}

/// The same for a leaf that has a gradient already, or may have.
pub fn sink_with(leaf: &Tensor, gradient: Rc<RefCell<Option<Tensor>>>) -> Edge {
    let layout = leaf.shared_layout();
    accumulating(AccumulateGrad { gradient, layout, leaf: NO_LEAF, held: RefCell::new(Some(leaf.clone())) })
}

fn accumulating(backward: AccumulateGrad) -> Edge {
    Edge { node: Rc::new(Node::new(u64::MAX, backward)), output: 0 }
}
