//! Embedding: rows of a table; their gradient is sorted by row where there are many.

use smallvec::smallvec;
use vramfit_graph::dtype::Dtype;

use super::context::accumulator_dtype;
use super::view::reshaped;
use super::{Call, Context, Outcome, Rule, Unmodelled};
use crate::kernels::{cub, embedding as kernel};
use crate::tape::{Backward, Gradients, Node};
use crate::tensor::{Dims, Tensor};

pub(super) fn rule(name: &str) -> Option<Rule> {
    (name == "aten.embedding.default").then_some(embedding as Rule)
}

/// Saved: the indices.
#[derive(Debug)]
struct Embedded {
    rows: i64,
}

impl Backward for Embedded {
    fn apply(&self, context: &mut Context, node: &Node, gradients: &mut Gradients) -> Gradients {
        let Some(gradient) = gradients[0].clone() else { return smallvec![None] };
        let saved = node.saved(0);
        let indices = context.contiguous(&saved);
        let gradient = context.contiguous(&gradient);
        let width = gradient.shape().last().copied().unwrap_or(1);
        let result = if indices.layout().elements() <= kernel::MOST_UNSORTED {
            context.empty_contiguous(gradient.dtype(), &[self.rows, width])
        } else {
            sorted_gradient(context, &indices, &gradient, self.rows, width)
        };
        drop(gradient);
        drop(indices);
        smallvec![Some(result)]
    }
}

/// The gradient of the table from many indices: sorted, split into parts, summed.
fn sorted_gradient(context: &mut Context, indices: &Tensor, gradient: &Tensor, rows: i64, width: i64) -> Tensor {
    let count = indices.layout().elements();
    let integers = |context: &mut Context, count: i64| context.empty_contiguous(indices.dtype(), &[count]);
    let sorted = integers(context, count);
    let original = integers(context, count);
    let range = integers(context, count);
    drop(context.scratch(cub::radix_sort_pairs(count)));
    drop(range);

    let result = context.empty_contiguous(gradient.dtype(), &[rows, width]);
    let segment_offsets = integers(context, count);
    let segment_count = context.empty_contiguous(Dtype::Int64, &[]);
    let keys = integers(context, count);
    drop(context.scratch(cub::unique_by_key(count)));
    drop(keys);

    let parts = kernel::parts(count, rows, width, context.gpu());
    let parts_of_segment = integers(context, parts.segments);
    let offset_of_segment = integers(context, parts.segments);
    drop(context.scratch(cub::exclusive_sum(parts.segments)));
    let part_count = context.empty_contiguous(Dtype::Int64, &[]);
    let part_offsets = integers(context, parts.parts);
    let accumulator = accumulator_dtype(gradient.dtype());
    if parts.is_fused {
        let segment_of_part = integers(context, parts.parts);
        if accumulator != gradient.dtype() {
            drop(context.empty_contiguous(accumulator, &[rows, width]));
        }
        drop(segment_of_part);
    } else {
        drop(context.empty_contiguous(accumulator, &[parts.parts, width]));
    }
    drop(part_offsets);
    drop(part_count);
    drop(offset_of_segment);
    drop(parts_of_segment);
    drop(segment_count);
    drop(segment_offsets);
    drop(original);
    drop(sorted);
    result
}

fn embedding(context: &mut Context, call: &Call<'_>) -> Outcome {
    let (table, indices) = (call.tensor(0)?, call.tensor(1)?);
    let (scales_by_frequency, is_sparse) = (call.bool(3).unwrap_or(false), call.bool(4).unwrap_or(false));
    let &[rows, width] = table.shape() else { return Err(Unmodelled) };
    let wants_gradient = context.is_grad_on() && table.requires_grad();
    let is_sorted = indices.layout().elements() > kernel::MOST_UNSORTED;
    if wants_gradient && (scales_by_frequency || is_sparse || (is_sorted && indices.dtype() != Dtype::Int64)) {
        return Err(Unmodelled);
    }
    let mut shape: Dims = indices.shape().into();
    shape.push(width);
    // Indices that cannot be seen as one row are copied into one.
    let flat = reshaped(context, indices, &[indices.layout().elements()]);
    let result = context.empty_contiguous(table.dtype(), &shape);
    drop(flat);
    let edge = context.record(&[Some(table)], 1, |_| smallvec![Some(indices.clone())], Embedded { rows });
    Ok(smallvec![result.with_edge(edge)])
}
