//! Views: other shapes and strides on the same memory. Nothing is allocated forward; backward turns the gradient's
//! shape back, and only a slice needs memory for that.

use std::rc::Rc;

use smallvec::smallvec;
use vramfit_graph::dims::Dims;
use vramfit_graph::dtype::Dtype;
use vramfit_graph::layout::Layout;

use super::call::{Call, Outcome, Unmodelled, wrap};
use super::facts::*;
use crate::autograd::engine::{sink, sum_to};
use crate::autograd::{Backward, Context, Gradients, Node, Tensor};

/// What the family's operators have in common.
const FAMILY: Facts = Facts {
    samples: Samples::Linear,
    ..Facts::of_family(
        Library::Own,
        Launch::LocalMemory,
        Time::moves("contiguous", Extent::Result),
        Keeps::Nothing,
        Autocast::Unchanged,
    )
};

pub(super) const OPERATORS: &[Operator] = &[
    Operator::new(&["aten.view.default"], Facts { memory: Modelled(view), greatest: Greatest::Same, ..FAMILY }),
    Operator::new(&["aten.view.dtype"], Facts { greatest: Greatest::Same, ..FAMILY }),
    Operator::new(
        &["aten.requires_grad_.default"],
        Facts { memory: Modelled(require_gradient), launch: Launch::Nothing, effect: Effect::ReshapesFirst, ..FAMILY },
    ),
    Operator::new(
        &["aten._unsafe_view.default"],
        Facts { memory: Modelled(view), time: Time::ASSUMED, greatest: Greatest::Same, ..FAMILY },
    ),
    Operator::new(
        &["aten.reshape.default"],
        Facts { memory: Modelled(reshape), view_dispatch: "reshape", greatest: Greatest::Same, ..FAMILY },
    ),
    Operator::new(&["aten.reshape_as.default"], Facts { memory: Modelled(reshape_as), time: Time::ASSUMED, ..FAMILY }),
    Operator::new(
        &["aten.flatten.using_ints"],
        Facts { memory: Modelled(flatten), view_dispatch: "flatten", greatest: Greatest::Same, ..FAMILY },
    ),
    Operator::new(
        &["aten.flatten.named_out_dim", "aten.flatten.using_names"],
        Facts { view_dispatch: "flatten", greatest: Greatest::Same, ..FAMILY },
    ),
    Operator::new(
        &["aten.unflatten.int"],
        Facts { memory: Modelled(captured_view), view_dispatch: "flatten", ..FAMILY },
    ),
    Operator::new(
        &["aten.transpose.int"],
        Facts { memory: Modelled(transpose), view_dispatch: "transpose", greatest: Greatest::Same, ..FAMILY },
    ),
    Operator::new(
        &[
            "aten.transpose_.default",
            "aten.swapaxes_.default",
            "aten.t_.default",
            "aten.unsqueeze_.default",
            "aten.squeeze_.default",
            "aten.squeeze_.dim",
            "aten.squeeze_.dims",
        ],
        Facts { effect: Effect::ReshapesFirst, ..FAMILY },
    ),
    Operator::new(
        &["aten.swapaxes.default"],
        Facts { memory: Modelled(transpose), view_dispatch: "transpose", ..FAMILY },
    ),
    Operator::new(&["aten.swapdims.default"], Facts { memory: Modelled(transpose), time: Time::ASSUMED, ..FAMILY }),
    Operator::new(
        &[
            "aten.swapdims_.default",
            "aten.as_strided_.default",
            "aten.resize_.default",
            "aten.set_.default",
            "aten.set_.source_Storage",
            "aten.set_.source_Storage_storage_offset",
            "aten.set_.source_Tensor",
            "aten.set_.source_Tensor_storage_offset",
        ],
        Facts { time: Time::ASSUMED, effect: Effect::ReshapesFirst, ..FAMILY },
    ),
    Operator::new(
        &["aten.t.default"],
        Facts { memory: Modelled(swap_last), view_dispatch: "transpose", greatest: Greatest::Same, ..FAMILY },
    ),
    Operator::new(
        &["aten.numpy_T.default", "aten.mT.default", "aten.adjoint.default"],
        Facts { memory: Modelled(swap_last), time: Time::ASSUMED, ..FAMILY },
    ),
    Operator::new(
        &["aten.permute.default"],
        Facts { memory: Modelled(permute), view_dispatch: "permute", greatest: Greatest::Same, ..FAMILY },
    ),
    Operator::new(
        &["aten.movedim.int", "aten.movedim.intlist"],
        Facts { memory: Modelled(move_dims), view_dispatch: "permute", ..FAMILY },
    ),
    Operator::new(
        &["aten.moveaxis.int", "aten.moveaxis.intlist"],
        Facts { memory: Modelled(move_dims), time: Time::ASSUMED, ..FAMILY },
    ),
    Operator::new(
        &["aten.expand.default"],
        Facts { memory: Modelled(expand), view_dispatch: "expand", greatest: Greatest::Same, ..FAMILY },
    ),
    Operator::new(&["aten.broadcast_to.default"], Facts { memory: Modelled(expand), time: Time::ASSUMED, ..FAMILY }),
    Operator::new(
        &["aten.expand_as.default"],
        Facts { memory: Modelled(expand_as), view_dispatch: "expand", greatest: Greatest::Same, ..FAMILY },
    ),
    Operator::new(
        &["aten.broadcast_tensors.default"],
        Facts { memory: Modelled(broadcast_tensors), view_dispatch: "expand", ..FAMILY },
    ),
    Operator::new(
        &["aten.unsqueeze.default"],
        Facts { memory: Modelled(captured_view), view_dispatch: "unsqueeze", greatest: Greatest::Same, ..FAMILY },
    ),
    Operator::new(
        &["aten.squeeze.dim", "aten.squeeze.dims", "aten.squeeze.default"],
        Facts { memory: Modelled(captured_view), view_dispatch: "squeeze", greatest: Greatest::Same, ..FAMILY },
    ),
    Operator::new(&["aten.view_as.default"], Facts { memory: Modelled(captured_view), ..FAMILY }),
    Operator::new(
        &["aten.atleast_1d.default", "aten.atleast_2d.default"],
        Facts { memory: Modelled(captured_view), time: Time::ASSUMED, ..FAMILY },
    ),
    Operator::new(
        &["aten.slice.Tensor"],
        Facts { memory: Modelled(slice), view_dispatch: "slice", reads: Reads::Slice, ..FAMILY },
    ),
    Operator::new(
        &["aten.tensor_split.sections", "aten.tensor_split.indices"],
        Facts { memory: Modelled(slices), time: Time::ASSUMED, effect: Effect::ListsViews, ..FAMILY },
    ),
    Operator::new(
        &["aten.tensor_split.tensor_indices_or_sections"],
        Facts { time: Time::ASSUMED, effect: Effect::ListsViews, ..FAMILY },
    ),
    Operator::new(
        &["aten.narrow.default"],
        Facts { memory: Modelled(narrow), view_dispatch: "slice", reads: Reads::Narrow, ..FAMILY },
    ),
    Operator::new(&["aten.narrow.Tensor"], Facts { view_dispatch: "slice", reads: Reads::Narrow, ..FAMILY }),
    Operator::new(
        &["aten.select.int"],
        Facts { memory: Modelled(select), view_dispatch: "select", samples: Samples::Picked(1), ..FAMILY },
    ),
    Operator::new(&["aten.diagonal.default"], Facts { memory: Modelled(diagonal), time: Time::ASSUMED, ..FAMILY }),
    Operator::new(&["aten.diag_embed.default"], Facts { memory: Modelled(diag_embed), time: Time::ASSUMED, ..FAMILY }),
    Operator::new(&["aten.unfold.default"], Facts { memory: Modelled(unfold), ..FAMILY }),
    Operator::new(&["aten.detach.default"], Facts { memory: Modelled(detach), greatest: Greatest::Same, ..FAMILY }),
    Operator::new(&["aten.detach_.default"], Facts { effect: Effect::WritesFirst, ..FAMILY }),
    Operator::new(
        &["aten.view_as_complex.default", "aten.view_as_real.default"],
        Facts { memory: Modelled(other_numbers), time: Time::ASSUMED, ..FAMILY },
    ),
    Operator::new(&["aten.alias.default"], Facts { memory: Modelled(alias), greatest: Greatest::Same, ..FAMILY }),
    Operator::new(&["aten.positive.default"], Facts { memory: Modelled(alias), time: Time::ASSUMED, ..FAMILY }),
];

