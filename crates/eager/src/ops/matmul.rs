//! Products of tensors of any rank: folded into one product of matrices where PyTorch folds, else batch by batch.

use std::rc::Rc;

use smallvec::smallvec;

use super::linear::{is_scale, mm, only, readable_copy};
use super::view::{expanded, permuted_in_graph, reshape_to, reshaped_by_view};
use super::{Call, Context, Outcome, Rule, Unmodelled};
use crate::autograd::Tensor;
use crate::autograd::{Backward, Gradients, Node};
use vramfit_graph::dims::Dims;
use vramfit_graph::layout::Layout;

pub(super) fn rule(name: &str) -> Option<Rule> {
    Some(match name {
        "aten.matmul.default" | "aten.__matmul__.default" => {
            |context, call| matmul(context, call.tensor(0)?, call.tensor(1)?)
        }
        "aten.bmm.default" => |context, call| bmm(context, call.tensor(0)?, call.tensor(1)?),
        "aten.baddbmm.default" => baddbmm,
        "aten.addmv.default" | "aten.addr.default" | "aten.addbmm.default" => added_product,
        "aten.mv.default" => |context, call| mv(context, call.tensor(0)?, call.tensor(1)?),
        "aten.dot.default" => |context, call| dot(context, call.tensor(0)?, call.tensor(1)?),
        _ => return None,
    })
}

/// Whether the larger factor is folded into a matrix, as `should_fold` decides.
fn should_fold(first: &Tensor, second: &Tensor) -> bool {
    let is_first_larger = first.shape().len() >= second.shape().len();
    let (larger, smaller) = if is_first_larger { (first, second) } else { (second, first) };
    let rank = larger.shape().len();
    if rank < 3 || smaller.shape().len() > 2 {
        return false;
    }
    if smaller.requires_grad() {
        return true;
    }
    if first.shape().len() == 2 {
        return false;
    }
    if larger.layout().elements() == 0 {
        return true;
    }
    let mut layout = larger.layout().clone();
    if !is_first_larger {
        layout.shape.swap(rank - 1, rank - 2);
        layout.strides.swap(rank - 1, rank - 2);
    }
    (0..rank - 2).all(|dim| layout.strides[dim] == layout.strides[dim + 1] * layout.shape[dim + 1])
}

/// The last two dimensions swapped.
fn turned(context: &mut Context, tensor: &Tensor) -> Result<Tensor, Unmodelled> {
    let rank = tensor.shape().len();
    let mut order: Dims = (0..rank as i64).collect();
    order.swap(rank - 1, rank - 2);
    only(permuted_in_graph(context, tensor, &order))
}

/// `input @ weight.t()`. Whether the weight is trained decides how, also where the graph is not kept.
pub(super) fn times_weight(context: &mut Context, input: &Tensor, turned: &Tensor, is_trained: bool) -> Outcome {
    if is_trained && input.shape().len() >= 3 {
        return folded(context, input, turned);
    }
    matmul(context, input, turned)
}

/// `first @ second`.
pub(super) fn matmul(context: &mut Context, first: &Tensor, second: &Tensor) -> Outcome {
    match (first.shape().len(), second.shape().len()) {
        (0, _) | (_, 0) => Err(Unmodelled),
        (1, 1) => dot(context, first, second),
        (2, 1) => mv(context, first, second),
        (2, 2) => mm(context, first, second),
        (1, 2) => {
            let row = only(reshaped_by_view(context, first, &[1, first.shape()[0]]))?;
            let product = only(mm(context, &row, second))?;
            reshaped_by_view(context, &product, &[second.shape()[1]])
        }
        _ if should_fold(first, second) => folded(context, first, second),
        _ => batched(context, first, second),
    }
}

fn folded(context: &mut Context, first: &Tensor, second: &Tensor) -> Outcome {
    let is_turned = second.shape().len() > first.shape().len();
    let (larger, smaller) = if is_turned {
        let larger = turned(context, second)?;
        let smaller = if first.shape().len() == 2 { turned(context, first)? } else { first.clone() };
        (larger, smaller)
    } else {
        (first.clone(), second.clone())
    };
    let (&inner, outer) = larger.shape().split_last().ok_or(Unmodelled)?;
    let mut shape: Dims = outer.into();
    let flat = only(reshape_to(context, &larger, &[outer.iter().product(), inner]))?;
    if smaller.shape().len() == 1 {
        let product = only(mv(context, &flat, &smaller))?;
        return unsafe_view(context, product, &shape);
    }
    shape.push(smaller.shape()[1]);
    let product = only(mm(context, &flat, &smaller))?;
    let result = only(unsafe_view(context, product, &shape))?;
    if !is_turned {
        return Ok(smallvec![result]);
    }
    let back = turned(context, &result)?;
    drop(result);
    Ok(smallvec![super::copy::contiguous_of(context, &back)])
}

/// `_unsafe_view`: the temporary product goes on in another shape.
fn unsafe_view(context: &mut Context, product: Tensor, shape: &[i64]) -> Outcome {
    reshaped_by_view(context, &product, shape)
}

