//! Systems of equations by triangular factors: `solve`, `inv`, `det`, `slogdet`, `lu_factor`.
//!
//! Which library factors and solves follows `BatchLinearAlgebra.cpp`: cuSOLVER one matrix, cuBLAS small ones, MAGMA the rest of a
//! batch, with memory of its own.

use smallvec::smallvec;
use vramfit_graph::dims::Dims;
use vramfit_graph::dtype::Dtype;

use super::{POINTER, batch_of, by_columns, check, is_matrix, pointers, solver_workspace, two_arrays};
use crate::autograd::{Backward, Context, Gradients, Node, Tensor};
use crate::operators::call::{Call, Outcome, Unmodelled};
use crate::operators::function::Function;

/// The largest matrices whose batches cuBLAS factors, and those of which it factors only small batches.
const SMALL: i64 = 16;
const MIDDLE: i64 = 128;
const SMALL_BATCH: i64 = 16;
/// Reductions over longer diagonals take buffers that were not looked at.
const LONGEST_DIAGONAL: i64 = 4096;

/// The triangular factors of a matrix, as `lu_factor_ex` returns them.
struct Factors {
    lu: Tensor,
    pivots: Tensor,
}

/// The shape of a batch of square matrices.
fn square(matrix: &Tensor) -> Result<(Dims, i64), Unmodelled> {
    let shape: Dims = matrix.shape().into();
    if !is_matrix(matrix) || shape[shape.len() - 1] != shape[shape.len() - 2] || matrix.dtype().is_complex() {
        return Err(Unmodelled);
    }
    let size = shape[shape.len() - 1];
    if size == 0 || batch_of(&shape) == 0 { Err(Unmodelled) } else { Ok((shape, size)) }
}

fn codes(context: &Context, shape: &[i64]) -> Tensor {
    context.empty_contiguous(Dtype::Int32, &shape[..shape.len() - 2])
}

/// Memory of the factors.
fn factors(context: &Context, dtype: Dtype, shape: &[i64]) -> Factors {
    let lu = by_columns(context, dtype, shape);
    let pivots = context.empty_contiguous(Dtype::Int32, &shape[..shape.len() - 1]);
    Factors { lu, pivots }
}

/// What the library takes that factors.
fn factor(context: &mut Context, lu: &Tensor, size: i64) {
    let batch = batch_of(lu.shape());
    if batch == 1 {
        // As much as an H200 takes, about.
        solver_workspace(context, (20 * size.unsigned_abs()).max(768), lu.layout().bytes());
    } else if size <= SMALL || (size <= MIDDLE && batch <= SMALL_BATCH) {
        drop(context.scratch(POINTER * batch.unsigned_abs()));
    }
}

/// `lu_solve_kernel`: the right side, which is given and overwritten, has `columns` columns.
fn solve_in_place(context: &mut Context, right: &Tensor, size: i64, is_turned: bool) {
    let shape = right.shape();
    let (batch, columns) = (batch_of(shape), shape[shape.len() - 1]);
    context.use_blas();
    let by_triangles = if size == columns {
        size > SMALL
    } else if size <= 8 {
        false
    } else if size <= 64 {
        let is_apart = batch <= 2 && (columns <= 64 || is_turned || size <= 32);
        if is_apart {
            drop(context.scratch(4));
            return;
        }
        columns > 8
    } else if size <= 128 {
        if batch <= 2 && columns <= 2 {
            drop(context.scratch(4));
            return;
        }
        columns > 2
    } else {
        true
    };
    if !by_triangles {
        // MAGMA solves many columns of the smallest matrices, with memory of its own.
        if !(size <= 8 && size != columns && !is_turned && (256..=1024).contains(&columns)) {
            two_arrays(context, batch);
        }
        return;
    }
    let range = |context: &Context, shape: &[i64]| context.empty_contiguous(Dtype::Int64, shape);
    let of_order: Dims = if batch == 1 { [size].as_slice().into() } else { shape[..shape.len() - 1].into() };
    let first = range(context, &[size]);
    let order = if batch == 1 {
        first
    } else {
        let order = range(context, &of_order);
        drop(first);
        order
    };
    if is_turned {
        pointers(context, batch, size);
        pointers(context, batch, size);
        drop(context.empty(right.shared_layout()));
    } else {
        let numbers = range(context, &[size]);
        let inverse = range(context, &of_order);
        let ordered = context.empty(right.shared_layout());
        pointers(context, batch, size);
        pointers(context, batch, size);
        drop(ordered);
        drop(inverse);
        drop(numbers);
    }
    drop(order);
}

/// `lu_factor`: no gradient is modelled.
pub(super) fn lu_factor(context: &mut Context, call: &Call<'_>) -> Outcome {
    let matrix = call.tensor(0)?;
    let (shape, size) = square(matrix)?;
    if context.is_grad_on() && matrix.requires_grad() {
        return Err(Unmodelled);
    }
    let found = factors(context, matrix.dtype(), &shape);
    let codes = codes(context, &shape);
    factor(context, &found.lu, size);
    check(context, &codes);
    Ok(smallvec![found.lu, found.pivots])
}