/// A view whose gradient has only to be given its old shape.
#[derive(Debug)]
struct Reshaped(Dims);

impl Backward for Reshaped {
    fn apply(&self, context: &mut Context, _node: &Node, gradients: &mut Gradients) -> Gradients {
        smallvec![gradients[0].take().map(|gradient| reshaped(context, &gradient, &self.0))]
    }
}

/// A view whose gradient has only to be permuted back: `.0[i]` is the gradient's dimension that becomes dimension `i`.
#[derive(Debug)]
struct Permuted(Dims);

impl Backward for Permuted {
    fn apply(&self, _context: &mut Context, _node: &Node, gradients: &mut Gradients) -> Gradients {
        smallvec![gradients[0].take().map(|gradient| permuted(&gradient, &self.0))]
    }
}

/// A view that repeats: its gradient is summed.
#[derive(Debug)]
struct Expanded(Dims);

impl Backward for Expanded {
    fn apply(&self, context: &mut Context, _node: &Node, gradients: &mut Gradients) -> Gradients {
        smallvec![gradients[0].take().map(|gradient| sum_to(context, &gradient, &self.0))]
    }
}

/// A part of a tensor: its gradient is put into zeros of the whole shape.
#[derive(Debug)]
struct Part(Dims);

impl Backward for Part {
    fn apply(&self, context: &mut Context, _node: &Node, gradients: &mut Gradients) -> Gradients {
        let gradient = gradients[0].take();
        smallvec![gradient.map(|gradient| context.empty_contiguous(gradient.dtype(), &self.0))]
    }
}