fn batched(context: &mut Context, first: &Tensor, second: &Tensor) -> Outcome {
    let (one, other) = (first.shape().len(), second.shape().len());
    if one < 2 || other < 2 {
        return Err(Unmodelled);
    }
    if one == 3 && other == 3 && first.shape()[0] != second.shape()[0] {
        if first.shape()[0] == 1 && first.requires_grad() {
            let flat = only(reshaped_by_view(context, first, &first.shape()[1..]))?;
            return matmul(context, &flat, second);
        }
        if second.shape()[0] == 1 && second.requires_grad() {
            let flat = only(reshaped_by_view(context, second, &second.shape()[1..]))?;
            return matmul(context, first, &flat);
        }
    }
    let (first_batch, first_matrix) = first.shape().split_at(one - 2);
    let (second_batch, second_matrix) = second.shape().split_at(other - 2);
    let batch = broadcast(first_batch, second_batch);
    let count = batch.iter().product();
    let spread = |context: &mut Context, tensor: &Tensor, matrix: &[i64]| -> Result<Tensor, Unmodelled> {
        let mut shape = batch.clone();
        shape.push(matrix[0]);
        shape.push(matrix[1]);
        let wide = only(expanded(context, tensor, &shape))?;
        only(reshape_to(context, &wide, &[count, matrix[0], matrix[1]]))
    };
    let left = spread(context, first, first_matrix)?;
    let right = spread(context, second, second_matrix)?;
    let product = only(bmm(context, &left, &right))?;
    let mut shape = batch;
    shape.push(first_matrix[0]);
    shape.push(second_matrix[1]);
    let result = unsafe_view(context, product, &shape);
    drop(right);
    drop(left);
    result
}

fn broadcast(first: &[i64], second: &[i64]) -> Dims {
    let rank = first.len().max(second.len());
    (0..rank)
        .map(|dim| {
            let of = |shape: &[i64]| (dim + shape.len()).checked_sub(rank).map_or(1, |place| shape[place]);
            if of(first) == 1 { of(second) } else { of(first) }
        })
        .collect()
}

/// A product for each batch. The second factor's gradient is found first.
#[derive(Debug)]
struct Bmm;

impl Backward for Bmm {
    fn apply(&self, context: &mut Context, node: &Node, gradients: &mut Gradients) -> Gradients {
        let Some(gradient) = gradients[0].clone() else { return smallvec![None, None] };
        let second = node.wants(1).then(|| batch_gradient(context, node, &gradient, 1, 1));
        let first = node.wants(0).then(|| batch_gradient(context, node, &gradient, 0, 0));
        smallvec![first, second]
    }
}

/// The gradient for the factor that is input `input`; the other factor is saved at `other`.
fn batch_gradient(context: &mut Context, node: &Node, gradient: &Tensor, input: usize, other: usize) -> Tensor {
    let shape = node.inputs[input].as_ref().map(|input| input.shape.clone()).unwrap_or_default();
    let result = context.empty_contiguous(gradient.dtype(), &shape);
    let saved = node.saved(other);
    let (one, two) = if input == 0 { (gradient, &saved) } else { (&saved, gradient) };
    let copies = (readable_copy(context, one), readable_copy(context, two));
    context.use_blas();
    drop(copies.1);
    drop(copies.0);
    result
}

/// A product for each batch.
pub(super) fn bmm(context: &mut Context, first: &Tensor, second: &Tensor) -> Outcome {
    let (&[count, rows, _], &[_, _, columns]) = (first.shape(), second.shape()) else { return Err(Unmodelled) };
    let result = context.empty_contiguous(first.dtype(), &[count, rows, columns]);
    let copies = (readable_copy(context, first), readable_copy(context, second));
    context.use_blas();
    drop(copies.1);
    drop(copies.0);
    let edge = context.record(
        &[Some(first), Some(second)],
        1,
        |wants| smallvec![wants(0).then(|| second.clone()), wants(1).then(|| first.clone())],
        Bmm,
    );
    Ok(smallvec![result.with_edge(edge)])
}

/// `beta * self + alpha * batch1 @ batch2`.
#[derive(Debug)]
struct Baddbmm {
    is_bias_scaled: bool,
    is_product_scaled: bool,
}

impl Backward for Baddbmm {
    fn apply(&self, context: &mut Context, node: &Node, gradients: &mut Gradients) -> Gradients {
        let Some(gradient) = gradients[0].clone() else { return smallvec![None, None, None] };
        let scaled = |context: &Context, tensor: Tensor, is_scaled: bool| {
            if is_scaled { context.empty(tensor.like(tensor.dtype())) } else { tensor }
        };
        let mut factor = |input: usize, other: usize| {
            node.wants(input).then(|| {
                let product = batch_gradient(context, node, &gradient, input, other);
                scaled(context, product, self.is_product_scaled)
            })
        };
        let first = factor(1, 1);
        let second = factor(2, 0);
        let bias = node.wants(0).then(|| scaled(context, gradient, self.is_bias_scaled));
        smallvec![bias, first, second]
    }
}

