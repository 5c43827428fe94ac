//! Autograd's engine: the order of nodes, the accumulation of gradients, when saved tensors are freed.

use std::cell::{Cell, RefCell};
use std::collections::BinaryHeap;
use std::rc::Rc;

use smallvec::smallvec;

use super::{Backward, Context, Edge, Frame, Gradients, Node, Tensor};
use crate::memory::Category;
use vramfit_graph::dims::Dims;
use vramfit_graph::layout::{Layout, contiguous_strides};

/// A node that has all its gradients. The newest runs first; `AccumulateGrad` nodes run before all others.
struct Ready {
    sequence: u64,
    node: Rc<Node>,
}

impl Ready {
    fn new(node: &Rc<Node>) -> Ready {
        Ready { sequence: node.sequence, node: Rc::clone(node) }
    }
}

impl PartialEq for Ready {
    fn eq(&self, other: &Self) -> bool {
        self.sequence == other.sequence
    }
}
impl Eq for Ready {}
impl PartialOrd for Ready {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Ready {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.sequence.cmp(&other.sequence)
    }
}

/// Recomputes a checkpointed region.
pub type Recompute<'a> = &'a dyn Fn(&mut Context, &Rc<Frame>);

/// Runs the backward pass from `root`, whose gradient is `gradient`, where nothing is checkpointed.
pub fn run(context: &mut Context, root: &Edge, gradient: Tensor) {
    run_recomputing(context, root, gradient, &|_, _| {});
}

/// Runs the backward pass from `root`, whose gradient is `gradient`; `recompute` recomputes checkpointed regions.
pub fn run_recomputing(context: &mut Context, root: &Edge, gradient: Tensor, recompute: Recompute<'_>) {
    context.next_pass();
    count_dependencies(context.pass(), &root.node);
    let mut ready = BinaryHeap::new();
    root.node.buffer.borrow_mut().resize(root.node.outputs.max(1), None);
    root.node.buffer.borrow_mut()[root.output] = Some(gradient);
    ready.push(Ready::new(&root.node));
    while let Some(Ready { node, .. }) = ready.pop() {
        evaluate(context, &node, &mut ready, recompute);
    }
}

/// Counts for every node how many gradients will come to it.
fn count_dependencies(pass: u32, root: &Rc<Node>) {
    let mut stack = vec![Rc::clone(root)];
    root.visited.set(pass);
    root.dependencies.set(0);
    while let Some(node) = stack.pop() {
        for edge in node.next.iter().flatten() {
            let next = &edge.node;
            if next.visited.get() != pass {
                next.visited.set(pass);
                next.dependencies.set(0);
                next.buffer.borrow_mut().clear();
                stack.push(Rc::clone(next));
            }
            next.dependencies.set(next.dependencies.get() + 1);
        }
    }
}

fn evaluate(context: &mut Context, node: &Rc<Node>, ready: &mut BinaryHeap<Ready>, recompute: Recompute<'_>) {
    context.enter_node(node);
    let packed = node.packed.take();
    if let Some(packed) = &packed {
        *node.saved.borrow_mut() = packed.unpack(context, recompute);
        context.enter_node(node);
    }
    let mut gradients = std::mem::take(&mut *node.buffer.borrow_mut());
    while gradients.len() < node.outputs.max(1) {
        gradients.push(None);
    }
    let mut results = node.backward.apply(context, node, &mut gradients);
    // What a function found for inputs that want no gradient goes with its own variables.
    if !node.backward.returns_unwanted() {
        for (index, result) in results.iter_mut().enumerate() {
            if !node.wants(index) {
                result.take();
            }
        }
    }
    if packed.is_some() {
        // The function's own variables hold what was unpacked, and C++ destroys them in reverse order.
        node.saved.borrow_mut().reverse();
        release_saved(node);
    }
    validate(context, node, &mut results);
    // PyTorch frees the incoming gradients when the function has returned, then what it had saved.
    for gradient in gradients.iter_mut() {
        gradient.take();
    }
    release_saved(node);
    drop(packed);
    for (index, result) in results.iter_mut().enumerate() {
        let Some(Some(edge)) = node.next.get(index) else { continue };
        let next = &edge.node;
        add(context, next, edge.output, result);
        let left = next.dependencies.get() - 1;
        next.dependencies.set(left);
        if left == 0 {
            ready.push(Ready::new(next));
        }
    }
    for result in &mut results {
        result.take();
    }
}

