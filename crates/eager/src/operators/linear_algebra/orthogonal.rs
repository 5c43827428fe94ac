//! Orthogonal factors by cuSOLVER: `qr`, `eigh`, `svd`, `svdvals`. The workspaces are ranges around what an H200 takes.
//!
//! The gradients of eigenvalues and eigenvectors together, and of singular vectors, are guessed.

use smallvec::smallvec;
use vramfit_graph::dims::Dims;
use vramfit_graph::dtype::Dtype;

use super::{POINTER, batch_of, by_columns, check, is_matrix, solved};
use crate::autograd::{Backward, Context, Edge, Gradients, Node, Tensor};
use crate::operators::call::{Call, Outcome, Unmodelled};

const WORKSPACE: &str = "workspace of cuSOLVER";
/// What cuSOLVER takes at most for each matrix beside multiples of it: more than was seen.
const MOST_BESIDE_MATRIX: u64 = 16 << 20;
/// Matrices so small are decomposed in batches.
const LARGEST_IN_BATCH: i64 = 32;
/// Rows of matrices whose batches cuBLAS factors.
const MOST_ROWS_IN_BATCH: i64 = 256;

/// A matrix that is not empty, and how many there are.
fn matrices(tensor: &Tensor) -> Result<(Dims, u64), Unmodelled> {
    let shape: Dims = tensor.shape().into();
    if !is_matrix(tensor) || tensor.dtype().is_complex() || shape.contains(&0) {
        return Err(Unmodelled);
    }
    let batch = batch_of(&shape).unsigned_abs();
    Ok((shape, batch))
}

/// The workspace of a decomposition of one matrix: expected as seen, at most some multiples of the matrix.
fn workspace(context: &mut Context, expected: u64, matrix_bytes: u64) {
    context.uncertain_workspace(WORKSPACE, (0, expected, MOST_BESIDE_MATRIX + 8 * matrix_bytes));
}

fn with_edges(results: [Tensor; 2], edge: Option<Edge>) -> [Tensor; 2] {
    let mut output = 0;
    results.map(|result| {
        let edge = edge.clone().map(|edge| Edge { output, ..edge });
        output += 1;
        result.with_edge(edge)
    })
}

/// `qr`, reduced, of matrices with as many rows as columns or more.
pub(super) fn qr(context: &mut Context, call: &Call<'_>) -> Outcome {
    let matrix = call.tensor(0)?;
    let (shape, batch) = matrices(matrix)?;
    let [rows, columns] = [shape[shape.len() - 2], shape[shape.len() - 1]];
    if rows < columns || call.result(0)?.shape != shape {
        return Err(Unmodelled);
    }
    let dtype = matrix.dtype();
    let one = matrix.layout().bytes() / batch;
    let q = by_columns(context, dtype, &shape);
    let r = by_columns(context, dtype, &call.result(1)?.shape);
    let mut of_tau: Dims = shape[..shape.len() - 2].into();
    of_tau.push(columns);
    let tau = context.empty_contiguous(dtype, &of_tau);
    if rows <= MOST_ROWS_IN_BATCH && batch >= 2.max(rows.unsigned_abs() / 16) {
        let both = (context.scratch(POINTER * batch), context.scratch(POINTER * batch));
        drop(both.1);
        drop(both.0);
    } else {
        let code = context.scratch(4);
        // Blocks of 1024 for each column, of 256 columns at least.
        let expected = dtype.bytes() * 1024 * (512 + columns.unsigned_abs().max(256)) + 128;
        (0..batch).for_each(|_| workspace(context, expected, one));
        drop(code);
    }
    let code = context.scratch(4);
    let expected = match columns {
        ..128 => dtype.bytes() * 33_024 + one.next_multiple_of(128),
        _ => dtype.bytes() * (256 * columns.unsigned_abs() + 128 * rows.unsigned_abs() + 16_640),
    };
    (0..batch).for_each(|_| workspace(context, expected, one));
    drop(code);
    drop(tau);
    let saved = |_: &dyn Fn(usize) -> bool| smallvec![Some(q.detach()), Some(r.detach())];
    let edge = context.record(&[Some(matrix)], 2, saved, OfQr);
    Ok(with_edges([q, r], edge).into_iter().collect())
}

#[derive(Debug)]
struct OfQr;

