//! Dimensions in another order: the gradient's are put back.

use std::rc::Rc;

use smallvec::smallvec;
use vramfit_graph::dims::Dims;
use vramfit_graph::layout::Layout;

use super::finish;
use crate::autograd::{Backward, Context, Edge, Gradients, Node, Tensor};
use crate::operators::call::{Call, Outcome, Unmodelled, wrap};

/// A view whose gradient has only to be permuted back: `.0[i]` is the gradient's dimension that becomes dimension `i`.
#[derive(Debug)]
struct Permuted(Dims);

impl Backward for Permuted {
    fn apply(&self, _context: &mut Context, _node: &Node, gradients: &mut Gradients) -> Gradients {
        smallvec![gradients[0].take().map(|gradient| permuted(&gradient, &self.0))]
    }
}

fn permuted(tensor: &Tensor, order: &[i64]) -> Tensor {
    let layout = tensor.layout();
    let shape = order.iter().map(|&dim| layout.shape[dim as usize]).collect();
    let strides = order.iter().map(|&dim| layout.strides[dim as usize]).collect();
    tensor.view(Layout { dtype: layout.dtype, shape, strides })
}

fn swapped(rank: usize, first: usize, second: usize) -> Dims {
    let mut order: Dims = (0..rank as i64).collect();
    order.swap(first, second);
    order
}

pub(super) fn transpose(context: &mut Context, call: &Call<'_>) -> Outcome {
    let source = call.tensor(0)?;
    let rank = source.shape().len();
    let order = swapped(rank, call.dim(1, rank)?, call.dim(2, rank)?);
    finish(context, source, permuted(source, &order), Permuted(order))
}

/// `t`, `T`, `mT`: two dimensions swapped, or a batch of matrices' last two.
pub(super) fn swap_last(context: &mut Context, call: &Call<'_>) -> Outcome {
    let source = call.tensor(0)?;
    let rank = source.shape().len();
    if rank < 2 {
        return Ok(smallvec![source.clone()]);
    }
    let shape = call.result(0)?.shape;
    let order = swapped(rank, rank - 2, rank - 1);
    let result = permuted(source, &order);
    if result.shape() != shape.as_slice() {
        return Err(Unmodelled);
    }
    match source.edge().filter(|_| context.is_recalling).and_then(transposed_before) {
        Some(edge) => Ok(smallvec![result.with_edge(Some(edge))]),
        None => finish(context, source, result, Permuted(order)),
    }
}

/// The node of the `t()` that a linear layer made.
fn transposed_before(source: &Edge) -> Option<Edge> {
    let node = source.node.transposed.borrow().as_ref()?.upgrade()?;
    Some(Edge { node, output: 0 })
}

/// Dimensions in another order, in the graph.
pub(in crate::operators) fn permuted_in_graph(context: &mut Context, source: &Tensor, order: &[i64]) -> Outcome {
    let mut back = Dims::filled(0, order.len());
    for (place, &dim) in order.iter().enumerate() {
        back[dim as usize] = place as i64;
    }
    finish(context, source, permuted(source, order), Permuted(back))
}

pub(super) fn move_dims(context: &mut Context, call: &Call<'_>) -> Outcome {
    let source = call.tensor(0)?;
    let rank = source.shape().len();
    let (from, to) = (call.ints(1)?, call.ints(2)?);
    let mut order = Dims::filled(-1, rank);
    let mut left: smallvec::SmallVec<[bool; 6]> = smallvec![true; rank];
    for (&source, &target) in from.iter().zip(&to) {
        let (source, target) = (wrap(source, rank)?, wrap(target, rank)?);
        order[target] = source as i64;
        left[source] = false;
    }
    let mut rest = (0..rank).filter(|&dim| left[dim]);
    for dim in order.iter_mut().filter(|dim| **dim == -1) {
        *dim = rest.next().ok_or(Unmodelled)? as i64;
    }
    permuted_in_graph(context, source, &order)
}

/// `weight.t()` of a matrix.
pub(in crate::operators) fn transposed(context: &mut Context, source: &Tensor) -> Outcome {
    let order = swapped(2, 0, 1);
    let result = finish(context, source, permuted(source, &order), Permuted(order))?;
    if let (Some(from), Some(to)) = (source.edge(), result[0].edge()) {
        from.node.transposed.replace(Some(Rc::downgrade(&to.node)));
    }
    Ok(result)
}

pub(super) fn permute(context: &mut Context, call: &Call<'_>) -> Outcome {
    let source = call.tensor(0)?;
    let rank = source.shape().len();
    let mut order = Dims::default();
    for dim in &call.ints(1)? {
        order.push(wrap(*dim, rank)? as i64);
    }
    permuted_in_graph(context, source, &order)
}
