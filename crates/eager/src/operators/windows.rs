//! Windows over a tensor: strided views of any geometry, and the columns of images that a convolution would read.

use std::rc::Rc;

use smallvec::{SmallVec, smallvec};
use vramfit_graph::dims::Dims;
use vramfit_graph::dtype::Dtype;
use vramfit_graph::layout::Layout;

use super::call::{Call, Outcome};
use super::facts::*;
use super::function::Function;
use super::view::reshaped;
use crate::autograd::{Context, Gradients, Node, Tensor};

/// What the family's operators have in common.
const FAMILY: Facts = Facts::of_family(
    Library::Own,
    Launch::Kernel,
    Time::moves("contiguous", Extent::Result),
    Keeps::Nothing,
    Autocast::Unchanged,
    Samples::Unknown,
);

pub(super) const OPERATORS: &[Operator] = &[
    Operator::new(
        &["aten.as_strided.default"],
        Facts {
            memory: Modelled(|context, call| {
                strided(context, call.tensor(0)?, call.ints(1)?, call.ints(2)?, call.int(3).unwrap_or(0))
            }),
            time: Time::ASSUMED,
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.im2col.default", "aten.col2im.default"],
        Facts { memory: Modelled(columns), samples: Samples::First, ..FAMILY },
    ),
];

/// Elements of memory that a geometry reaches.
fn reach(shape: &[i64], strides: &[i64], offset: i64) -> i64 {
    if shape.contains(&0) {
        return 0;
    }
    offset + 1 + shape.iter().zip(strides).map(|(size, stride)| (size - 1) * stride).sum::<i64>()
}

/// `_maybe_overlapping_memory`: whether two indices may name one element.
fn may_overlap(shape: &[i64], strides: &[i64]) -> bool {
    let mut dims: SmallVec<[(i64, i64); 6]> =
        shape.iter().zip(strides).filter(|(size, _)| **size > 1).map(|(&size, &stride)| (stride, size)).collect();
    dims.sort_unstable();
    let mut greatest = 0;
    dims.into_iter().any(|(stride, size)| {
        let overlaps = stride <= greatest;
        greatest += stride * (size - 1);
        overlaps
    })
}

/// What the gradient of a strided view needs to know.
#[derive(Debug)]
struct Geometry {
    source: Rc<Layout>,
    shape: Dims,
    strides: Dims,
    elements: i64,
}

/// A view of any geometry, in the graph.
pub(super) fn strided(context: &mut Context, source: &Tensor, shape: Dims, strides: Dims, offset: i64) -> Outcome {
    let result = source.view(Layout { dtype: source.dtype(), shape: shape.clone(), strides: strides.clone() });
    let whole = source.layout();
    let elements = reach(&whole.shape, &whole.strides, 0).max(reach(&shape, &strides, offset));
    let kept = Geometry { source: source.shared_layout(), shape, strides, elements };
    let edge = context.record(&[Some(source)], 1, |_| smallvec![], Function(kept, strided_backward));
    Ok(smallvec![result.with_edge(edge)])
}

/// `as_strided_backward`: the gradient is copied into memory like the source's, or added there by index where elements are read
/// several times.
fn strided_backward(kept: &Geometry, context: &mut Context, _node: &Node, gradient: Tensor) -> Gradients {
    let Geometry { source, shape, strides, elements } = kept;
    let memory = context.empty_contiguous(gradient.dtype(), &[*elements]);
    let is_read_again = may_overlap(shape, strides);
    let overlaps = may_overlap(&source.shape, &source.strides);
    let indices = (is_read_again || overlaps).then(|| context.empty_contiguous(Dtype::Int64, &[*elements]));
    let flat = |context: &mut Context, shape: &[i64], strides: &[i64]| {
        let seen = indices.as_ref().map(|indices| {
            indices.unsafe_view(Layout { dtype: Dtype::Int64, shape: shape.into(), strides: strides.into() })
        });
        seen.map(|seen| reshaped(context, &seen, &[shape.iter().product()]))
    };
    if is_read_again {
        let places = flat(context, shape, strides);
        let added = reshaped(context, &gradient, &[shape.iter().product()]);
        drop((added, places));
    }
    if overlaps {
        let counts = context.empty_contiguous(gradient.dtype(), &[*elements]);
        let places = flat(context, &source.shape, &source.strides);
        let ones = context.empty_contiguous(gradient.dtype(), &[1]);
        drop((ones, places, counts));
    }
    drop(indices);
    smallvec![Some(memory.unsafe_view(source.with_dtype(gradient.dtype())))]
}

/// A tensor made like `source` and then given another shape: memory that is too small is replaced, other memory stays.
fn made_like_then_resized(context: &Context, source: &Tensor, shape: &[i64]) -> Tensor {
    let first = context.empty_contiguous(source.dtype(), source.shape());
    let wanted = Layout::contiguous(source.dtype(), shape);
    if wanted.bytes() <= first.layout().bytes() {
        return first.unsafe_view(wanted);
    }
    let larger = context.empty(wanted);
    drop(first);
    larger
}

/// `im2col` and `col2im`: the gradient of each is the other.
fn columns(context: &mut Context, call: &Call<'_>) -> Outcome {
    let source = call.tensor(0)?;
    let read = context.contiguous(source);
    let result = made_like_then_resized(context, &read, &call.result(0)?.shape);
    drop(read);
    let shape: Dims = source.shape().into();
    let backward = Function(shape, |shape, context, _, gradient| {
        let read = context.contiguous(&gradient);
        let result = made_like_then_resized(context, &read, shape);
        drop(read);
        smallvec![Some(result)]
    });
    let edge = context.record(&[Some(source)], 1, |_| smallvec![], backward);
    Ok(smallvec![result.with_edge(edge)])
}