/// What the gradient of a system needs to know of it.
#[derive(Debug)]
struct System {
    size: i64,
    is_vector: bool,
}

/// A column of each matrix where the right side is a vector.
fn as_columns(shape: &[i64], is_vector: bool) -> Dims {
    let mut shape: Dims = shape.into();
    if is_vector {
        shape.push(1);
    }
    shape
}

/// `solve(A, B, left)`.
pub(super) fn solve(context: &mut Context, call: &Call<'_>) -> Outcome {
    let (matrix, given) = (call.tensor(0)?, call.tensor(1)?);
    let (shape, size) = square(matrix)?;
    let is_left = call.is_none(2) || call.bool(2)?;
    let is_vector = given.shape().len() + 1 == shape.len() && given.shape() == &shape[..shape.len() - 1];
    let is_same_batch = is_vector
        || (given.shape().len() == shape.len() && given.shape()[..shape.len() - 1] == shape[..shape.len() - 1]);
    // A batch of vectors is copied to be solved.
    if !is_left || !is_same_batch || (is_vector && batch_of(&shape) != 1) {
        return Err(Unmodelled);
    }
    let dtype = given.dtype();
    let right = as_columns(given.shape(), is_vector);
    let result = by_columns(context, dtype, &right);
    let found = factors(context, dtype, &shape);
    let codes = codes(context, &shape);
    factor(context, &found.lu, size);
    if is_vector {
        let copied = by_columns(context, dtype, &right);
        solve_in_place(context, &copied, size, false);
        drop(copied);
    } else {
        solve_in_place(context, &result, size, false);
    }
    let result = if is_vector { result.unsafe_view(call.result(0)?) } else { result };
    let saved = |_: &dyn Fn(usize) -> bool| {
        smallvec![Some(matrix.clone()), Some(found.lu.clone()), Some(found.pivots.clone()), Some(result.detach())]
    };
    let edge =
        context.record(&[Some(matrix), Some(given)], 1, saved, Function(System { size, is_vector }, solve_backward));
    drop(found);
    check(context, &codes);
    Ok(smallvec![result.with_edge(edge)])
}

/// The right side's gradient solves the turned system; the matrix's is its product with the solution, negated.
fn solve_backward(system: &System, context: &mut Context, node: &Node, gradient: Tensor) -> Gradients {
    let dtype = gradient.dtype();
    let right = by_columns(context, dtype, &as_columns(gradient.shape(), system.is_vector));
    solve_in_place(context, &right, system.size, true);
    let of_matrix = node.wants(0).then(|| {
        let shape: Dims = node.saved(0).shape().into();
        let product = context.empty_contiguous(dtype, &shape);
        context.use_blas();
        let negated = context.empty_contiguous(dtype, &shape);
        drop(product);
        negated
    });
    let right = if system.is_vector { right.unsafe_view(gradient.shared_layout()) } else { right };
    smallvec![of_matrix, node.wants(1).then_some(right)]
}

/// `inv`, whose codes are looked at.
pub(super) fn inverse(context: &mut Context, call: &Call<'_>) -> Outcome {
    let (result, codes) = inverted(context, call)?;
    check(context, &codes);
    Ok(smallvec![result])
}

/// `inv_ex`, which returns them.
pub(super) fn inverse_with_codes(context: &mut Context, call: &Call<'_>) -> Outcome {
    if !call.is_none(1) && call.bool(1)? {
        return Err(Unmodelled);
    }
    let (result, codes) = inverted(context, call)?;
    Ok(smallvec![result, codes])
}

fn inverted(context: &mut Context, call: &Call<'_>) -> Result<(Tensor, Tensor), Unmodelled> {
    let matrix = call.tensor(0)?;
    let (shape, size) = square(matrix)?;
    let result = by_columns(context, matrix.dtype(), &shape);
    let codes = codes(context, &shape);
    let found = factors(context, matrix.dtype(), &shape);
    factor(context, &found.lu, size);
    solve_in_place(context, &result, size, false);
    drop(found.pivots);
    drop(found.lu);
    let saved = |_: &dyn Fn(usize) -> bool| smallvec![Some(result.detach())];
    let edge = context.record(&[Some(matrix)], 1, saved, Function((), inverse_backward));
    Ok((result.with_edge(edge), codes))
}

/// The gradient between two products with the inverse, negated.
fn inverse_backward((): &(), context: &mut Context, node: &Node, gradient: Tensor) -> Gradients {
    let shape: Dims = node.saved(0).shape().into();
    let new = |context: &Context| context.empty_contiguous(gradient.dtype(), &shape);
    context.use_blas();
    let half = new(context);
    let whole = new(context);
    let negated = new(context);
    drop(whole);
    drop(half);
    smallvec![Some(negated)]
}

