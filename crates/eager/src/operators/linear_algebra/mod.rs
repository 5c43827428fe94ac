//! Factors of matrices and systems of equations, by cuSOLVER and cuBLAS. What is not modelled is named.

use smallvec::smallvec;
use vramfit_graph::dims::Dims;
use vramfit_graph::dtype::Dtype;
use vramfit_graph::layout::Layout;

mod lu;
mod orthogonal;

use super::call::{Call, Outcome, Unmodelled};
use super::facts::*;
use super::function::Function;
use crate::autograd::{Context, Gradients, Node, Tensor};
use crate::kernels::reduce::Reduction;

/// What the family's operators have in common.
const FAMILY: Facts = Facts::of_family(
    Library::Own,
    Launch::LocalMemory,
    Time::ASSUMED,
    Keeps::Results,
    Autocast::Unchanged,
    Samples::Matrices,
);

pub(super) const OPERATORS: &[Operator] = &[
    Operator::new(&["aten.linalg_solve_triangular.default"], Facts { memory: Modelled(solve_triangular), ..FAMILY }),
    Operator::new(&["aten.linalg_cholesky.default"], Facts { memory: Modelled(cholesky), ..FAMILY }),
    Operator::new(&["aten.linalg_solve.default"], Facts { memory: Modelled(lu::solve), ..FAMILY }),
    Operator::new(
        &["aten.linalg_inv.default", "aten.inverse.default"],
        Facts { memory: Modelled(lu::inverse), ..FAMILY },
    ),
    Operator::new(&["aten.linalg_inv_ex.default"], Facts { memory: Modelled(lu::inverse_with_codes), ..FAMILY }),
    Operator::new(
        &["aten.linalg_det.default", "aten.det.default"],
        Facts { memory: Modelled(lu::determinant), ..FAMILY },
    ),
    Operator::new(
        &["aten.linalg_slogdet.default", "aten.slogdet.default"],
        Facts { memory: Modelled(lu::sign_and_logarithm), ..FAMILY },
    ),
    Operator::new(&["aten.linalg_qr.default"], Facts { memory: Modelled(orthogonal::qr), ..FAMILY }),
    Operator::new(&["aten.linalg_eigh.default"], Facts { memory: Modelled(orthogonal::eigh), ..FAMILY }),
    Operator::new(&["aten.linalg_svd.default"], Facts { memory: Modelled(orthogonal::svd), ..FAMILY }),
    Operator::new(&["aten.linalg_svdvals.default"], Facts { memory: Modelled(orthogonal::singular_values), ..FAMILY }),
    Operator::new(&["aten.linalg_lu_factor.default"], Facts { memory: Modelled(lu::lu_factor), ..FAMILY }),
];

/// Batches so small of matrices so large that each is solved by a call of its own.
const MOST_SOLVED_APART: i64 = 8;
const LARGE: i64 = 64;
/// Above this MAGMA solves batches, with pointers on the host.
const LARGEST_BATCHED: i64 = 512;
/// Bytes of a pointer to a matrix.
const POINTER: u64 = 8;

/// How many matrices a tensor holds.
fn batch_of(shape: &[i64]) -> i64 {
    shape[..shape.len() - 2].iter().product()
}

fn is_matrix(tensor: &Tensor) -> bool {
    tensor.shape().len() >= 2
}

/// A matrix stored column by column.
fn by_columns(context: &Context, dtype: Dtype, shape: &[i64]) -> Tensor {
    let rank = shape.len();
    let mut turned: Dims = shape.into();
    turned.swap(rank - 2, rank - 1);
    let memory = context.empty_contiguous(dtype, &turned);
    let mut strides = memory.layout().strides.clone();
    strides.swap(rank - 2, rank - 1);
    memory.unsafe_view(Layout { dtype, shape: shape.into(), strides })
}

/// `triangular_solve_kernel`: a result stored column by column, and pointers where a batch is solved at once.
fn solved(context: &mut Context, dtype: Dtype, shape: &[i64], size: i64) -> Tensor {
    let result = by_columns(context, dtype, shape);
    context.use_blas();
    pointers(context, batch_of(shape), size);
    result
}

/// Pointers to the matrices of a batch that is solved at once.
fn pointers(context: &Context, batch: i64, size: i64) {
    if !(batch <= MOST_SOLVED_APART && size >= LARGE) && size <= LARGEST_BATCHED {
        two_arrays(context, batch);
    }
}

/// Pointers to the matrices of two batches.
fn two_arrays(context: &Context, batch: i64) {
    let bytes = POINTER * batch.unsigned_abs();
    let both = (context.scratch(bytes), context.scratch(bytes));
    drop(both.1);
    drop(both.0);
}