/// The same memory in another shape, or a contiguous copy where strides do not allow that.
pub(super) fn reshaped(context: &mut Context, tensor: &Tensor, shape: &[i64]) -> Tensor {
    match view_strides(tensor.layout(), shape) {
        Some(strides) => tensor.view(Layout { dtype: tensor.dtype(), shape: shape.into(), strides }),
        None => {
            let copy = context.empty_contiguous(tensor.dtype(), tensor.shape());
            copy.unsafe_view(Layout::contiguous(tensor.dtype(), shape))
        }
    }
}

fn permuted(tensor: &Tensor, order: &[i64]) -> Tensor {
    let layout = tensor.layout();
    let shape = order.iter().map(|&dim| layout.shape[dim as usize]).collect();
    let strides = order.iter().map(|&dim| layout.strides[dim as usize]).collect();
    tensor.view(Layout { dtype: layout.dtype, shape, strides })
}

/// The strides with which `layout`'s memory can be seen in `shape`, as `at::detail::computeStride` finds them.
pub(super) fn view_strides(layout: &Layout, shape: &[i64]) -> Option<Dims> {
    if layout.elements() == 0 || layout.is_contiguous() {
        return Some(vramfit_graph::layout::contiguous_strides(shape));
    }
    let mut strides = Dims::filled(1, shape.len());
    let mut view = shape.len() as i64 - 1;
    let mut base = *layout.strides.last()?;
    let (mut chunk, mut viewed) = (1, 1);
    for dim in (0..layout.shape.len()).rev() {
        chunk *= layout.shape[dim];
        let is_chunk_end = dim == 0 || (layout.shape[dim - 1] != 1 && layout.strides[dim - 1] != chunk * base);
        if is_chunk_end {
            while view >= 0 && (viewed < chunk || shape[view as usize] == 1) {
                strides[view as usize] = viewed * base;
                viewed *= shape[view as usize];
                view -= 1;
            }
            if viewed != chunk {
                return None;
            }
            if dim > 0 {
                base = layout.strides[dim - 1];
                chunk = 1;
                viewed = 1;
            }
        }
    }
    (view == -1).then_some(strides)
}

