//! Products of two matrices through cuBLAS, and the linear layer.

use std::rc::Rc;

use smallvec::smallvec;

use super::matmul::times_weight;
use super::view::{reshaped_by_view, transposed};
use super::{Call, Context, Outcome, Rule, Unmodelled};
use crate::autograd::Tensor;
use crate::autograd::{Backward, Gradients, Node};
use vramfit_graph::dims::Dims;
use vramfit_graph::layout::Layout;

pub(super) fn rule(name: &str) -> Option<Rule> {
    Some(match name {
        "aten.linear.default" => linear_call,
        "aten.addmm.default" => addmm_call,
        "aten.mm.default" => mm_call,
        _ => return None,
    })
}

/// `beta * bias + alpha * first @ second`: what is saved is `first` where `second` wants a gradient, and the other way
/// round.
#[derive(Debug)]
struct Addmm {
    first: Rc<Layout>,
    second: Rc<Layout>,
    is_bias_scaled: bool,
    is_product_scaled: bool,
}

impl Backward for Addmm {
    fn apply(&self, context: &mut Context, node: &Node, gradients: &mut Gradients) -> Gradients {
        let Some(gradient) = gradients[0].clone() else { return smallvec![None, None, None] };
        let dtype = gradient.dtype();
        let scaled = |context: &Context, tensor: Tensor, is_scaled: bool| {
            if is_scaled { context.empty(tensor.like(dtype)) } else { tensor }
        };
        let first = node.wants(1).then(|| {
            let product = factor_gradient(context, dtype, &self.first);
            scaled(context, product, self.is_product_scaled)
        });
        let second = node.wants(2).then(|| {
            let product = factor_gradient(context, dtype, &self.second);
            scaled(context, product, self.is_product_scaled)
        });
        // The bias's gradient is the incoming one itself; the engine sums it to the bias's shape.
        let bias = node.wants(0).then(|| scaled(context, gradient, self.is_bias_scaled));
        smallvec![bias, first, second]
    }
}

/// `first @ second`. The second factor's gradient is found first.
#[derive(Debug)]
struct Mm {
    first: Rc<Layout>,
    second: Rc<Layout>,
}

impl Backward for Mm {
    fn apply(&self, context: &mut Context, node: &Node, gradients: &mut Gradients) -> Gradients {
        let Some(gradient) = gradients[0].clone() else { return smallvec![None, None] };
        let second = node.wants(1).then(|| factor_gradient(context, gradient.dtype(), &self.second));
        let first = node.wants(0).then(|| factor_gradient(context, gradient.dtype(), &self.first));
        smallvec![first, second]
    }
}

/// The gradient of a factor: column by column where the factor lies so, as `weight.t()` does.
fn factor_gradient(context: &mut Context, dtype: vramfit_graph::dtype::Dtype, factor: &Layout) -> Tensor {
    let (rows, columns) = (factor.shape[0], factor.shape[1]);
    let by_column = factor.strides[0] == 1 && factor.strides[1] == rows;
    let result = if by_column {
        let turned = context.empty_contiguous(dtype, &[columns, rows]);
        turned.view(Layout { dtype, shape: factor.shape.clone(), strides: Dims::from([1, rows]) })
    } else {
        context.empty_contiguous(dtype, &factor.shape)
    };
    context.use_blas();
    result
}

/// A copy of a matrix that cuBLAS cannot read as it lies: neither its rows nor its columns are runs.
pub(super) fn readable_copy(context: &Context, matrix: &Tensor) -> Option<Tensor> {
    let rank = matrix.shape().len();
    let (rows, columns) = (matrix.shape()[rank - 2], matrix.shape()[rank - 1]);
    let (row, column) = (matrix.layout().strides[rank - 2], matrix.layout().strides[rank - 1]);
    let is_readable = (column == 1 && row >= columns.max(1)) || (row == 1 && column >= rows.max(1));
    let is_thin = matrix.layout().is_contiguous() || (rank == 2 && matrix.layout().is_dense());
    (!is_readable && !is_thin).then(|| context.empty_contiguous(matrix.dtype(), matrix.shape()))
}

/// Whether cuBLASLt adds the bias in the product's epilogue.
fn adds_bias_in_epilogue(bias: &Tensor, second: &Tensor) -> bool {
    let [inner, outer] = second.shape() else { return false };
    bias.shape() == [*outer] && bias.layout().is_contiguous() && *inner > 1 && *outer > 1
}