fn release_saved(node: &Node) {
    if node.saved.borrow().is_empty() {
        return;
    }
    let mut saved = std::mem::take(&mut *node.saved.borrow_mut());
    for tensor in &mut saved {
        tensor.take();
    }
}

/// `validate_outputs`: sums each gradient to its input's shape and casts it to its type.
fn validate(context: &mut Context, node: &Node, results: &mut Gradients) {
    for (index, result) in results.iter_mut().enumerate() {
        let Some(Some(input)) = node.inputs.get(index).filter(|_| node.wants(index)) else { continue };
        if let Some(gradient) = result {
            if gradient.shape() != input.shape.as_slice() {
                *gradient = sum_to(context, gradient, &input.shape);
            }
            if gradient.dtype() != input.dtype {
                *gradient = context.empty(gradient.like(input.dtype));
            }
        }
    }
}

/// `at::sum_to`: the sum over the dimensions that were broadcast.
pub fn sum_to(context: &mut Context, tensor: &Tensor, shape: &[i64]) -> Tensor {
    let from = tensor.shape();
    let leading = from.len() - shape.len();
    let dims: Dims = (0..from.len())
        .filter(|&dim| dim < leading || (shape[dim - leading] == 1 && from[dim] != 1))
        .map(|dim| dim as i64)
        .collect();
    let summed = if dims.is_empty() { tensor.clone() } else { context.sum(tensor, &dims, true, tensor.dtype()) };
    if leading == 0 {
        return summed;
    }
    summed.view(Layout::contiguous(summed.dtype(), shape))
}

/// Puts a gradient into the input buffer of its node. Where one is already there it is added to that, and the function's
/// outputs still hold it until all of them have been passed on.
fn add(context: &mut Context, node: &Rc<Node>, output: usize, given: &mut Option<Tensor>) {
    let Some(gradient) = given.as_ref() else { return };
    let mut buffer = node.buffer.borrow_mut();
    while buffer.len() <= output {
        buffer.push(None);
    }
    match buffer[output].take() {
        None => buffer[output] = given.take(),
        Some(old) if old.layout().is_dense() && old.handles() == 1 && old.storage_handles() == 1 => {
            buffer[output] = Some(old);
        }
        Some(old) => {
            let layout = Layout::broadcast(&[old.layout(), gradient.layout()], old.dtype());
            buffer[output] = Some(context.empty(layout));
            drop(old);
        }
    }
}

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
    pub held: Option<Tensor>,
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
        if held.is_some() {
            // Added in place; the new gradient is dropped.
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
    accumulating(AccumulateGrad { gradient, layout, leaf, held: None })
}

/// A new [`AccumulateGrad`] node that holds its leaf; no hook is called for it.
pub fn sink_of(leaf: &Tensor) -> Edge {
    let (gradient, layout) = (Rc::default(), leaf.shared_layout());
    accumulating(AccumulateGrad { gradient, layout, leaf: NO_LEAF, held: Some(leaf.clone()) })
}

fn accumulating(backward: AccumulateGrad) -> Edge {
    let node = Node {
        sequence: u64::MAX,
        saved: RefCell::default(),
        packed: RefCell::default(),
        next: smallvec![],
        inputs: smallvec![],
        outputs: 1,
        origin: 0,
        dependencies: Cell::new(0),
        visited: Cell::new(0),
        buffer: RefCell::default(),
        backward,
    };
    Edge { node: Rc::new(node), output: 0 }
}