impl Backward for OfQr {
    fn apply(&self, context: &mut Context, node: &Node, gradients: &mut Gradients) -> Gradients {
        let (has_q, has_r) = (gradients[0].is_some(), gradients[1].is_some());
        let Some(dtype) = gradients.iter().flatten().next().map(Tensor::dtype) else { return smallvec![None] };
        let (whole, small): (Dims, Dims) = (node.saved(0).shape().into(), node.saved(1).shape().into());
        let new = |context: &Context, shape: &[i64]| context.empty_contiguous(dtype, shape);
        context.use_blas();
        let product = new(context, &small);
        let product = match (has_q, has_r) {
            (true, true) => {
                let other = new(context, &small);
                let difference = new(context, &small);
                drop(other);
                drop(product);
                difference
            }
            (true, false) => {
                let negated = new(context, &small);
                drop(product);
                negated
            }
            _ => product,
        };
        let upper = new(context, &small);
        let symmetric = new(context, &small);
        let mut turned = new(context, &whole);
        drop(product);
        drop(symmetric);
        drop(upper);
        if has_q {
            let sum = new(context, &whole);
            turned = sum;
        }
        let found = solved(context, dtype, &whole, small[small.len() - 1]);
        drop(turned);
        smallvec![Some(found)]
    }
}

/// What cuSOLVER takes for eigenvalues: little by Jacobi's method, which is taken for single precision from 32 to 512.
fn eigenvalue_workspace(dtype: Dtype, size: i64, is_in_batch: bool) -> u64 {
    let size = size.unsigned_abs();
    if dtype == Dtype::Float32 && (32..=512).contains(&size) && !is_in_batch {
        4 * size * size + 140 * size + 4096
    } else {
        dtype.bytes() * (65_536 + 768 * size + 3 * size * size)
    }
}

pub(super) fn eigh(context: &mut Context, call: &Call<'_>) -> Outcome {
    let matrix = call.tensor(0)?;
    let (shape, batch) = matrices(matrix)?;
    let size = shape[shape.len() - 1];
    let vectors = by_columns(context, matrix.dtype(), &shape);
    let values = context.empty_contiguous(matrix.dtype(), &shape[..shape.len() - 1]);
    let codes = context.empty_contiguous(Dtype::Int32, &shape[..shape.len() - 2]);
    let one = matrix.layout().bytes() / batch;
    let is_in_batch = size <= LARGEST_IN_BATCH && batch > 1;
    let expected = eigenvalue_workspace(matrix.dtype(), size, is_in_batch);
    if is_in_batch {
        context.uncertain_workspace(WORKSPACE, (0, batch * expected, MOST_BESIDE_MATRIX + 2 * batch * expected));
    } else {
        (0..batch).for_each(|_| workspace(context, expected, one));
    }
    check(context, &codes);
    drop(codes);
    let saved = |_: &dyn Fn(usize) -> bool| smallvec![Some(values.detach()), Some(vectors.detach())];
    let edge = context.record(&[Some(matrix)], 2, saved, OfValues { values: 0, what: "gradient of eigenvectors" });
    Ok(with_edges([values, vectors], edge).into_iter().collect())
}

/// The gradient of eigenvalues and eigenvectors, or of singular ones.
#[derive(Debug)]
struct OfValues {
    /// Which output the values are. They are saved first, the vectors after them.
    values: usize,
    /// The gradients that are guessed.
    what: &'static str,
}

impl OfValues {
    /// Of the values alone: the vectors times their gradient, times the vectors.
    fn of_values(&self, context: &mut Context, node: &Node, dtype: Dtype, shape: &[i64]) -> Tensor {
        context.use_blas();
        let scaled = context.empty(node.saved(1).shared_layout());
        let found = context.empty_contiguous(dtype, shape);
        drop(scaled);
        found
    }

    /// Of vectors: products with them, over the differences of all values.
    fn of_vectors(context: &mut Context, dtype: Dtype, shape: &[i64]) -> Tensor {
        let new = |context: &Context| context.empty_contiguous(dtype, shape);
        context.use_blas();
        let product = new(context);
        let other = new(context);
        let skew = new(context);
        drop(other);
        drop(new(context));
        let half = new(context);
        let found = new(context);
        drop(half);
        drop(skew);
        drop(product);
        found
    }
}

impl Backward for OfValues {
    fn apply(&self, context: &mut Context, node: &Node, gradients: &mut Gradients) -> Gradients {
        let values = self.values;
        let others = gradients.iter().enumerate().filter(|(at, gradient)| *at != values && gradient.is_some()).count();
        let Some(dtype) = gradients.iter().flatten().next().map(Tensor::dtype) else { return smallvec![None] };
        let shape: Dims = match &node.inputs[0] {
            Some(input) => input.shape.clone(),
            None => return smallvec![None],
        };
        if others == 0 {
            return smallvec![Some(self.of_values(context, node, dtype, &shape))];
        }
        if values != 0 || gradients[values].is_some() {
            context.note_guess(self.what);
        }
        smallvec![Some(Self::of_vectors(context, dtype, &shape))]
    }
}

