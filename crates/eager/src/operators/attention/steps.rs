//! Small operators that attention calls around its kernels, in the graph as autograd sees them.

use smallvec::smallvec;
use vramfit_graph::dims::Dims;
use vramfit_graph::dtype::Dtype;
use vramfit_graph::layout::Layout;

use super::inputs::scalar;
use crate::autograd::engine::sum_to;
use crate::autograd::{Backward, Context, Gradients, Node, Tensor};
use crate::kernels::reduce::Reduction;
use crate::operators::call::Unmodelled;
use crate::operators::view::{reshaped, view_strides};

/// What a gradient goes through on its way back.
#[derive(Debug)]
enum Step {
    /// Padding taken off, by a copy.
    Pad(i64),
    /// Put into zeros of the whole shape.
    Narrow(Dims),
    /// Summed to the shape before the repetition.
    Expand(Dims),
    /// Seen in the old shape.
    View(Dims),
    /// The last two dimensions swapped.
    Transpose,
    /// Handed on.
    Copy,
    /// Cast back.
    Cast(Dtype),
    /// Multiplied by a number.
    Scale,
    /// Handed on to both.
    Add,
    /// Through the mask of dropout.
    Dropout,
}

impl Backward for Step {
    fn apply(&self, context: &mut Context, _node: &Node, gradients: &mut Gradients) -> Gradients {
        let Some(gradient) = gradients[0].clone() else { return smallvec![None] };
        let result = match self {
            Step::Pad(count) => {
                let mut kept = gradient.layout().clone();
                if let Some(width) = kept.shape.last_mut() {
                    *width -= count;
                }
                context.empty(kept.like(kept.dtype))
            }
            Step::Narrow(whole) => context.empty_contiguous(gradient.dtype(), whole),
            Step::Expand(shape) => sum_to(context, &gradient, shape),
            Step::View(shape) => reshaped(context, &gradient, shape),
            Step::Transpose => turned(&gradient),
            Step::Copy => gradient,
            Step::Cast(dtype) if *dtype == gradient.dtype() => gradient,
            Step::Cast(dtype) => context.empty(gradient.like(*dtype)),
            Step::Scale | Step::Dropout => context.empty(gradient.like(gradient.dtype())),
            Step::Add => return smallvec![Some(gradient.clone()), Some(gradient)],
        };
        smallvec![Some(result)]
    }
}

fn finish(context: &mut Context, source: &Tensor, result: Tensor, step: Step) -> Tensor {
    let edge = context.record(&[Some(source)], 1, |_| smallvec![], step);
    result.with_edge(edge)
}

/// `pad` at the end of the last dimension.
pub(super) fn padded(context: &mut Context, source: &Tensor, count: i64) -> Result<Tensor, Unmodelled> {
    let mut shape: Dims = source.shape().into();
    *shape.last_mut().ok_or(Unmodelled)? += count;
    let result = context.empty_contiguous(source.dtype(), &shape);
    Ok(finish(context, source, result, Step::Pad(count)))
}

/// The first elements of the last dimension.
pub(super) fn narrowed(context: &mut Context, source: &Tensor, width: i64) -> Result<Tensor, Unmodelled> {
    let mut layout = source.layout().clone();
    *layout.shape.last_mut().ok_or(Unmodelled)? = width;
    Ok(finish(context, source, source.view(layout), Step::Narrow(source.shape().into())))
}

/// The tensor seen in a larger shape.
pub(super) fn expanded(context: &mut Context, source: &Tensor, shape: &[i64]) -> Result<Tensor, Unmodelled> {
    let skipped = shape.len().checked_sub(source.shape().len()).ok_or(Unmodelled)?;
    let mut strides = Dims::filled(0, shape.len());
    for dim in skipped..shape.len() {
        let size = source.shape()[dim - skipped];
        if size == shape[dim] {
            strides[dim] = source.layout().strides[dim - skipped];
        } else if size != 1 {
            return Err(Unmodelled);
        }
    }
    let result = source.view(Layout { dtype: source.dtype(), shape: shape.into(), strides });
    Ok(finish(context, source, result, Step::Expand(source.shape().into())))
}

/// The last two dimensions swapped.
pub(super) fn transposed(context: &mut Context, source: &Tensor) -> Tensor {
    finish(context, source, turned(source), Step::Transpose)
}

fn turned(tensor: &Tensor) -> Tensor {
    let mut layout = tensor.layout().clone();
    let rank = layout.shape.len();
    layout.shape.swap(rank - 2, rank - 1);
    layout.strides.swap(rank - 2, rank - 1);
    tensor.view(layout)
}

/// `to(dtype)`: the tensor itself where it has the type.
pub(super) fn cast(context: &mut Context, source: &Tensor, dtype: Dtype) -> Tensor {
    if source.dtype() == dtype {
        return source.clone();
    }
    let result = context.empty(source.like(dtype));
    finish(context, source, result, Step::Cast(source.dtype()))
}

/// The tensor times a number.
pub(super) fn scaled(context: &mut Context, source: &Tensor) -> Tensor {
    let result = context.empty(source.like(source.dtype()));
    finish(context, source, result, Step::Scale)
}

