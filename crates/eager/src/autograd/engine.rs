//! Autograd's engine: the order of nodes, the accumulation of gradients, when saved tensors are freed.

use std::collections::{BinaryHeap, HashMap};
use std::rc::Rc;

pub use super::leaf::{AccumulateGrad, GradientHook, sink, sink_of, sink_with};
use super::{Context, Edge, Frame, Gradients, Node, Tensor, added};
use vramfit_graph::dims::Dims;
use vramfit_graph::layout::Layout;

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

/// What a backward pass starts from, and what it is run for.
pub struct BackwardPass<'a> {
    /// Where it starts, with the gradients there.
    pub roots: Vec<(Edge, Tensor)>,
    /// `retain_graph`: saved tensors stay for another pass.
    pub keeps_graph: bool,
    /// The tensors whose gradients are wanted, as `autograd.grad` has them; `None` where leaves get theirs.
    pub inputs: Option<&'a [Edge]>,
    /// The leaves that get their gradients, as `backward(inputs=…)` has them; `None` where every leaf gets its own.
    pub only: Option<&'a [Edge]>,
    /// The tensors that keep a copy of their gradient (`retain_grad`), if every leaf gets its own.
    pub retains: &'a [Edge],
}

/// Runs the backward pass from `root`, whose gradient is `gradient`, where nothing is checkpointed.
pub fn run(context: &mut Context, root: &Edge, gradient: Tensor) {
    run_recomputing(context, root, gradient, &|_, _| {});
}

/// Runs the backward pass from `root`, whose gradient is `gradient`; `recompute` recomputes checkpointed regions.
pub fn run_recomputing(context: &mut Context, root: &Edge, gradient: Tensor, recompute: Recompute<'_>) {
    let pass = BackwardPass {
        roots: vec![(root.clone(), gradient)],
        keeps_graph: false,
        inputs: None,
        only: None,
        retains: &[],
    };
    run_pass(context, pass, recompute);
}

/// Runs a backward pass. Returns the gradient of each of its inputs, if it has any, or of those that retain theirs: `None` for one
/// that nothing leads to.
pub fn run_pass(context: &mut Context, pass: BackwardPass<'_>, recompute: Recompute<'_>) -> Vec<Option<Tensor>> {
    let BackwardPass { roots, keeps_graph, inputs, only, retains } = pass;
    context.next_pass();
    context.open_passes += 1;
    let interrupted = count_dependencies(context, &roots, inputs.or(only), inputs.is_some());
    let mut ready = BinaryHeap::new();
    for (edge, gradient) in roots {
        pass_on(context, &edge, &mut Some(gradient), &mut ready);
    }
    let mut captured = vec![None; inputs.map_or(retains.len(), <[Edge]>::len)];
    while let Some(Ready { node, .. }) = ready.pop() {
        if let Some(inputs) = inputs {
            let buffer = node.buffer.borrow();
            for (input, found) in inputs.iter().zip(&mut captured).filter(|(input, _)| Rc::ptr_eq(&input.node, &node)) {
                *found = buffer.get(input.output).cloned().flatten();
            }
            drop(buffer);
            if node.is_end.get() {
                node.buffer.borrow_mut().clear();
                continue;
            }
        }
        if inputs.is_none() {
            for (retained, found) in retains.iter().zip(&mut captured).filter(|(it, _)| Rc::ptr_eq(&it.node, &node)) {
                let gradient = node.buffer.borrow().get(retained.output).cloned().flatten();
                *found = gradient.map(|gradient| context.empty_contiguous(gradient.dtype(), gradient.shape()));
            }
        }
        evaluate(context, &node, &mut ready, keeps_graph, recompute);
    }
    interrupted.into_iter().for_each(Interrupted::go_on);
    context.open_passes -= 1;
    captured
}

/// A node of a pass within which another one runs, as it was before that.
struct Interrupted {
    node: Rc<Node>,
    visited: u32,
    dependencies: u32,
    is_skipped: bool,
    is_end: bool,
    buffer: Gradients,
}

impl Interrupted {
    fn new(node: &Rc<Node>) -> Interrupted {
        Interrupted {
            node: Rc::clone(node),
            visited: node.visited.get(),
            dependencies: node.dependencies.get(),
            is_skipped: node.is_skipped.get(),
            is_end: node.is_end.get(),
            buffer: node.buffer.take(),
        }
    }

    fn go_on(self) {
        self.node.visited.set(self.visited);
        self.node.dependencies.set(self.dependencies);
        self.node.is_skipped.set(self.is_skipped);
        self.node.is_end.set(self.is_end);
        self.node.buffer.replace(self.buffer);
    }
}