/// Replaces `-1` by the size it means.
fn whole_shape(shape: &[i64], elements: i64) -> Dims {
    let known: i64 = shape.iter().filter(|&&size| size != -1).product();
    shape.iter().map(|&size| if size == -1 { elements / known.max(1) } else { size }).collect()
}

fn finish(context: &mut Context, source: &Tensor, result: Tensor, backward: impl Backward + 'static) -> Outcome {
    let edge = context.record(&[Some(source)], 1, |_| smallvec![], backward);
    Ok(smallvec![result.with_edge(edge)])
}

fn view(context: &mut Context, call: &Call<'_>) -> Outcome {
    let source = call.tensor(0)?;
    let shape = whole_shape(&call.ints(1)?, source.layout().elements());
    let strides = view_strides(source.layout(), &shape).ok_or(Unmodelled)?;
    let result = source.view(Layout { dtype: source.dtype(), shape, strides });
    finish(context, source, result, Reshaped(source.shape().into()))
}

fn reshape(context: &mut Context, call: &Call<'_>) -> Outcome {
    let source = call.tensor(0)?;
    let shape = whole_shape(&call.ints(1)?, source.layout().elements());
    reshape_to(context, source, &shape)
}

fn reshape_as(context: &mut Context, call: &Call<'_>) -> Outcome {
    reshape_to(context, call.tensor(0)?, call.tensor(1)?.shape())
}

pub(super) fn reshape_to(context: &mut Context, source: &Tensor, shape: &[i64]) -> Outcome {
    if let Some(strides) = view_strides(source.layout(), shape) {
        let result = source.view(Layout { dtype: source.dtype(), shape: shape.into(), strides });
        return finish(context, source, result, Reshaped(source.shape().into()));
    }
    let copy = super::copy::clone_contiguous(context, source);
    let result = copy.view(Layout::contiguous(source.dtype(), shape));
    finish(context, &copy, result, Reshaped(source.shape().into()))
}

fn flatten(context: &mut Context, call: &Call<'_>) -> Outcome {
    let source = call.tensor(0)?;
    let shape = call.result(0)?.shape;
    if shape.as_slice() == source.shape() {
        return Ok(smallvec![source.clone()]);
    }
    reshape_to(context, source, &shape)
}

/// A view whose strides follow from the captured shape alone.
fn captured_view(context: &mut Context, call: &Call<'_>) -> Outcome {
    let source = call.tensor(0)?;
    let shape = call.result(0)?.shape;
    let strides = view_strides(source.layout(), &shape).ok_or(Unmodelled)?;
    let result = source.view(Layout { dtype: source.dtype(), shape, strides });
    finish(context, source, result, Reshaped(source.shape().into()))
}

fn swapped(rank: usize, first: usize, second: usize) -> Dims {
    let mut order: Dims = (0..rank as i64).collect();
    order.swap(first, second);
    order
}

fn transpose(context: &mut Context, call: &Call<'_>) -> Outcome {
    let source = call.tensor(0)?;
    let rank = source.shape().len();
    let order = swapped(rank, call.dim(1, rank)?, call.dim(2, rank)?);
    finish(context, source, permuted(source, &order), Permuted(order))
}

/// `t`, `T`, `mT`: two dimensions swapped, or a batch of matrices' last two.
fn swap_last(context: &mut Context, call: &Call<'_>) -> Outcome {
    let source = call.tensor(0)?;
    let rank = source.shape().len();
    if rank < 2 {
        return Ok(smallvec![source.clone()]);
    }
    let shape = call.result(0)?.shape;
    let order = swapped(rank, rank - 2, rank - 1);
    let result = permuted(source, &order);
    if result.shape() != shape.as_slice() {
        return Err(Unmodelled);
    }
    finish(context, source, result, Permuted(order))
}

