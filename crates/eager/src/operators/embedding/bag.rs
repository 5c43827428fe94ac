//! `embedding_bag`: sums, means or maxima of rows of a table.

use smallvec::smallvec;
use vramfit_graph::dtype::Dtype;

use super::{Kind, may_be_sparse, sorted_gradient, sparse_gradient};
use crate::autograd::{Backward, Context, Gradients, Node, Tensor};
use crate::operators::call::{Call, Outcome, Unmodelled};

/// How a bag's rows become one.
const BY_MEAN: i64 = 1;
const BY_MAXIMUM: i64 = 2;

/// Saved: the indices, where bags begin, which bag each index is in, how long bags are, and which rows were largest.
#[derive(Debug)]
struct Bag {
    rows: i64,
    mode: i64,
    /// Whether the table's gradient is sparse, and whether one of its rows has none then.
    sparse: Option<bool>,
}

impl Bag {
    /// `embedding_bag_sparse_backward`: each index gets the gradient of its bag.
    fn sparse_gradient(&self, context: &mut Context, node: &Node, gradient: &Tensor, has_padding: bool) -> Tensor {
        let (indices, width) = (node.saved(0), gradient.shape().last().copied().unwrap_or(1));
        let count = indices.layout().elements();
        let by_index = context.empty_contiguous(gradient.dtype(), &[count, width]);
        if self.mode == BY_MEAN {
            let lengths = context.empty_contiguous(gradient.dtype(), node.saved(3).shape());
            let inverse = context.empty_contiguous(gradient.dtype(), node.saved(3).shape());
            let factors = context.empty_contiguous(gradient.dtype(), &[count, 1]);
            drop(inverse);
            drop(lengths);
            drop(factors);
        }
        sparse_gradient(context, &indices, &by_index, (self.rows, has_padding))
    }
}

impl Backward for Bag {
    fn apply(&self, context: &mut Context, node: &Node, gradients: &mut Gradients) -> Gradients {
        let Some(gradient) = gradients[0].clone() else { return smallvec![None] };
        let width = gradient.shape().last().copied().unwrap_or(1);
        let of_weights = node.wants(1).then(|| {
            let indices = node.saved(0);
            context.empty_contiguous(gradient.dtype(), indices.shape())
        });
        if !node.wants(0) {
            return smallvec![None, of_weights];
        }
        if let Some(has_padding) = self.sparse {
            return smallvec![Some(self.sparse_gradient(context, node, &gradient, has_padding)), of_weights];
        }
        let gradient = context.contiguous(&gradient);
        let result = if self.mode == BY_MAXIMUM {
            context.empty_contiguous(gradient.dtype(), &[self.rows, width])
        } else {
            sorted_gradient(context, &node.saved(0), &gradient, [self.rows, width], Kind::Bag)
        };
        smallvec![Some(result), of_weights]
    }
}

/// Sums, means or maxima of rows, bag by bag.
pub(super) fn bag(context: &mut Context, call: &Call<'_>) -> Outcome {
    let (table, indices, offsets) = (call.tensor(0)?, call.tensor(1)?, call.tensor(2)?);
    let mode = call.int(4)?;
    let &[rows, width] = table.shape() else { return Err(Unmodelled) };
    let (scales_by_frequency, is_sparse) = (call.bool(3).unwrap_or(false), call.bool(5).unwrap_or(false));
    let weights = call.optional_tensor(6);
    let is_recorded = context.is_grad_on() && (table.requires_grad() || weights.is_some_and(Tensor::requires_grad));
    let is_sparse = is_sparse && is_recorded && table.requires_grad();
    let is_known = !is_sparse || (mode != BY_MAXIMUM && may_be_sparse(context, table));
    if scales_by_frequency || !is_known || indices.dtype() != Dtype::Int64 {
        return Err(Unmodelled);
    }
    let sparse = is_sparse.then(|| call.int(8).is_ok_and(|index| index >= 0));
    let bags = offsets.layout().elements() - i64::from(call.bool(7).unwrap_or(false));
    let lengths = context.empty_contiguous(Dtype::Int64, offsets.shape());
    let bag_of_index = context.empty_contiguous(Dtype::Int64, indices.shape());
    let result = context.empty_contiguous(table.dtype(), &[bags, width]);
    let largest = context.empty_contiguous(Dtype::Int64, &[if mode == BY_MAXIMUM { bags } else { 0 }, width]);
    let saved = |_: &dyn Fn(usize) -> bool| {
        smallvec![
            Some(indices.clone()),
            Some(offsets.clone()),
            Some(bag_of_index.detach()),
            Some(lengths.detach()),
            Some(largest.detach()),
            weights.cloned()
        ]
    };
    let edge = context.record(&[Some(table), weights], 4, saved, Bag { rows, mode, sparse });
    Ok(smallvec![result.with_edge(edge), bag_of_index, lengths, largest])
}