/// Counts for every node how many gradients will come to it, and decides which nodes do not run: those that lead to none of the
/// inputs, if there are any. The pass ends at the inputs where it `captures` their gradients.
/// Returns what a pass around this one had in its nodes.
fn count_dependencies(
    context: &Context,
    roots: &[(Edge, Tensor)],
    inputs: Option<&[Edge]>,
    captures: bool,
) -> Vec<Interrupted> {
    let (pass, is_inner) = (context.pass(), context.open_passes > 1);
    let mut found: Vec<Rc<Node>> = Vec::new();
    let mut interrupted = Vec::new();
    let mut visit = |node: &Rc<Node>, found: &mut Vec<Rc<Node>>| {
        if node.visited.get() != pass {
            if is_inner {
                interrupted.push(Interrupted::new(node));
            }
            node.visited.set(pass);
            node.dependencies.set(0);
            node.is_skipped.set(inputs.is_some());
            node.is_end.set(false);
            node.buffer.borrow_mut().clear();
            found.push(Rc::clone(node));
        }
        node.dependencies.set(node.dependencies.get() + 1);
    };
    for (edge, _) in roots {
        visit(&edge.node, &mut found);
    }
    let mut next = 0;
    while let Some(node) = found.get(next).cloned() {
        for edge in node.next.iter().flatten() {
            visit(&edge.node, &mut found);
        }
        next += 1;
    }
    let Some(inputs) = inputs else { return interrupted };
    for input in inputs.iter().filter(|input| input.node.visited.get() == pass) {
        input.node.is_skipped.set(false);
        input.node.is_end.set(captures);
    }
    need_what_leads_on(&found);
    interrupted
}

/// Has every node run that leads to one that runs. Threads number their nodes each for itself, so that the numbers do not say what
/// comes first.
fn need_what_leads_on(nodes: &[Rc<Node>]) {
    let mut needed: Vec<&Rc<Node>> = nodes.iter().filter(|node| !node.is_skipped.get()).collect();
    let mut callers: HashMap<*const (), Vec<&Rc<Node>>> = HashMap::new();
    for node in nodes {
        for edge in node.next.iter().flatten() {
            callers.entry(Rc::as_ptr(&edge.node).cast()).or_default().push(node);
        }
    }
    while let Some(node) = needed.pop() {
        for caller in callers.remove(&Rc::as_ptr(node).cast()).unwrap_or_default() {
            caller.is_end.set(false);
            if caller.is_skipped.replace(false) {
                needed.push(caller);
            }
        }
    }
}

/// Passes a gradient on to a node, which is ready when it was the last; `given` keeps it where the node had one already.
fn pass_on(context: &mut Context, edge: &Edge, given: &mut Option<Tensor>, ready: &mut BinaryHeap<Ready>) {
    let next = &edge.node;
    if next.is_skipped.get() {
        return;
    }
    add(context, next, edge.output, given);
    let left = next.dependencies.get() - 1;
    next.dependencies.set(left);
    if left == 0 {
        ready.push(Ready::new(next));
    }
}

fn evaluate(
    context: &mut Context,
    node: &Rc<Node>,
    ready: &mut BinaryHeap<Ready>,
    keeps_graph: bool,
    recompute: Recompute<'_>,
) {
    context.enter_node(node);
    node.call_hooks(context);
    let mut gradients = std::mem::take(&mut *node.buffer.borrow_mut());
    while gradients.len() < node.outputs.max(1) {
        gradients.push(None);
    }
    node.backward.begin(context, &gradients);
    let packed = node.packed.take();
    if let Some(packed) = &packed {
        *node.saved.borrow_mut() = packed.unpack(context, recompute);
        context.enter_node(node);
    }
    let mut results = match node.backward.region(node) {
        Some(region) => {
            region.gradients.replace(gradients.clone());
            recompute(context, &region);
            context.enter_node(node);
            region.gradients.take()
        }
        None => node.backward.apply(context, node, &mut gradients),
    };
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
    if keeps_graph {
        *node.packed.borrow_mut() = packed;
    } else {
        release_saved(node);
        drop(packed);
    }
    for (index, result) in results.iter_mut().enumerate() {
        if let Some(Some(edge)) = node.next.get(index) {
            pass_on(context, edge, result, ready);
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
        Some(old) if old.is_sparse() || gradient.is_sparse() => {
            buffer[output] = Some(sum_with_sparse(context, &old, given));
            drop(old);
        }
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

/// The sum of two gradients of which at least one is sparse.
fn sum_with_sparse(context: &mut Context, old: &Tensor, given: &mut Option<Tensor>) -> Tensor {
    let is_own = |tensor: &Tensor| tensor.layout().is_dense() && tensor.handles() == 1 && tensor.storage_handles() == 1;
    if let (Some(first), Some(second)) = (given.as_ref().and_then(Tensor::rows), old.rows()) {
        let (first, second) = (first.borrow().clone(), second.borrow().clone());
        let layout = old.shared_layout();
        return Tensor::sparse(added(context, &first, &second, &layout), layout);
    }
    // What is sparse is added into the other where nothing else holds that, and is the one that came later.
    match given.take_if(|given| old.is_sparse() && is_own(given)) {
        Some(dense) => dense,
        None => context.empty(Layout::contiguous(old.dtype(), old.shape())),
    }
}

#[cfg(test)]
#[path = "engine_tests.rs"]
mod tests;