/// `requires_grad_`: the tensor becomes a leaf. Its gradient is kept as long as the graph, which holds the leaf.
fn require_gradient(_context: &mut Context, call: &Call<'_>) -> Outcome {
    let source = call.tensor(0)?;
    let is_wanted = call.bool(1)?;
    if source.requires_grad() == is_wanted {
        return Ok(smallvec![source.clone()]);
    }
    let leaf = source.detach();
    let edge = is_wanted.then(|| sink(Rc::default(), leaf.shared_layout(), 0));
    Ok(smallvec![leaf.with_edge(edge)])
}

/// Dimensions in another order, in the graph.
pub(super) fn permuted_in_graph(context: &mut Context, source: &Tensor, order: &[i64]) -> Outcome {
    let mut back = Dims::filled(0, order.len());
    for (place, &dim) in order.iter().enumerate() {
        back[dim as usize] = place as i64;
    }
    finish(context, source, permuted(source, order), Permuted(back))
}

/// Another shape of the same memory, in the graph.
pub(super) fn reshaped_by_view(context: &mut Context, source: &Tensor, shape: &[i64]) -> Outcome {
    let strides = view_strides(source.layout(), shape).ok_or(Unmodelled)?;
    let result = source.view(Layout { dtype: source.dtype(), shape: shape.into(), strides });
    finish(context, source, result, Reshaped(source.shape().into()))
}

/// A part of the same memory, in the graph: its gradient goes into zeros.
pub(super) fn part_of(context: &mut Context, source: &Tensor, part: Layout) -> Outcome {
    finish(context, source, source.view(part), Part(source.shape().into()))
}

fn move_dims(context: &mut Context, call: &Call<'_>) -> Outcome {
    let source = call.tensor(0)?;
    let rank = source.shape().len();
    let (from, to) = (call.ints(1)?, call.ints(2)?);
    let mut order = Dims::filled(-1, rank);
    let mut left: smallvec::SmallVec<[bool; 6]> = smallvec![true; rank];
    for (&source, &target) in from.iter().zip(&to) {
        let (source, target) = (wrap(source, rank)?, wrap(target, rank)?);
        order[target] = source as i64;
        left[source] = false;
    }
    let mut rest = (0..rank).filter(|&dim| left[dim]);
    for dim in order.iter_mut().filter(|dim| **dim == -1) {
        *dim = rest.next().ok_or(Unmodelled)? as i64;
    }
    permuted_in_graph(context, source, &order)
}

/// `weight.t()` of a matrix.
pub(super) fn transposed(context: &mut Context, source: &Tensor) -> Outcome {
    let order = swapped(2, 0, 1);
    finish(context, source, permuted(source, &order), Permuted(order))
}

fn permute(context: &mut Context, call: &Call<'_>) -> Outcome {
    let source = call.tensor(0)?;
    let rank = source.shape().len();
    let mut order = Dims::default();
    for dim in &call.ints(1)? {
        order.push(wrap(*dim, rank)? as i64);
    }
    permuted_in_graph(context, source, &order)
}

fn expand(context: &mut Context, call: &Call<'_>) -> Outcome {
    expanded(context, call.tensor(0)?, &call.ints(1)?)
}

fn expand_as(context: &mut Context, call: &Call<'_>) -> Outcome {
    expanded(context, call.tensor(0)?, call.tensor(1)?.shape())
}

fn broadcast_tensors(context: &mut Context, call: &Call<'_>) -> Outcome {
    let tensors = call.tensor_list(0)?;
    let shape = call.result(0)?.shape;
    let mut results = smallvec::SmallVec::new();
    for tensor in tensors {
        results.extend(expanded(context, tensor, &shape)?);
    }
    Ok(results)
}

/// A view that repeats along some dimensions, in the graph.
pub(super) fn expanded(context: &mut Context, source: &Tensor, sizes: &[i64]) -> Outcome {
    let sizes: Dims = sizes.into();
    let skipped = sizes.len().checked_sub(source.shape().len()).ok_or(Unmodelled)?;
    let (mut shape, mut strides) = (sizes.clone(), Dims::filled(0, sizes.len()));
    for dim in skipped..sizes.len() {
        let size = source.shape()[dim - skipped];
        if sizes[dim] == -1 || sizes[dim] == size {
            shape[dim] = size;
            strides[dim] = source.layout().strides[dim - skipped];
        }
    }
    // New leading dimensions have the stride that a size of one would have.
    for dim in (0..skipped).rev() {
        if shape[dim] == 1 {
            strides[dim] = shape[dim + 1] * strides[dim + 1];
        }
    }
    let result = source.view(Layout { dtype: source.dtype(), shape, strides });
    finish(context, source, result, Expanded(source.shape().into()))
}