/// `svd`: U, the singular values, V turned.
pub(super) fn svd(context: &mut Context, call: &Call<'_>) -> Outcome {
    let matrix = call.tensor(0)?;
    matrices(matrix)?;
    let [left, values, right] = [call.result(0)?, call.result(1)?, call.result(2)?];
    let [left, values, right] = decomposed(context, matrix, [&left.shape, &values.shape, &right.shape])?;
    let saved = |_: &dyn Fn(usize) -> bool| smallvec![Some(values.detach()), Some(left.detach()), Some(right.detach())];
    let edge = context.record(&[Some(matrix)], 3, saved, OfValues { values: 1, what: "gradient of singular vectors" });
    let of = |output| edge.clone().map(|edge| Edge { output, ..edge });
    Ok(smallvec![left.with_edge(of(0)), values.with_edge(of(1)), right.with_edge(of(2))])
}

/// Only the singular values: vectors are kept for a gradient.
pub(super) fn singular_values(context: &mut Context, call: &Call<'_>) -> Outcome {
    let matrix = call.tensor(0)?;
    let (shape, batch) = matrices(matrix)?;
    let [rows, columns] = [shape[shape.len() - 2], shape[shape.len() - 1]];
    let fewer = rows.min(columns);
    let of = |rows: i64, columns: i64| -> Dims {
        let mut found: Dims = shape[..shape.len() - 2].into();
        found.extend([rows, columns]);
        found
    };
    if rows != columns {
        return Err(Unmodelled);
    }
    let of_values = call.result(0)?.shape;
    if context.is_grad_on() && matrix.requires_grad() {
        let (of_left, of_right) = (of(rows, fewer), of(fewer, columns));
        let [left, values, right] = decomposed(context, matrix, [&of_left, &of_values, &of_right])?;
        let saved =
            |_: &dyn Fn(usize) -> bool| smallvec![Some(values.detach()), Some(left.detach()), Some(right.detach())];
        let edge =
            context.record(&[Some(matrix)], 3, saved, OfValues { values: 1, what: "gradient of singular vectors" });
        return Ok(smallvec![values.with_edge(edge.map(|edge| Edge { output: 1, ..edge }))]);
    }
    let values = context.empty_contiguous(matrix.dtype(), &of_values);
    let codes = context.empty_contiguous(Dtype::Int32, &shape[..shape.len() - 2]);
    let copied = by_columns(context, matrix.dtype(), &shape);
    // Vectors of one matrix, which the method computes all the same.
    let vectors = (
        context.empty_contiguous(matrix.dtype(), &[rows, rows]),
        context.empty_contiguous(matrix.dtype(), &[columns, columns]),
    );
    svd_workspace(context, matrix, batch);
    drop(vectors.1);
    drop(vectors.0);
    drop(copied);
    check(context, &codes);
    Ok(smallvec![values])
}

fn svd_workspace(context: &mut Context, matrix: &Tensor, batch: u64) {
    let one = matrix.layout().bytes() / batch;
    let shape = matrix.shape();
    let [rows, columns] = [shape[shape.len() - 2], shape[shape.len() - 1]];
    let expected = match columns {
        _ if rows > columns => matrix.dtype().bytes() * (768 << 10) + 512,
        ..=LARGEST_IN_BATCH => matrix.dtype().bytes() * 992,
        _ => 2 * one + matrix.dtype().bytes() * (72 * columns.unsigned_abs() + 3072),
    };
    workspace(context, expected, one);
}

fn decomposed(context: &mut Context, matrix: &Tensor, shapes: [&[i64]; 3]) -> Result<[Tensor; 3], Unmodelled> {
    let (shape, batch) = matrices(matrix)?;
    let [rows, columns] = [shape[shape.len() - 2], shape[shape.len() - 1]];
    // Small matrices that are not square are decomposed with whole vectors.
    if rows < columns || (rows > columns && rows <= LARGEST_IN_BATCH) {
        return Err(Unmodelled);
    }
    let dtype = matrix.dtype();
    let left = by_columns(context, dtype, shapes[0]);
    let right = by_columns(context, dtype, shapes[2]);
    let values = context.empty_contiguous(dtype, shapes[1]);
    let codes = context.empty_contiguous(Dtype::Int32, &shape[..shape.len() - 2]);
    let copied = by_columns(context, dtype, &shape);
    svd_workspace(context, matrix, batch);
    drop(copied);
    check(context, &codes);
    Ok([left, values, right])
}
