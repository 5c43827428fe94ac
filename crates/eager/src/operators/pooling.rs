//! Pools: largest and average values, over windows or over a given number of parts.

use smallvec::smallvec;
use vramfit_graph::dims::Dims;
use vramfit_graph::dtype::Dtype;
use vramfit_graph::format::Format;
use vramfit_graph::layout::Layout;

use super::call::{Call, Outcome, Unmodelled, only};
use super::facts::*;
use super::function::Function;
use super::view::reshaped_by_view;
use crate::autograd::{Backward, Context, Gradients, Node, Tensor};

/// What the family's operators have in common.
const FAMILY: Facts =
    Facts::of_family(Library::Own, Launch::Kernel, Time::ASSUMED, Keeps::Nothing, Autocast::Unchanged, Samples::First);

pub(super) const OPERATORS: &[Operator] = &[
    Operator::new(
        &["aten.max_pool2d.default", "aten.max_pool3d.default"],
        Facts {
            memory: Modelled(|context, call| max(context, call, false)),
            time: Time::moves("max_pool", Extent::Input),
            keeps: Keeps::Results,
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.max_pool2d_with_indices.default", "aten.max_pool3d_with_indices.default"],
        Facts { memory: Modelled(|context, call| max(context, call, true)), ..FAMILY },
    ),
    Operator::new(
        &["aten.max_unpool2d.default", "aten.max_unpool3d.default"],
        Facts { memory: Modelled(max_unpool), ..FAMILY },
    ),
    Operator::new(
        &["aten.max_pool1d.default"],
        Facts {
            memory: Modelled(|context, call| max_of_rows(context, call, false)),
            time: Time::moves("max_pool", Extent::Input),
            keeps: Keeps::Results,
            hides_base: HidesBase::Always,
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.max_pool1d_with_indices.default"],
        Facts { memory: Modelled(|context, call| max_of_rows(context, call, true)), ..FAMILY },
    ),
    Operator::new(
        &["aten.avg_pool2d.default"],
        Facts {
            memory: Modelled(average),
            time: Time::moves("avg_pool", Extent::Input),
            keeps: Keeps::Inputs,
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.avg_pool3d.default"],
        Facts { memory: Modelled(average), time: Time::moves("avg_pool", Extent::Input), ..FAMILY },
    ),
    Operator::new(
        &["aten.avg_pool1d.default"],
        Facts {
            memory: Modelled(average_of_rows),
            time: Time::moves("avg_pool", Extent::Input),
            hides_base: HidesBase::Always,
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.adaptive_avg_pool2d.default"],
        Facts {
            memory: Modelled(adaptive_average),
            launch: Launch::LocalMemoryAndStack,
            time: Time::moves("adaptive_avg_pool", Extent::Input),
            keeps: Keeps::Inputs,
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.adaptive_avg_pool3d.default"],
        Facts {
            memory: Modelled(adaptive_average),
            launch: Launch::LocalMemoryAndStack,
            time: Time::moves("adaptive_avg_pool", Extent::Input),
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.adaptive_avg_pool1d.default"],
        Facts {
            memory: Modelled(adaptive_average_of_rows),
            launch: Launch::LocalMemoryAndStack,
            time: Time::moves("adaptive_avg_pool", Extent::Input),
            hides_base: HidesBase::Always,
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.adaptive_max_pool2d.default"],
        Facts { memory: Modelled(adaptive_max), time: Time::moves("max_pool", Extent::Input), ..FAMILY },
    ),
    Operator::new(&["aten.adaptive_max_pool3d.default"], Facts { memory: Modelled(adaptive_max), ..FAMILY }),
];

/// The gradient of a pool has the input's format; the incoming one is read in that format too.
#[derive(Debug)]
struct Pooled;

impl Backward for Pooled {
    fn apply(&self, context: &mut Context, node: &Node, gradients: &mut Gradients) -> Gradients {
        let Some(gradient) = gradients[0].clone() else { return smallvec![None] };
        let input = node.saved(0);
        let format = Format::suggested(input.layout());
        let result = context.empty(format.layout(gradient.dtype(), input.shape()));
        let incoming = context.contiguous_in(&gradient, format);
        drop(incoming);
        smallvec![Some(result)]
    }
}

/// The largest values and where they were, which only a gradient needs.
fn largest(context: &mut Context, source: &Tensor, shape: &[i64]) -> (Tensor, Tensor) {
    let format = Format::suggested(source.layout());
    let result = context.empty(format.layout(source.dtype(), shape));
    let indices = context.empty(format.layout(Dtype::Int64, shape));
    let read = context.contiguous_in(source, format);
    drop(read);
    let kept = indices.detach();
    let edge = context.record(&[Some(source)], 2, |_| smallvec![Some(source.clone()), Some(kept)], Pooled);
    (result.with_edge(edge), indices)
}

fn max(context: &mut Context, call: &Call<'_>, gives_indices: bool) -> Outcome {
    let (result, indices) = largest(context, call.tensor(0)?, &call.result(0)?.shape);
    Ok(if gives_indices { smallvec![result, indices] } else { smallvec![result] })
}

/// Rows are images of height one.
fn as_images(context: &mut Context, source: &Tensor) -> Result<Tensor, Unmodelled> {
    only(reshaped_by_view(context, source, &raised(source.shape())?))
}

fn raised(shape: &[i64]) -> Result<Dims, Unmodelled> {
    let (&length, outer) = shape.split_last().ok_or(Unmodelled)?;
    let mut raised: Dims = outer.into();
    raised.push(1);
    raised.push(length);
    Ok(raised)
}

fn max_of_rows(context: &mut Context, call: &Call<'_>, gives_indices: bool) -> Outcome {
    let shape = call.result(0)?.shape;
    let image = as_images(context, call.tensor(0)?)?;
    let (result, indices) = largest(context, &image, &raised(&shape)?);
    drop(image);
    let result = only(reshaped_by_view(context, &result, &shape))?;
    let indices = indices.view(Layout::contiguous(Dtype::Int64, &shape));
    Ok(if gives_indices { smallvec![result, indices] } else { smallvec![result] })
}

fn averaged(context: &mut Context, source: &Tensor, shape: &[i64]) -> Tensor {
    let format = Format::suggested(source.layout());
    let result = context.empty(format.layout(source.dtype(), shape));
    let read = context.contiguous_in(source, format);
    drop(read);
    let edge = context.record(&[Some(source)], 1, |_| smallvec![Some(source.clone())], Pooled);
    result.with_edge(edge)
}

fn average(context: &mut Context, call: &Call<'_>) -> Outcome {
    Ok(smallvec![averaged(context, call.tensor(0)?, &call.result(0)?.shape)])
}

fn average_of_rows(context: &mut Context, call: &Call<'_>) -> Outcome {
    let shape = call.result(0)?.shape;
    let image = as_images(context, call.tensor(0)?)?;
    let result = averaged(context, &image, &raised(&shape)?);
    drop(image);
    reshaped_by_view(context, &result, &shape)
}

/// A view of a result whose strides were set by hand: its gradient is put into memory of its own.
#[derive(Debug)]
struct Restrided;

impl Backward for Restrided {
    fn apply(&self, context: &mut Context, _node: &Node, gradients: &mut Gradients) -> Gradients {
        let gradient = gradients[0].take();
        smallvec![gradient.map(|gradient| context.empty_contiguous(gradient.dtype(), gradient.shape()))]
    }
}

/// One part is the mean over the image.
fn adaptive(context: &mut Context, source: &Tensor, shape: &[i64]) -> Outcome {
    let rank = source.shape().len();
    let spatial = rank.min(shape.len()).saturating_sub(2).max(1);
    if rank < 3 || shape[2..].iter().any(|&size| size != 1) {
        return Ok(smallvec![averaged(context, source, shape)]);
    }
    let dims: Dims = (rank - spatial..rank).map(|dim| dim as i64).collect();
    let mean = super::reduction::mean(context, source, &dims);
    if Format::suggested(source.layout()) != Format::ChannelsLast {
        return Ok(smallvec![mean]);
    }
    // The strides are written over, which autograd sees as an operation in place.
    let layout = Format::ChannelsLast.layout(source.dtype(), mean.shape());
    let edge = context.record(&[Some(&mean)], 1, |_| smallvec![], Restrided);
    Ok(smallvec![mean.unsafe_view(layout).with_edge(edge)])
}

fn adaptive_average(context: &mut Context, call: &Call<'_>) -> Outcome {
    adaptive(context, call.tensor(0)?, &call.result(0)?.shape)
}

fn adaptive_average_of_rows(context: &mut Context, call: &Call<'_>) -> Outcome {
    let shape = call.result(0)?.shape;
    let image = as_images(context, call.tensor(0)?)?;
    let result = only(adaptive(context, &image, &raised(&shape)?))?;
    drop(image);
    reshaped_by_view(context, &result, &shape)
}

/// The adaptive kernel for largest values knows row-major only, and works in copies otherwise.
#[derive(Debug)]
struct AdaptiveMax;

impl Backward for AdaptiveMax {
    fn apply(&self, context: &mut Context, node: &Node, gradients: &mut Gradients) -> Gradients {
        let Some(gradient) = gradients[0].clone() else { return smallvec![None] };
        let (input, indices) = (node.saved(0), node.saved(1));
        let format = Format::suggested(input.layout());
        let result = context.empty(format.layout(gradient.dtype(), input.shape()));
        if format == Format::ChannelsLast {
            let incoming = context.contiguous(&gradient);
            let places = context.contiguous(&indices);
            let plain = context.empty_contiguous(gradient.dtype(), input.shape());
            drop(plain);
            drop(places);
            drop(incoming);
        }
        smallvec![Some(result)]
    }
}

fn adaptive_max(context: &mut Context, call: &Call<'_>) -> Outcome {
    let source = call.tensor(0)?;
    let shape = call.result(0)?.shape;
    let format = Format::suggested(source.layout());
    let result = context.empty(format.layout(source.dtype(), &shape));
    let indices = context.empty(format.layout(Dtype::Int64, &shape));
    if format == Format::ChannelsLast {
        let plain = context.empty_contiguous(source.dtype(), &shape);
        let places = context.empty_contiguous(Dtype::Int64, &shape);
        let read = context.contiguous(source);
        drop(read);
        drop(places);
        drop(plain);
    }
    let kept = indices.detach();
    let edge = context.record(&[Some(source)], 2, |_| smallvec![Some(source.clone()), Some(kept)], AdaptiveMax);
    Ok(smallvec![result.with_edge(edge), indices])
}

/// Values at the places they came from, in zeros. The gradient is gathered there.
fn max_unpool(context: &mut Context, call: &Call<'_>) -> Outcome {
    let (source, places) = (call.tensor(0)?, call.tensor(1)?);
    let result = context.empty_contiguous(source.dtype(), &call.result(0)?.shape);
    let read = (context.contiguous(source), context.contiguous(places));
    drop(read);
    let backward = Function((), |&(), context, node, gradient| {
        let read = context.contiguous(&gradient);
        let result = context.empty_contiguous(gradient.dtype(), node.saved(0).shape());
        drop(read);
        smallvec![Some(result)]
    });
    let saved = |_: &dyn Fn(usize) -> bool| smallvec![Some(places.clone())];
    let edge = context.record(&[Some(source)], 1, saved, backward);
    Ok(smallvec![result.with_edge(edge)])
}