/// `tensor_split`: slices, each a view of its own with a gradient of the whole source.
fn slices(context: &mut Context, call: &Call<'_>) -> Outcome {
    let source = call.tensor(0)?;
    let mut parts = smallvec![];
    for index in 0..call.captured.len() {
        let shape = call.result(index)?.shape;
        let part = source.view(Layout { dtype: source.dtype(), shape, strides: source.layout().strides.clone() });
        parts.extend(finish(context, source, part, Part(source.shape().into()))?);
    }
    Ok(parts)
}

fn slice(context: &mut Context, call: &Call<'_>) -> Outcome {
    let source = call.tensor(0)?;
    let rank = source.shape().len();
    let dim = call.dim(1, rank)?;
    let step = call.int(4).unwrap_or(1);
    let shape = call.result(0)?.shape;
    let mut strides = source.layout().strides.clone();
    strides[dim] *= step;
    let result = source.view(Layout { dtype: source.dtype(), shape, strides });
    finish(context, source, result, Part(source.shape().into()))
}

fn select(context: &mut Context, call: &Call<'_>) -> Outcome {
    let source = call.tensor(0)?;
    let rank = source.shape().len();
    let dim = call.dim(1, rank)?;
    let without = |dims: &[i64]| -> Dims {
        dims.iter().enumerate().filter(|&(place, _)| place != dim).map(|(_, &size)| size).collect()
    };
    let (shape, strides) = (without(source.shape()), without(&source.layout().strides));
    let result = source.view(Layout { dtype: source.dtype(), shape, strides });
    finish(context, source, result, Part(source.shape().into()))
}

/// The first elements along a dimension, in the graph.
pub(super) fn narrowed(context: &mut Context, source: &Tensor, dim: usize, length: i64) -> Tensor {
    let mut layout = source.layout().clone();
    layout.shape[dim] = length;
    let edge = context.record(&[Some(source)], 1, |_| smallvec![], Part(source.shape().into()));
    source.view(layout).with_edge(edge)
}

fn narrow(context: &mut Context, call: &Call<'_>) -> Outcome {
    let source = call.tensor(0)?;
    let shape = call.result(0)?.shape;
    let result = source.view(Layout { dtype: source.dtype(), shape, strides: source.layout().strides.clone() });
    finish(context, source, result, Part(source.shape().into()))
}

fn diagonal(context: &mut Context, call: &Call<'_>) -> Outcome {
    let source = call.tensor(0)?;
    let rank = source.shape().len();
    let (first, second) = (call.dim(2, rank)?, call.dim(3, rank)?);
    let shape = call.result(0)?.shape;
    let all = &source.layout().strides;
    let mut strides: Dims = (0..rank).filter(|&dim| dim != first && dim != second).map(|dim| all[dim]).collect();
    strides.push(all[first] + all[second]);
    let result = source.view(Layout { dtype: source.dtype(), shape, strides });
    finish(context, source, result, Part(source.shape().into()))
}

/// Zeros with the elements on a diagonal: the gradient is a view of that diagonal.
fn diag_embed(context: &mut Context, call: &Call<'_>) -> Outcome {
    #[derive(Debug)]
    struct OnDiagonal(Dims);
    impl Backward for OnDiagonal {
        fn apply(&self, _context: &mut Context, _node: &Node, gradients: &mut Gradients) -> Gradients {
            let gradient = gradients[0].take();
            smallvec![gradient.map(|gradient| {
                let all = &gradient.layout().strides;
                let rank = all.len();
                let mut strides: Dims = all[..rank - 2].into();
                strides.push(all[rank - 2] + all[rank - 1]);
                gradient.view(Layout { dtype: gradient.dtype(), shape: self.0.clone(), strides })
            })]
        }
    }
    let source = call.tensor(0)?;
    if (call.int(2)?, call.int(3)?) != (-2, -1) {
        return Err(Unmodelled);
    }
    let result = context.empty_contiguous(source.dtype(), &call.result(0)?.shape);
    finish(context, source, result, OnDiagonal(source.shape().into()))
}