fn baddbmm(context: &mut Context, call: &Call<'_>) -> Outcome {
    let (bias, first, second) = (call.tensor(0)?, call.tensor(1)?, call.tensor(2)?);
    let (&[count, rows, _], &[_, _, columns]) = (first.shape(), second.shape()) else { return Err(Unmodelled) };
    let result = context.empty_contiguous(first.dtype(), &[count, rows, columns]);
    let copies = (readable_copy(context, first), readable_copy(context, second));
    context.use_blas();
    drop(copies.1);
    drop(copies.0);
    let edge = context.record(
        &[Some(bias), Some(first), Some(second)],
        1,
        |wants| smallvec![wants(2).then(|| first.clone()), wants(1).then(|| second.clone())],
        Baddbmm { is_bias_scaled: is_scale(call, 3), is_product_scaled: is_scale(call, 4) },
    );
    Ok(smallvec![result.with_edge(edge)])
}

/// A matrix times a vector: the matrix's gradient is an outer product.
fn mv(context: &mut Context, matrix: &Tensor, vector: &Tensor) -> Outcome {
    #[derive(Debug)]
    struct Mv(Rc<Layout>);
    impl Backward for Mv {
        fn apply(&self, context: &mut Context, node: &Node, gradients: &mut Gradients) -> Gradients {
            let Some(gradient) = gradients[0].clone() else { return smallvec![None, None] };
            let matrix = node.wants(0).then(|| context.empty_contiguous(gradient.dtype(), &self.0.shape));
            let vector = node.wants(1).then(|| {
                let result = context.empty_contiguous(gradient.dtype(), &self.0.shape[1..]);
                context.use_blas();
                result
            });
            smallvec![matrix, vector]
        }
    }
    let &[rows, _] = matrix.shape() else { return Err(Unmodelled) };
    let result = context.empty_contiguous(matrix.dtype(), &[rows]);
    context.use_blas();
    let edge = context.record(
        &[Some(matrix), Some(vector)],
        1,
        |wants| smallvec![wants(1).then(|| matrix.clone()), wants(0).then(|| vector.clone())],
        Mv(matrix.shared_layout()),
    );
    Ok(smallvec![result.with_edge(edge)])
}

/// A product added to `self`: `addmv`, `addr`, `addbmm`. Each factor gets a gradient of its own.
fn added_product(context: &mut Context, call: &Call<'_>) -> Outcome {
    #[derive(Debug)]
    struct AddedProduct;
    impl Backward for AddedProduct {
        fn apply(&self, context: &mut Context, node: &Node, gradients: &mut Gradients) -> Gradients {
            let Some(gradient) = gradients[0].clone() else { return smallvec![None, None, None] };
            let mut factor = |input: usize| {
                let shape = node.inputs[input].as_ref().filter(|_| node.wants(input))?.shape.clone();
                let result = context.empty_contiguous(gradient.dtype(), &shape);
                context.use_blas();
                Some(result)
            };
            let first = factor(1);
            let second = factor(2);
            smallvec![node.wants(0).then_some(gradient), first, second]
        }
    }
    let (bias, first, second) = (call.tensor(0)?, call.tensor(1)?, call.tensor(2)?);
    if is_scale(call, 3) || is_scale(call, 4) {
        return Err(Unmodelled);
    }
    let result = context.empty_contiguous(first.dtype(), &call.result(0)?.shape);
    context.use_blas();
    let saved =
        |wants: &dyn Fn(usize) -> bool| smallvec![wants(2).then(|| first.clone()), wants(1).then(|| second.clone())];
    let edge = context.record(&[Some(bias), Some(first), Some(second)], 1, saved, AddedProduct);
    Ok(smallvec![result.with_edge(edge)])
}

/// The sum of products of two vectors.
fn dot(context: &mut Context, first: &Tensor, second: &Tensor) -> Outcome {
    #[derive(Debug)]
    struct Dot;
    impl Backward for Dot {
        fn apply(&self, context: &mut Context, node: &Node, gradients: &mut Gradients) -> Gradients {
            let Some(gradient) = gradients[0].clone() else { return smallvec![None, None] };
            let factor = |input: usize| {
                let shape = node.inputs[input].as_ref().map(|input| input.shape.clone()).unwrap_or_default();
                node.wants(input).then(|| context.empty_contiguous(gradient.dtype(), &shape))
            };
            let one = factor(0);
            smallvec![one, factor(1)]
        }
    }
    let result = context.empty_contiguous(first.dtype(), &[]);
    context.use_blas();
    let edge = context.record(
        &[Some(first), Some(second)],
        1,
        |wants| smallvec![wants(1).then(|| first.clone()), wants(0).then(|| second.clone())],
        Dot,
    );
    Ok(smallvec![result.with_edge(edge)])
}
