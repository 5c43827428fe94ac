//! Products of two matrices, or of a batch of pairs, through cuBLAS; with or without something added.

use smallvec::smallvec;
use vramfit_graph::dims::Dims;
use vramfit_graph::dtype::Dtype;
use vramfit_graph::layout::Layout;

use crate::autograd::{Backward, Context, Gradients, Node, ResultKind, Saved, Tensor};
use crate::operators::call::{Call, Outcome, Unmodelled, only};

/// `first @ second`. The second factor's gradient is found first.
#[derive(Debug)]
struct Product;

impl Backward for Product {
    fn apply(&self, context: &mut Context, node: &Node, gradients: &mut Gradients) -> Gradients {
        let Some(gradient) = gradients[0].clone() else { return smallvec![None, None] };
        let second = factor_gradient(context, node, &gradient, (1, 1));
        let first = factor_gradient(context, node, &gradient, (0, 0));
        smallvec![first, second]
    }
}

/// Whether the two terms of `beta * bias + alpha * first @ second` are scaled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Scales {
    pub bias: bool,
    pub product: bool,
}

impl Scales {
    pub const NONE: Scales = Scales { bias: false, product: false };

    /// Of a call whose arguments 3 and 4 are `beta` and `alpha`.
    pub fn of(call: &Call<'_>) -> Scales {
        let is_scale = |index: usize| call.float(index).is_ok_and(|scale| (scale - 1.0).abs() > 0.0);
        Scales { bias: is_scale(3), product: is_scale(4) }
    }
}

/// `beta * bias + alpha * first @ second`.
#[derive(Debug)]
struct AddedProduct(Scales);

impl Backward for AddedProduct {
    fn apply(&self, context: &mut Context, node: &Node, gradients: &mut Gradients) -> Gradients {
        let Some(gradient) = gradients[0].clone() else { return smallvec![None, None, None] };
        let scaled = |context: &Context, tensor: Tensor, is_scaled: bool| {
            if is_scaled { context.empty(tensor.like(tensor.dtype())) } else { tensor }
        };
        let mut factor = |input: usize, other: usize| {
            let product = factor_gradient(context, node, &gradient, (input, other))?;
            Some(scaled(context, product, self.0.product))
        };
        let first = factor(1, 1);
        let second = factor(2, 0);
        // The bias's gradient is the incoming one itself; the engine sums it to the bias's shape.
        let bias = node.wants(0).then(|| scaled(context, gradient, self.0.bias));
        smallvec![bias, first, second]
    }
}

/// The gradient of the factor that is input `input` of the node, if it is wanted; the other factor is saved at `other`.
fn factor_gradient(
    context: &mut Context,
    node: &Node,
    gradient: &Tensor,
    (input, other): (usize, usize),
) -> Option<Tensor> {
    let factor = node.inputs[input].as_ref().filter(|_| node.wants(input))?;
    let dtype = gradient.dtype();
    let saved = node.saved(other);
    let &[rows, columns] = factor.shape.as_slice() else {
        let factors = if input == 0 { (gradient, &saved) } else { (&saved, gradient) };
        return Some(multiplied(context, dtype, &factor.shape, factors, Context::use_blas));
    };
    // Column by column where the factor is stored so, as `weight.t()` is.
    let result = if factor.strides[0] == 1 && factor.strides[1] == rows {
        let turned = context.empty_contiguous(dtype, &[columns, rows]);
        turned.view(Layout { dtype, shape: factor.shape.clone(), strides: Dims::from([1, rows]) })
    } else {
        context.empty_contiguous(dtype, &factor.shape)
    };
    // The gradient of a sum is one number, expanded, which cuBLAS cannot read.
    let copies = (readable_copy(context, &saved), readable_copy(context, gradient));
    context.use_blas();
    drop(copies);
    Some(result)
}

/// The result of a product, with copies of the factors that cuBLAS cannot read as they are stored.
fn multiplied(
    context: &mut Context,
    dtype: Dtype,
    shape: &[i64],
    (first, second): (&Tensor, &Tensor),
    run: impl FnOnce(&mut Context),
) -> Tensor {
    let result = context.empty_contiguous(dtype, shape);
    let copies = (readable_copy(context, first), readable_copy(context, second));
    run(context);
    drop(copies.1);
    drop(copies.0);
    result
}