/// Windows along a dimension: the gradient is added up with the help of a row of indices.
fn unfold(context: &mut Context, call: &Call<'_>) -> Outcome {
    #[derive(Debug)]
    struct Unfolded {
        whole: Dims,
        /// How far the windows reach along their dimension.
        reach: i64,
    }
    impl Backward for Unfolded {
        fn apply(&self, context: &mut Context, _node: &Node, gradients: &mut Gradients) -> Gradients {
            let gradient = gradients[0].take();
            smallvec![gradient.map(|gradient| {
                let result = context.empty_contiguous(gradient.dtype(), &self.whole);
                drop(context.empty_contiguous(Dtype::Int64, &[self.reach]));
                result
            })]
        }
    }
    let source = call.tensor(0)?;
    let dim = call.dim(1, source.shape().len())?;
    let (size, step) = (call.int(2)?, call.int(3)?);
    let shape = call.result(0)?.shape;
    if source.shape().is_empty() {
        return Err(Unmodelled);
    }
    let reach = source.shape()[dim].min((shape[dim] - 1) * step + size);
    let mut strides = source.layout().strides.clone();
    let stride = strides[dim];
    strides[dim] *= step;
    strides.push(stride);
    let result = source.view(Layout { dtype: source.dtype(), shape, strides });
    finish(context, source, result, Unfolded { whole: source.shape().into(), reach })
}

/// Another tensor on the same memory, in the graph.
fn alias(context: &mut Context, call: &Call<'_>) -> Outcome {
    let source = call.tensor(0)?;
    let is_cut = call.captured.first().copied().flatten().is_some_and(|captured| !captured.requires_grad);
    if is_cut && source.requires_grad() && call.captured[0].is_some_and(|captured| captured.is_leaf) {
        return detach(context, call);
    }
    finish(context, source, source.detach(), Reshaped(source.shape().into()))
}

fn detach(_context: &mut Context, call: &Call<'_>) -> Outcome {
    Ok(smallvec![call.tensor(0)?.detach()])
}

/// Pairs of numbers seen as complex ones, or the other way round: so is the gradient, once it is contiguous.
fn other_numbers(context: &mut Context, call: &Call<'_>) -> Outcome {
    seen_as(context, call.tensor(0)?, call.result(0)?)
}

/// Complex numbers seen as pairs, in the graph.
pub(super) fn viewed_as_real(context: &mut Context, source: &Tensor) -> Outcome {
    let mut shape: Dims = source.shape().into();
    shape.push(2);
    let dtype = if source.dtype() == Dtype::Complex128 { Dtype::Float64 } else { Dtype::Float32 };
    seen_as(context, source, Layout::contiguous(dtype, &shape))
}

fn seen_as(context: &mut Context, source: &Tensor, mut layout: Layout) -> Outcome {
    #[derive(Debug)]
    struct Seen(Rc<Layout>);
    impl Backward for Seen {
        fn apply(&self, context: &mut Context, _node: &Node, gradients: &mut Gradients) -> Gradients {
            let gradient = gradients[0].take();
            smallvec![gradient.map(|gradient| {
                let contiguous = context.contiguous(&gradient);
                contiguous.view(Layout::contiguous(self.0.dtype, &self.0.shape))
            })]
        }
    }
    let strides = &source.layout().strides;
    layout.strides = if layout.shape.len() < strides.len() {
        strides[..strides.len() - 1].iter().map(|stride| stride / 2).collect()
    } else {
        strides.iter().map(|stride| stride * 2).chain([1]).collect()
    };
    finish(context, source, source.view(layout), Seen(source.shared_layout()))
}
