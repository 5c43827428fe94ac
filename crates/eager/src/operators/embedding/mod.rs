//! Embedding: rows of a table; their gradient is sorted by row where there are many.

mod bag;

use smallvec::smallvec;
use vramfit_graph::dims::Dims;
use vramfit_graph::dtype::Dtype;
use vramfit_graph::layout::Layout;

use super::call::{Call, Outcome, Unmodelled};
use super::facts::*;
use super::indexing::{nonzero, sorted};
use super::view::reshaped;
use crate::autograd::{Backward, Context, Gradients, Node, Rows, Tensor};
use crate::kernels::accumulator::accumulator_dtype;
use crate::kernels::cub;
use crate::kernels::embedding as kernel;

/// What the family's operators have in common.
const FAMILY: Facts = Facts::of_family(
    Library::Own,
    Launch::LocalMemoryAndStack,
    Time::ASSUMED,
    Keeps::Nothing,
    Autocast::Unchanged,
    Samples::Apart,
);

pub(super) const OPERATORS: &[Operator] = &[
    Operator::new(
        &["aten.embedding.default"],
        Facts {
            memory: Modelled(embedding),
            time: Time::moves("embedding", Extent::Result),
            keeps: Keeps::Inputs,
            reads: Reads::Rows,
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.embedding_dense_backward.default", "aten.embedding_backward.default"],
        Facts { memory: Modelled(dense_backward), keeps: Keeps::Inputs, ..FAMILY },
    ),
    Operator::new(
        &["aten.embedding_renorm_.default"],
        Facts {
            memory: Modelled(renorm),
            launch: Launch::LocalMemory,
            effect: Effect::WritesFirst,
            samples: Samples::Unknown,
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten._embedding_bag.default", "aten._embedding_bag_forward_only.default"],
        Facts { memory: Modelled(bag::bag), launch: Launch::LocalMemory, samples: Samples::Unknown, ..FAMILY },
    ),
    Operator::new(
        &["aten.embedding_bag.default", "aten.embedding_bag.padding_idx"],
        Facts { samples: Samples::Unknown, ..FAMILY },
    ),
];

/// The most indices for which the scratch of counting by row has been recorded.
const LONGEST_COUNTED: i64 = 5000;

/// Saved: the indices.
#[derive(Debug)]
struct Embedded {
    rows: i64,
    scales_by_frequency: bool,
}

impl Backward for Embedded {
    fn apply(&self, context: &mut Context, node: &Node, gradients: &mut Gradients) -> Gradients {
        let Some(gradient) = gradients[0].clone() else { return smallvec![None] };
        smallvec![Some(gradient_of_table(context, &gradient, &node.saved(0), self.rows, self.scales_by_frequency))]
    }
}

/// The gradient of the table, as the embedding's backward pass computes it.
fn gradient_of_table(
    context: &mut Context,
    gradient: &Tensor,
    indices: &Tensor,
    rows: i64,
    scales_by_frequency: bool,
) -> Tensor {
    let indices = context.contiguous(indices);
    let gradient = context.contiguous(gradient);
    let width = gradient.shape().last().copied().unwrap_or(1);
    if indices.layout().elements() <= kernel::MOST_UNSORTED && !scales_by_frequency {
        return context.empty_contiguous(gradient.dtype(), &[rows, width]);
    }
    let kind = if scales_by_frequency { Kind::ByFrequency } else { Kind::Plain };
    sorted_gradient(context, &indices, &gradient, [rows, width], kind)
}

/// Whether the gradient of a table from these indices is not known.
fn is_gradient_unknown(indices: &Tensor, scales_by_frequency: bool) -> bool {
    let count = indices.layout().elements();
    let is_sorted = count > kernel::MOST_UNSORTED || scales_by_frequency;
    (scales_by_frequency && count > LONGEST_COUNTED) || (is_sorted && indices.dtype() != Dtype::Int64)
}

/// What the indices are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Plain,
    ByFrequency,
    Bag,
}

/// The gradient of the table from many indices: sorted, split into parts, summed.
fn sorted_gradient(
    context: &mut Context,
    indices: &Tensor,
    gradient: &Tensor,
    [rows, width]: [i64; 2],
    kind: Kind,
) -> Tensor {
    let count = indices.layout().elements();
    let integers = |context: &mut Context, count: i64| context.empty_contiguous(indices.dtype(), &[count]);
    let sorted = integers(context, count);
    let original = integers(context, count);
    let range = integers(context, count);
    drop(context.scratch(cub::radix_sort_pairs(count)));
    drop(range);
    // How often each row is named: a running count within its run, forwards and backwards.
    let frequencies = (kind == Kind::ByFrequency).then(|| {
        let counts = integers(context, count);
        drop(context.scratch(cub::unique_by_key(count)));
        drop(context.scratch(cub::unique_by_key(count)));
        counts
    });

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
    if parts.is_fused && kind != Kind::Bag {
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
    drop(frequencies);
    drop(original);
    drop(sorted);
    result
}

/// Saved: the indices. `rows` are those of the table.
#[derive(Debug)]
struct SparselyEmbedded {
    rows: i64,
    has_padding: bool,
}

impl Backward for SparselyEmbedded {
    fn apply(&self, context: &mut Context, node: &Node, gradients: &mut Gradients) -> Gradients {
        let Some(gradient) = gradients[0].clone() else { return smallvec![None] };
        smallvec![Some(sparse_gradient(context, &node.saved(0), &gradient, (self.rows, self.has_padding)))]
    }
}

/// `embedding_sparse_backward`.
fn sparse_gradient(
    context: &mut Context,
    indices: &Tensor,
    gradient: &Tensor,
    (rows, has_padding): (i64, bool),
) -> Tensor {
    if has_padding && indices.layout().elements() > 0 {
        let (indices, gradient) = without_padding(context, indices, gradient);
        return gradient_by_row(context, &indices, &gradient, rows);
    }
    gradient_by_row(context, indices, gradient, rows)
}

/// A sparse gradient of a table of `rows`: as many rows as there are indices, on the memory of both where they lie in order.
fn gradient_by_row(context: &mut Context, indices: &Tensor, gradient: &Tensor, rows: i64) -> Tensor {
    context.has_met_sparse = true;
    let width = gradient.shape().last().copied().unwrap_or(1);
    let count = indices.layout().elements();
    let indices = reshaped(context, indices, &[1, count]);
    let values = reshaped(context, gradient, &[count, width]);
    let rows_of_table = Rows { values: values.detach(), indices: indices.detach() };
    Tensor::sparse(rows_of_table, Layout::contiguous(gradient.dtype(), &[rows, width]))
}

/// What a comparison with the index that has no gradient leaves out: indices and rows of the gradient are picked by a mask.
fn without_padding(context: &mut Context, indices: &Tensor, gradient: &Tensor) -> (Tensor, Tensor) {
    let mask = context.empty_contiguous(Dtype::Bool, indices.shape());
    let count = indices.layout().elements();
    let width = gradient.shape().last().copied().unwrap_or(1);
    let places = nonzero(context, &mask, count);
    let picked = context.empty_contiguous(indices.dtype(), &[count]);
    drop(places);
    let places = nonzero(context, &mask, count);
    let values = context.empty_contiguous(gradient.dtype(), &[count, width]);
    drop(places);
    drop(mask);
    (picked, values)
}

/// Whether the table's own gradient may be sparse: it is a leaf, and what takes its gradient knows sparse ones.
fn may_be_sparse(context: &Context, table: &Tensor) -> bool {
    context.has_sparse_gradients && table.edge().is_some_and(|edge| edge.node.backward.gradient().is_some())
}

fn embedding(context: &mut Context, call: &Call<'_>) -> Outcome {
    let (table, indices) = (call.tensor(0)?, call.tensor(1)?);
    let (scales_by_frequency, is_sparse) = (call.bool(3).unwrap_or(false), call.bool(4).unwrap_or(false));
    let &[rows, width] = table.shape() else { return Err(Unmodelled) };
    let wants_gradient = context.is_grad_on() && table.requires_grad();
    let is_sparse = is_sparse && wants_gradient;
    if wants_gradient && !is_sparse && is_gradient_unknown(indices, scales_by_frequency) {
        return Err(Unmodelled);
    }
    if is_sparse && (scales_by_frequency || !may_be_sparse(context, table) || indices.dtype() != Dtype::Int64) {
        return Err(Unmodelled);
    }
    let mut shape: Dims = indices.shape().into();
    shape.push(width);
    // Indices that cannot be seen as one row are copied into one.
    let flat = reshaped(context, indices, &[indices.layout().elements()]);
    let result = context.empty_contiguous(table.dtype(), &shape);
    drop(flat);
    let saved = |_: &dyn Fn(usize) -> bool| smallvec![Some(indices.clone())];
    let edge = if is_sparse {
        let has_padding = call.int(2).is_ok_and(|index| index >= 0);
        context.record(&[Some(table)], 1, saved, SparselyEmbedded { rows, has_padding })
    } else {
        context.record(&[Some(table)], 1, saved, Embedded { rows, scales_by_frequency })
    };
    Ok(smallvec![result.with_edge(edge)])
}

/// Saved: the indices.
#[derive(Debug)]
struct GradientOfTable {
    padding: i64,
}

impl Backward for GradientOfTable {
    fn apply(&self, context: &mut Context, node: &Node, gradients: &mut Gradients) -> Gradients {
        let Some(gradient) = gradients[0].clone() else { return smallvec![None] };
        let indices = node.saved(0);
        let count = indices.layout().elements();
        let width = gradient.shape().last().copied().unwrap_or(1);
        let flat = reshaped(context, &indices, &[count]);
        let rows = context.empty_contiguous(gradient.dtype(), &[count, width]);
        drop(flat);
        if self.padding >= 0 {
            drop(context.empty_contiguous(Dtype::Bool, indices.shape()));
        }
        let mut shape: Dims = indices.shape().into();
        shape.push(width);
        smallvec![Some(reshaped(context, &rows, &shape))]
    }
}

/// The gradient of a table, called by itself: by a transform such as `torch.func.vmap`, or where a backward pass is recorded.
fn dense_backward(context: &mut Context, call: &Call<'_>) -> Outcome {
    let (gradient, indices) = (call.tensor(0)?, call.tensor(1)?);
    let (rows, padding, scales_by_frequency) = (call.int(2)?, call.int(3)?, call.bool(4)?);
    let is_sparse = call.bool(5).unwrap_or(false);
    if is_sparse || is_gradient_unknown(indices, scales_by_frequency) {
        return Err(Unmodelled);
    }
    let result = gradient_of_table(context, gradient, indices, rows, scales_by_frequency);
    let saved = |_: &dyn Fn(usize) -> bool| smallvec![Some(indices.clone())];
    let edge = context.record(&[Some(gradient)], 1, saved, GradientOfTable { padding });
    Ok(smallvec![result.with_edge(edge)])
}

/// Rows that are too long are scaled, in place: each that is named, once.
fn renorm(context: &mut Context, call: &Call<'_>) -> Outcome {
    let (table, indices) = (call.tensor(0)?, call.tensor(1)?);
    let flat = context.contiguous(indices);
    let (values, places) = sorted(context, &flat, flat.shape().len().saturating_sub(1))?;
    drop(places);
    let count = flat.layout().elements();
    let unique = context.empty_contiguous(indices.dtype(), &[count]);
    let found = context.empty_contiguous(Dtype::Int64, &[]);
    drop(context.scratch(cub::select(count)));
    drop(found);
    drop(unique);
    drop(values);
    Ok(smallvec![table.clone()])
}
