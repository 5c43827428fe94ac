//! What backward passes make and keep.

use std::cell::RefCell;

use smallvec::smallvec;

use super::*;
use crate::autograd::Backward;
use crate::machine::H200;
use crate::memory::{Entry, Memory, SharedMemory};
use vramfit_graph::dtype::Dtype;

/// `x * y`, which saves both and makes a gradient for each that is wanted.
#[derive(Debug)]
struct Product;

impl Backward for Product {
    fn apply(&self, context: &mut Context, node: &Node, gradients: &mut Gradients) -> Gradients {
        let Some(gradient) = gradients[0].clone() else { return smallvec![None, None] };
        let make = |index: usize| node.wants(index).then(|| context.empty(gradient.like(Dtype::Float32)));
        smallvec![make(0), make(1)]
    }
}

fn leaf(context: &Context) -> Tensor {
    let tensor = context.empty_contiguous(Dtype::Float32, &[1024]);
    let edge = sink_of(&tensor);
    tensor.detach().with_edge(Some(edge))
}

fn product(context: &mut Context, x: &Tensor, y: &Tensor) -> Tensor {
    let result = context.empty(x.shared_layout());
    let saved = |_: &dyn Fn(usize) -> bool| smallvec![Some(x.clone()), Some(y.clone())];
    let edge = context.record(&[Some(x), Some(y)], 1, saved, Product);
    result.with_edge(edge)
}

fn context() -> (SharedMemory, Context) {
    let memory = Rc::new(RefCell::new(Memory::new()));
    let context = Context::new(Rc::clone(&memory), H200);
    (memory, context)
}

fn backward(context: &mut Context, root: &Tensor, keeps_graph: bool, inputs: Option<&[Edge]>) -> Vec<Option<Tensor>> {
    let gradient = context.empty(root.shared_layout());
    let roots = vec![(root.edge().expect("it has a graph").clone(), gradient)];
    run_pass(context, BackwardPass { roots, keeps_graph, inputs, only: None, retains: &[] }, &|_, _| {})
}

fn has_gradient(leaf: &Tensor) -> bool {
    let edge = leaf.edge().expect("a leaf has one");
    edge.node.backward.gradient().is_some_and(|gradient| gradient.borrow().is_some())
}

#[test]
fn a_pass_for_one_input_makes_no_gradient_of_another() {
    let (memory, mut context) = context();
    let (x, y) = (leaf(&context), leaf(&context));
    let root = product(&mut context, &x, &y);
    let before = memory.borrow().journal().len();
    let wanted = [x.edge().expect("a leaf has one").clone()];
    let found = backward(&mut context, &root, false, Some(&wanted));
    let made =
        memory.borrow().journal()[before..].iter().filter(|entry| matches!(entry, Entry::Allocate { .. })).count();
    assert_eq!(made, 2, "the root's gradient and that of x");
    assert!(found[0].is_some());
    assert!(!has_gradient(&x) && !has_gradient(&y), "gradients that are asked for are returned, not kept");
}

#[test]
fn a_graph_that_is_kept_can_be_run_again_and_holds_what_it_saved() {
    let (_, mut context) = context();
    let (x, y) = (leaf(&context), leaf(&context));
    let middle = product(&mut context, &x, &y);
    let root = product(&mut context, &middle, &y);
    backward(&mut context, &root, true, None);
    assert!(has_gradient(&x) && has_gradient(&y));
    let node = &root.edge().expect("it has a graph").node;
    assert_eq!(node.saved.borrow().len(), 2);
    backward(&mut context, &root, false, None);
    assert!(node.saved.borrow().is_empty());
}

#[test]
fn a_tensor_that_is_no_leaf_is_an_input_too() {
    let (_, mut context) = context();
    let (x, y) = (leaf(&context), leaf(&context));
    let middle = product(&mut context, &x, &y);
    let root = product(&mut context, &middle, &y);
    let wanted = [middle.edge().expect("it has a graph").clone()];
    let found = backward(&mut context, &root, false, Some(&wanted));
    assert!(found[0].is_some());
    assert!(!has_gradient(&x) && !has_gradient(&y));
}