/// `bias + first @ second`, each scaled by a number where `scales` says so.
pub(super) fn addmm(
    context: &mut Context,
    bias: &Tensor,
    factors: (&Tensor, &Tensor),
    scales: (bool, bool),
) -> Outcome {
    let (first, second) = factors;
    let (&[rows, _], &[_, columns]) = (first.shape(), second.shape()) else { return Err(Unmodelled) };
    let result = context.empty_contiguous(first.dtype(), &[rows, columns]);
    let copies = (readable_copy(context, first), readable_copy(context, second));
    if adds_bias_in_epilogue(bias, second) && scales == (false, false) {
        context.use_blas_lt();
    } else {
        context.use_blas();
    }
    drop(copies.1);
    drop(copies.0);
    let edge = context.record(
        &[Some(bias), Some(first), Some(second)],
        1,
        |wants| smallvec![wants(2).then(|| first.clone()), wants(1).then(|| second.clone())],
        Addmm {
            first: first.shared_layout(),
            second: second.shared_layout(),
            is_bias_scaled: scales.0,
            is_product_scaled: scales.1,
        },
    );
    Ok(smallvec![result.with_edge(edge)])
}

/// A product of two matrices.
pub(super) fn mm(context: &mut Context, first: &Tensor, second: &Tensor) -> Outcome {
    let (&[rows, _], &[_, columns]) = (first.shape(), second.shape()) else { return Err(Unmodelled) };
    let result = context.empty_contiguous(first.dtype(), &[rows, columns]);
    let copies = (readable_copy(context, first), readable_copy(context, second));
    context.use_blas();
    drop(copies.1);
    drop(copies.0);
    let edge = context.record(
        &[Some(first), Some(second)],
        1,
        |wants| smallvec![wants(0).then(|| second.clone()), wants(1).then(|| first.clone())],
        Mm { first: first.shared_layout(), second: second.shared_layout() },
    );
    Ok(smallvec![result.with_edge(edge)])
}

/// Whether a factor that may be left out is given and not one.
pub(super) fn is_scale(call: &Call<'_>, index: usize) -> bool {
    call.float(index).is_ok_and(|scale| (scale - 1.0).abs() > 0.0)
}

fn addmm_call(context: &mut Context, call: &Call<'_>) -> Outcome {
    let scales = (is_scale(call, 3), is_scale(call, 4));
    addmm(context, call.tensor(0)?, (call.tensor(1)?, call.tensor(2)?), scales)
}

fn mm_call(context: &mut Context, call: &Call<'_>) -> Outcome {
    mm(context, call.tensor(0)?, call.tensor(1)?)
}

/// The one result of a call.
pub(super) fn only(outcome: Outcome) -> Result<Tensor, Unmodelled> {
    outcome?.pop().ok_or(Unmodelled)
}

fn linear_call(context: &mut Context, call: &Call<'_>) -> Outcome {
    linear(context, call.tensor(0)?, call.tensor(1)?, call.optional_tensor(2))
}

/// `input @ weight.t() + bias`.
pub(super) fn linear(context: &mut Context, input: &Tensor, weight: &Tensor, bias: Option<&Tensor>) -> Outcome {
    let Some((&inner, outer)) = input.shape().split_last() else { return Err(Unmodelled) };
    let columns = *weight.shape().first().ok_or(Unmodelled)?;
    let Some(bias) = bias else {
        let turned = only(transposed(context, weight))?;
        return times_weight(context, input, &turned, weight.requires_grad());
    };
    if outer.len() == 1 {
        let turned = only(transposed(context, weight))?;
        return addmm(context, bias, (input, &turned), (false, false));
    }
    if input.layout().is_contiguous() && bias.shape().len() == 1 {
        let flat = only(reshaped_by_view(context, input, &[outer.iter().product(), inner]))?;
        let turned = only(transposed(context, weight))?;
        let product = only(addmm(context, bias, (&flat, &turned), (false, false)))?;
        let mut shape: Dims = outer.into();
        shape.push(columns);
        return reshaped_by_view(context, &product, &shape);
    }
    let turned = only(transposed(context, weight))?;
    let product = only(times_weight(context, input, &turned, weight.requires_grad()))?;
    drop(turned);
    super::pointwise::add_into(context, &product, bias)
}