/// `repeat_interleave` along a dimension.
pub(super) fn repeated(context: &mut Context, source: &Tensor, repeats: i64, dim: usize) -> Result<Tensor, Unmodelled> {
    let layout = source.layout();
    let with = |dims: &[i64], added: i64| -> Dims {
        dims[..=dim].iter().chain(&[added]).chain(&dims[dim + 1..]).copied().collect()
    };
    let strides = with(&layout.strides, layout.strides[dim]);
    let single = source.view(Layout { dtype: layout.dtype, shape: with(&layout.shape, 1), strides });
    let single = finish(context, source, single, Step::View(source.shape().into()));
    let repeated = expanded(context, &single, &with(&layout.shape, repeats))?;
    let copy = context.empty_contiguous(source.dtype(), repeated.shape());
    let copy = finish(context, &repeated, copy, Step::Copy);
    let mut shape: Dims = source.shape().into();
    shape[dim] *= repeats;
    reshape(context, &copy, &shape)
}

/// `reshape`: a view where strides allow it, else a copy.
fn reshape(context: &mut Context, source: &Tensor, shape: &[i64]) -> Result<Tensor, Unmodelled> {
    if let Some(strides) = view_strides(source.layout(), shape) {
        let view = source.view(Layout { dtype: source.dtype(), shape: shape.into(), strides });
        return Ok(finish(context, source, view, Step::View(source.shape().into())));
    }
    let copy = context.empty_contiguous(source.dtype(), source.shape());
    let copy = finish(context, source, copy, Step::Copy);
    let view = copy.view(Layout::contiguous(source.dtype(), shape));
    Ok(finish(context, &copy, view, Step::View(source.shape().into())))
}

/// A batch of matrix products; saved are the second and the first factor.
#[derive(Debug)]
struct Product;

impl Backward for Product {
    fn apply(&self, context: &mut Context, node: &Node, gradients: &mut Gradients) -> Gradients {
        let Some(gradient) = gradients[0].clone() else { return smallvec![None, None] };
        let mut factor = |place: usize| {
            let input = node.inputs[place].as_ref().filter(|_| node.wants(place))?;
            let result = context.empty_contiguous(gradient.dtype(), &input.shape);
            context.use_blas();
            Some(result)
        };
        let second = factor(1);
        let first = factor(0);
        smallvec![first, second]
    }
}

/// `matmul` over more than two dimensions: both factors as batches of matrices.
pub(super) fn product(context: &mut Context, first: &Tensor, second: &Tensor) -> Result<Tensor, Unmodelled> {
    let (one, other) = (first.shape(), second.shape());
    let rank = one.len();
    let (rows, inner, columns) = (one[rank - 2], one[rank - 1], other[rank - 1]);
    let batch: Dims =
        one.iter().zip(other).take(rank - 2).map(|(&one, &other)| if one == 1 { other } else { one }).collect();
    let matrices: i64 = batch.iter().product();
    let flat = |context: &mut Context, tensor: &Tensor, height: i64, width: i64| {
        let mut shape = batch.clone();
        shape.push(height);
        shape.push(width);
        let whole =
            if tensor.shape() == shape.as_slice() { tensor.clone() } else { expanded(context, tensor, &shape)? };
        reshape(context, &whole, &[matrices, height, width])
    };
    let flat_first = flat(context, first, rows, inner)?;
    let flat_second = flat(context, second, inner, columns)?;
    let result = context.empty_contiguous(first.dtype(), &[matrices, rows, columns]);
    context.use_blas();
    let edge = context.record(
        &[Some(&flat_first), Some(&flat_second)],
        1,
        |wants| smallvec![wants(0).then(|| flat_second.clone()), wants(1).then(|| flat_first.clone())],
        Product,
    );
    let result = result.with_edge(edge);
    let mut shape = batch;
    shape.push(rows);
    shape.push(columns);
    let view = reshape(context, &result, &shape);
    drop(result);
    drop(flat_second);
    drop(flat_first);
    view
}

/// `add_` of a mask.
pub(super) fn added_in_place(context: &mut Context, tensor: Tensor, mask: &Tensor) -> Tensor {
    let edge = context.record(&[Some(&tensor), Some(mask)], 1, |_| smallvec![], Step::Add);
    tensor.with_edge(edge)
}

/// A softmax whose result is saved.
#[derive(Debug)]
struct Softmax;

impl Backward for Softmax {
    fn apply(&self, context: &mut Context, _node: &Node, gradients: &mut Gradients) -> Gradients {
        let Some(gradient) = gradients[0].clone() else { return smallvec![None] };
        let layout = Layout::contiguous(gradient.dtype(), gradient.shape());
        let result = context.empty(layout.clone());
        drop(context.empty(layout));
        smallvec![Some(result)]
    }
}

/// `_safe_softmax` over the last dimension: rows that are hidden throughout become zeros.
pub(super) fn safe_softmax(context: &mut Context, source: &Tensor) -> Tensor {
    let rank = source.shape().len() as i64;
    let result = context.empty_contiguous(source.dtype(), source.shape());
    let hidden = context.empty(source.like(Dtype::Bool));
    let reduction = Reduction { partial_bytes: 1, input_vector: 4, max_threads: 512 };
    let hidden_rows = context.reduce(&hidden, &[rank - 1], true, Dtype::Bool, reduction);
    let zero = scalar(context, source.dtype());
    drop(zero);
    drop(hidden_rows);
    drop(hidden);
    let edge = context.record(&[Some(source)], 1, |_| smallvec![Some(result.detach())], Softmax);
    result.with_edge(edge)
}

/// `dropout`.
pub(super) fn dropped(context: &mut Context, source: &Tensor) -> Tensor {
    let mask = context.empty(source.like(Dtype::Bool));
    let result = context.empty(source.like(source.dtype()));
    let edge = context.record(&[Some(source)], 1, |_| smallvec![Some(mask.clone())], Step::Dropout);
    result.with_edge(edge)
}