/// The workspace of cuSOLVER for a triangular factor of one matrix of so many bytes.
fn solver_workspace(context: &mut Context, expected: u64, bytes: u64) {
    context.uncertain_workspace("workspace of cuSOLVER", (0, expected, MOST_BESIDE_MATRIX + bytes));
}

/// `linalg_solve_triangular(A, B, upper, left, unitriangular)`.
fn solve_triangular(context: &mut Context, call: &Call<'_>) -> Outcome {
    let (matrix, given) = (call.tensor(0)?, call.tensor(1)?);
    let is_same_batch = matrix.shape().len() == given.shape().len()
        && is_matrix(matrix)
        && batch_of(matrix.shape()) == batch_of(given.shape());
    if !is_same_batch || !matrix.layout().is_dense() {
        return Err(Unmodelled);
    }
    let size = *matrix.shape().last().ok_or(Unmodelled)?;
    let result = solved(context, given.dtype(), given.shape(), size);
    let saved = |_: &dyn Fn(usize) -> bool| smallvec![Some(matrix.clone()), Some(result.detach())];
    let edge = context.record(&[Some(matrix), Some(given)], 1, saved, Function(size, solve_triangular_backward));
    Ok(smallvec![result.with_edge(edge)])
}

/// The right side's gradient is the solution of the turned system. The matrix's is a product, turned round and cut to its triangle.
fn solve_triangular_backward(&size: &i64, context: &mut Context, node: &Node, gradient: Tensor) -> Gradients {
    let dtype = gradient.dtype();
    let of_given = solved(context, dtype, gradient.shape(), size);
    let of_matrix = node.wants(0).then(|| {
        let shape: Dims = node.saved(0).shape().into();
        let product = context.empty_contiguous(dtype, &shape);
        context.use_blas();
        let turned = context.empty_contiguous(dtype, &shape);
        drop(product);
        let triangle = context.empty_contiguous(dtype, &shape);
        drop(turned);
        triangle
    });
    smallvec![of_matrix, node.wants(1).then_some(of_given)]
}

/// The error codes of matrices are looked at (`_linalg_check_errors`); a single one is turned into a truth value first.
fn check(context: &Context, codes: &Tensor) {
    let truth = codes.shape().is_empty().then(|| context.empty_contiguous(Dtype::Bool, &[]));
    let found = context.empty_contiguous(Dtype::Bool, &[]);
    let all: Dims = (0..codes.shape().len() as i64).collect();
    context.reduction_buffers(codes.layout(), &all, Reduction { partial_bytes: 1, input_vector: 4, max_threads: 512 });
    drop(found);
    drop(truth);
}

/// The largest workspace of cuSOLVER's Cholesky factor that is allowed for, beside the matrix: more than was seen.
const MOST_BESIDE_MATRIX: u64 = 4 << 20;

fn cholesky(context: &mut Context, call: &Call<'_>) -> Outcome {
    let matrix = call.tensor(0)?;
    if !is_matrix(matrix) {
        return Err(Unmodelled);
    }
    let shape: Dims = matrix.shape().into();
    let size = shape[shape.len() - 1];
    let result = by_columns(context, matrix.dtype(), &shape);
    let codes = context.empty_contiguous(Dtype::Int32, &shape[..shape.len() - 2]);
    let batch = batch_of(&shape).unsigned_abs();
    if batch == 1 {
        solver_workspace(context, 512, matrix.layout().bytes());
    } else {
        drop(context.scratch(POINTER * batch));
    }
    check(context, &codes);
    drop(codes);
    let saved = |_: &dyn Fn(usize) -> bool| smallvec![Some(result.detach())];
    let edge = context.record(&[Some(matrix)], 1, saved, Function(size, cholesky_backward));
    Ok(smallvec![result.with_edge(edge)])
}

/// The factor times the gradient, made symmetric from its lower triangle, between two solutions of triangular systems.
fn cholesky_backward(&size: &i64, context: &mut Context, node: &Node, gradient: Tensor) -> Gradients {
    let dtype = gradient.dtype();
    let shape: Dims = node.saved(0).shape().into();
    let new = |context: &Context| context.empty_contiguous(dtype, &shape);
    let product = new(context);
    context.use_blas();
    let lower = new(context);
    drop(product);
    let below = new(context);
    let turned = new(context);
    let symmetric = new(context);
    drop(lower);
    drop(turned);
    drop(below);
    let half = solved(context, dtype, &shape, size);
    drop(symmetric);
    let found = solved(context, dtype, &shape, size);
    drop(half);
    smallvec![Some(found)]
}