/// A copy of a matrix that cuBLAS cannot read as it is stored: neither its rows nor its columns are contiguous.
fn readable_copy(context: &Context, matrix: &Tensor) -> Option<Tensor> {
    let rank = matrix.shape().len();
    let (rows, columns) = (matrix.shape()[rank - 2], matrix.shape()[rank - 1]);
    let (row, column) = (matrix.layout().strides[rank - 2], matrix.layout().strides[rank - 1]);
    let is_readable = (column == 1 && row >= columns.max(1)) || (row == 1 && column >= rows.max(1));
    let is_thin = matrix.layout().is_contiguous() || (rank == 2 && matrix.layout().is_dense());
    (!is_readable && !is_thin).then(|| context.empty_contiguous(matrix.dtype(), matrix.shape()))
}

/// The shape of a product of two matrices, or of a batch of pairs.
fn product_shape(first: &Tensor, second: &Tensor) -> Result<Dims, Unmodelled> {
    match (first.shape(), second.shape()) {
        (&[rows, _], &[_, columns]) => Ok(Dims::from([rows, columns])),
        (&[count, rows, _], &[_, _, columns]) => Ok(Dims::from([count, rows, columns])),
        _ => Err(Unmodelled),
    }
}

/// A product that a selective checkpoint may keep.
fn kept_product(context: &mut Context, compute: impl FnOnce(&mut Context) -> Tensor) -> Result<Tensor, Unmodelled> {
    only(Ok(context.computed(ResultKind::Matmul, |context| smallvec![compute(context)])))
}

/// `first @ second`: `mm` of matrices, `bmm` of batches of them.
pub(in crate::operators) fn multiply(context: &mut Context, first: &Tensor, second: &Tensor) -> Outcome {
    let shape = product_shape(first, second)?;
    let result = kept_product(context, |context| {
        multiplied(context, first.dtype(), &shape, (first, second), Context::use_blas)
    })?;
    let saved = |wants: &dyn Fn(usize) -> bool| -> Saved {
        smallvec![wants(0).then(|| second.clone()), wants(1).then(|| first.clone())]
    };
    let edge = context.record(&[Some(first), Some(second)], 1, saved, Product);
    Ok(smallvec![result.with_edge(edge)])
}

/// Whether cuBLASLt adds the bias in the product's epilogue.
fn adds_bias_in_epilogue(bias: &Tensor, second: &Tensor) -> bool {
    let [inner, outer] = second.shape() else { return false };
    bias.shape() == [*outer] && bias.layout().is_contiguous() && *inner > 1 && *outer > 1
}

/// `bias + first @ second`, without scales.
pub(in crate::operators) fn add_product(context: &mut Context, bias: &Tensor, factors: (&Tensor, &Tensor)) -> Outcome {
    scaled_sum(context, bias, factors, Scales::NONE)
}

/// `addmm` and `baddbmm`: `beta * bias + alpha * first @ second`.
pub(super) fn added_product(context: &mut Context, call: &Call<'_>) -> Outcome {
    scaled_sum(context, call.tensor(0)?, (call.tensor(1)?, call.tensor(2)?), Scales::of(call))
}

fn scaled_sum(context: &mut Context, bias: &Tensor, (first, second): (&Tensor, &Tensor), scales: Scales) -> Outcome {
    let shape = product_shape(first, second)?;
    let is_in_epilogue = adds_bias_in_epilogue(bias, second) && scales == Scales::NONE;
    let run = |context: &mut Context| if is_in_epilogue { context.use_blas_lt() } else { context.use_blas() };
    // A layer that is split by rows adds this rank's share of the bias.
    let share = context.adds_bias_share.then(|| context.empty(bias.like(bias.dtype())));
    let result = kept_product(context, |context| multiplied(context, first.dtype(), &shape, (first, second), run))?;
    drop(share);
    let saved = |wants: &dyn Fn(usize) -> bool| -> Saved {
        smallvec![wants(2).then(|| first.clone()), wants(1).then(|| second.clone())]
    };
    let edge = context.record(&[Some(bias), Some(first), Some(second)], 1, saved, AddedProduct(scales));
    Ok(smallvec![result.with_edge(edge)])
}
