//! The backward graph: nodes, edges, saved tensors.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};

use smallvec::SmallVec;

use super::{Context, Frame, Packed, Tensor};
use crate::memory::Storage;
use vramfit_graph::layout::Layout;

/// Gradients going into or coming out of a node; `None` is undefined.
pub type Gradients = SmallVec<[Option<Tensor>; 4]>;

/// Saved tensors of a node; `None` where not needed.
pub type Saved = SmallVec<[Option<Tensor>; 4]>;

/// Whether a saved tensor is one of the function's inputs.
pub(super) fn is_input(inputs: &[Option<&Tensor>], tensor: &Tensor) -> bool {
    let same = |one: &Rc<Storage>, other: &Rc<Storage>| Rc::ptr_eq(one, other);
    inputs.iter().flatten().any(|input| match (input.storage(), tensor.storage()) {
        (Some(one), Some(other)) => same(one, other),
        (None, None) => true,
        _ => false,
    })
}

/// The backward function of a node.
pub trait Backward: std::fmt::Debug {
    /// Allocates what the real function does before its saved tensors are unpacked.
    fn begin(&self, _context: &mut Context, _gradients: &Gradients) {}

    /// Computes the gradients of the node's inputs from those of its outputs, with the allocations and frees of the real
    /// function in their order.
    fn apply(&self, context: &mut Context, node: &Node, gradients: &mut Gradients) -> Gradients;

    /// Whether its tensors are saved only when its forward has run, even if they are its inputs. That is so for functions
    /// written in Python.
    fn saves_afterwards(&self) -> bool {
        false
    }

    /// What has to run again so that its gradients are found, instead of `apply`.
    fn region(&self, _node: &Node) -> Option<Rc<Frame>> {
        None
    }

    /// The `.grad` of the leaf that it writes, if it is the node of one.
    fn gradient(&self) -> Option<&Rc<RefCell<Option<Tensor>>>> {
        None
    }

    /// The leaf got other memory by `leaf.data = …`: the node of a leaf holds that from now on.
    fn leaf_has_data_of(&self, _data: &Tensor) {}

    /// Whether it returns gradients of inputs that want none, as functions of C++ extensions do. PyTorch's own functions drop them with
    /// their variables.
    fn returns_unwanted(&self) -> bool {
        false
    }
}

/// A function of the backward graph.
#[derive(Debug)]
pub struct Node<Function: Backward + ?Sized = dyn Backward> {
    /// The order of creation; the engine runs the highest first.
    pub sequence: u64,
    /// Tensors saved for backward.
    pub saved: RefCell<Saved>,
    /// What stands for saved tensors that are recomputed, or copied from the host, when they are needed.
    pub packed: RefCell<Option<Box<Packed>>>,
    /// Where the gradients of its inputs go.
    pub next: SmallVec<[Option<Edge>; 3]>,
    /// The layout of each input: a gradient of a broadcast input is summed to its shape.
    pub inputs: SmallVec<[Option<Rc<Layout>>; 3]>,
    /// How many outputs the forward function had.
    pub outputs: usize,
    /// The captured step that recorded it, as in [`crate::memory::Entry::Allocate`].
    pub origin: u32,
    /// For the engine: how many gradients are still to come.
    pub(crate) dependencies: Cell<u32>,
    /// For the engine: the backward pass in which it was last visited.
    pub(crate) visited: Cell<u32>,
    /// For the engine: whether nothing that the present pass is run for needs it.
    pub(crate) is_skipped: Cell<bool>,
    /// For the engine: whether its gradient is wanted and nothing behind it.
    pub(crate) is_end: Cell<bool>,
    /// For the engine: gradients that have come.
    pub(crate) buffer: RefCell<Gradients>,
    /// Hooks on its outputs.
    pub(crate) hooks: RefCell<Vec<OutputHook>>,
    /// The node of the last `t()` that a linear layer made of its output.
    pub(crate) transposed: RefCell<Option<Weak<Node>>>,
    /// Its backward function.
    pub backward: Function,
}

impl<Function: Backward> Node<Function> {
    /// A node of one output, without saved tensors and without anything before it.
    pub(crate) fn new(sequence: u64, backward: Function) -> Node<Function> {
        Node {
            sequence,
            saved: RefCell::default(),
            packed: RefCell::default(),
            next: SmallVec::new(),
            inputs: SmallVec::new(),
            outputs: 1,
            origin: 0,
            dependencies: Cell::new(0),
            visited: Cell::new(0),
            is_skipped: Cell::new(false),
            is_end: Cell::new(false),
            buffer: RefCell::default(),
            hooks: RefCell::default(),
            transposed: RefCell::default(),
            backward,
        }
    }
}

/// What `register_hook` on a tensor registers: called before the function that made the tensor runs backward.
#[derive(Clone)]
pub struct OutputHook(pub Rc<dyn Fn(&mut Context)>);

impl std::fmt::Debug for OutputHook {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("OutputHook")
    }
}

/// Where a gradient goes: a node, and which of its outputs it belongs to.
#[derive(Clone, Debug)]
pub struct Edge {
    /// The node.
    pub node: Rc<Node>,
    /// The output.
    pub output: usize,
}

/// Drops a graph node by node instead of by recursion: it may be many thousand nodes deep.
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
    /// Drops everything the node holds; nodes that it held are pushed to `nodes`.
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
    /// The rule did not save such a tensor.
    pub fn saved(&self, index: usize) -> Tensor {
        match self.saved.borrow().get(index) {
            Some(Some(tensor)) => tensor.clone(),
            _ => panic!("saved tensor {index} of {:?} is not there", &self.backward),
        }
    }

    /// Registers a hook on one of its outputs.
    pub fn add_hook(&self, hook: OutputHook) {
        self.hooks.borrow_mut().push(hook);
    }

    /// Calls the hooks on its outputs.
    pub(crate) fn call_hooks(&self, context: &mut Context) {
        if self.hooks.borrow().is_empty() {
            return;
        }
        for OutputHook(hook) in self.hooks.take() {
            hook(context);
        }
    }

    /// Whether the gradient for input `index` is wanted.
    pub fn wants(&self, index: usize) -> bool {
        self.next.get(index).and_then(Option::as_ref).is_some_and(|edge| !edge.node.is_skipped.get())
    }
}
