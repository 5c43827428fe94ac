//! What autograd keeps: nodes, edges, saved tensors.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use smallvec::SmallVec;

use crate::autograd::Context;
use crate::autograd::Packed;
use crate::autograd::Tensor;
use vramfit_graph::layout::Layout;

/// Gradients going into or coming out of a node; `None` is undefined.
pub type Gradients = SmallVec<[Option<Tensor>; 4]>;

/// Saved tensors of a node; `None` where not needed.
pub type Saved = SmallVec<[Option<Tensor>; 4]>;

/// What a node does when its gradients have come.
pub trait Backward: std::fmt::Debug {
    /// The gradients for the node's inputs, from those of its outputs. What is allocated and freed on the way, in which
    /// order, is the rule.
    fn apply(&self, context: &mut Context, node: &Node, gradients: &mut Gradients) -> Gradients;
}

/// A function of the backward graph.
#[derive(Debug)]
pub struct Node<Function: Backward + ?Sized = dyn Backward> {
    /// The order of creation; gradients flow from the highest on.
    pub sequence: u64,
    /// What it saved.
    pub saved: RefCell<Saved>,
    /// What stands for saved tensors that are made again when they are needed.
    pub packed: RefCell<Option<Box<Packed>>>,
    /// Where its results go.
    pub next: SmallVec<[Option<Edge>; 3]>,
    /// The shape and type each result must have: a gradient that was broadcast is summed to it.
    pub inputs: SmallVec<[Option<Rc<Layout>>; 3]>,
    /// How many outputs the forward function had.
    pub outputs: usize,
    /// What the program was doing in the forward pass.
    pub place: u32,
    /// Scratch of the engine: how many gradients are still to come.
    pub(crate) dependencies: Cell<u32>,
    /// Scratch of the engine: the backward pass in which it was last visited.
    pub(crate) visited: Cell<u32>,
    /// Scratch of the engine: gradients that have come.
    pub(crate) buffer: RefCell<Gradients>,
    /// What it does.
    pub backward: Function,
}

/// Where a gradient goes: a node, and which of its outputs it belongs to.
#[derive(Clone, Debug)]
pub struct Edge {
    /// The node.
    pub node: Rc<Node>,
    /// The output.
    pub output: usize,
}

/// A graph goes node by node, not by recursion: it may be many thousand nodes deep.
impl<Function: Backward + ?Sized> Drop for Node<Function> {
    fn drop(&mut self) {
        let mut nodes: SmallVec<[Rc<Node>; 8]> = SmallVec::new();
        self.release_to(&mut nodes);
        while let Some(mut node) = nodes.pop() {
            if let Some(last) = Rc::get_mut(&mut node) {
                last.release_to(&mut nodes);
            }
        }
    }
}

impl<Function: Backward + ?Sized> Node<Function> {
    /// Lets go of everything the node holds; nodes that it held come into `nodes`.
    fn release_to(&mut self, nodes: &mut SmallVec<[Rc<Node>; 8]>) {
        for edge in &mut self.next {
            if let Some(edge) = edge.take() {
                nodes.push(edge.node);
            }
        }
        for tensors in [self.saved.get_mut(), self.buffer.get_mut()] {
            for tensor in tensors {
                if let Some(edge) = tensor.take().and_then(Tensor::into_edge) {
                    nodes.push(edge.node);
                }
            }
        }
    }
}

impl Node {
    /// The saved tensor `index`.
    ///
    /// # Panics
    /// A rule asks for what it has not saved.
    pub fn saved(&self, index: usize) -> Tensor {
        match self.saved.borrow().get(index) {
            Some(Some(tensor)) => tensor.clone(),
            _ => panic!("saved tensor {index} of {:?} is not there", &self.backward),
        }
    }

    /// Whether the gradient for input `index` is wanted.
    pub fn wants(&self, index: usize) -> bool {
        self.next.get(index).is_some_and(Option::is_some)
    }
}