/// The sign of the permutation (`lu_det_P`): which pivots moved, counted, as a number of the batch.
fn sign_of_order(context: &Context, pivots: &Tensor) -> Tensor {
    let shape = pivots.shape();
    let numbers = context.empty_contiguous(Dtype::Int32, &shape[shape.len() - 1..]);
    let moved = context.empty_contiguous(Dtype::Bool, shape);
    let count = context.empty_contiguous(Dtype::Int64, &shape[..shape.len() - 1]);
    drop(context.empty_contiguous(Dtype::Int64, shape));
    drop(moved);
    drop(numbers);
    count
}

pub(super) fn determinant(context: &mut Context, call: &Call<'_>) -> Outcome {
    let matrix = call.tensor(0)?;
    let (shape, size) = square(matrix)?;
    if size > LONGEST_DIAGONAL {
        return Err(Unmodelled);
    }
    let batch = &shape[..shape.len() - 2];
    let result = context.empty_contiguous(matrix.dtype(), batch);
    let found = factors(context, matrix.dtype(), &shape);
    let codes = codes(context, &shape);
    factor(context, &found.lu, size);
    let product = context.empty_contiguous(matrix.dtype(), batch);
    let sign = sign_of_order(context, &found.pivots);
    drop(sign);
    drop(product);
    drop(codes);
    let saved = |_: &dyn Fn(usize) -> bool| {
        smallvec![Some(matrix.clone()), Some(found.lu.clone()), Some(found.pivots.clone()), Some(result.detach())]
    };
    let edge = context.record(&[Some(matrix)], 1, saved, Function(size, determinant_backward));
    Ok(smallvec![result.with_edge(edge)])
}

/// A matrix with the gradient on its diagonal is solved by the factors, from whose diagonal zeros were taken.
fn determinant_backward(&size: &i64, context: &mut Context, node: &Node, gradient: Tensor) -> Gradients {
    let dtype = gradient.dtype();
    let matrix = node.saved(0);
    let shape: Dims = matrix.shape().into();
    let on_diagonal = context.empty_contiguous(dtype, gradient.shape());
    let right = by_columns(context, dtype, &shape);
    let is_zero = context.empty_contiguous(Dtype::Bool, &shape[..shape.len() - 1]);
    let numbers = (context.empty_contiguous(dtype, &[]), context.empty_contiguous(dtype, &[]));
    let chosen = context.empty_contiguous(dtype, &shape[..shape.len() - 1]);
    drop(numbers.1);
    drop(numbers.0);
    let diagonal = context.empty_contiguous(dtype, &shape);
    let lu = by_columns(context, dtype, &shape);
    drop(diagonal);
    drop(chosen);
    drop(is_zero);
    let found = by_columns(context, dtype, &shape);
    solve_in_place(context, &found, size, !matrix.layout().is_contiguous());
    drop(lu);
    drop(right);
    drop(on_diagonal);
    smallvec![Some(found)]
}

/// The sign of the determinant and the logarithm of its size.
pub(super) fn sign_and_logarithm(context: &mut Context, call: &Call<'_>) -> Outcome {
    let matrix = call.tensor(0)?;
    let (shape, size) = square(matrix)?;
    if size > LONGEST_DIAGONAL {
        return Err(Unmodelled);
    }
    let dtype = matrix.dtype();
    let (batch, diagonal) = (&shape[..shape.len() - 2], &shape[..shape.len() - 1]);
    let sign = context.empty_contiguous(dtype, batch);
    let logarithm = context.empty_contiguous(dtype, batch);
    let found = factors(context, dtype, &shape);
    let codes = codes(context, &shape);
    factor(context, &found.lu, size);
    let order = sign_of_order(context, &found.pivots);
    let signs = context.empty_contiguous(dtype, diagonal);
    drop(context.empty_contiguous(dtype, batch));
    drop(signs);
    drop(order);
    drop(context.empty_contiguous(dtype, diagonal));
    drop(codes);
    let saved = |_: &dyn Fn(usize) -> bool| {
        smallvec![Some(matrix.clone()), Some(found.lu.clone()), Some(found.pivots.clone()), Some(sign.detach())]
    };
    let edge = context.record(&[Some(matrix)], 2, saved, OfLogarithm { size });
    let of = |output| edge.clone().map(|edge| crate::autograd::Edge { output, ..edge });
    Ok(smallvec![sign.with_edge(of(0)), logarithm.with_edge(of(1))])
}

/// The backward function of `slogdet`: the sign has no gradient.
#[derive(Debug)]
struct OfLogarithm {
    size: i64,
}

impl Backward for OfLogarithm {
    fn apply(&self, context: &mut Context, node: &Node, gradients: &mut Gradients) -> Gradients {
        let Some(gradient) = gradients[1].clone() else { return smallvec![None] };
        let matrix = node.saved(0);
        let right = by_columns(context, gradient.dtype(), matrix.shape());
        let found = by_columns(context, gradient.dtype(), matrix.shape());
        solve_in_place(context, &found, self.size, !matrix.layout().is_contiguous());
        drop(right);
        smallvec![Some(found)]
    }
}
