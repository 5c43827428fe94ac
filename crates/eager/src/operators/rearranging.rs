//! Copies of a tensor with its elements elsewhere: padded, repeated, flipped, rolled, turned.

use smallvec::smallvec;
use vramfit_graph::dims::Dims;
use vramfit_graph::format::Format;

use super::call::{Call, Outcome, Unmodelled, only, wrap};
use super::facts::*;
use super::view::{expanded, reshape_to, reshaped, reshaped_by_view};
use crate::autograd::{Backward, Context, Gradients, Node, Tensor};

/// What the family's operators have in common.
const FAMILY: Facts = Facts::of_family(
    Library::Own,
    Launch::LocalMemory,
    Time::ASSUMED,
    Keeps::Nothing,
    Autocast::Unchanged,
    Samples::Apart,
);

pub(super) const OPERATORS: &[Operator] = &[
    Operator::new(
        &["aten.constant_pad_nd.default"],
        Facts { memory: Modelled(pad), time: Time::moves("pad", Extent::Input), ..FAMILY },
    ),
    Operator::new(
        &["aten.repeat.default"],
        Facts {
            memory: Modelled(repeat),
            time: Time::moves("contiguous", Extent::Result),
            greatest: Greatest::Same,
            ..FAMILY
        },
    ),
    Operator::new(&["aten.tile.default"], Facts { memory: Modelled(repeat), ..FAMILY }),
    Operator::new(
        &["aten.repeat_interleave.self_int"],
        Facts {
            memory: Modelled(repeat_interleave),
            time: Time::moves("contiguous", Extent::Result),
            hides_base: HidesBase::Always,
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.repeat_interleave.self_Tensor"],
        Facts { time: Time::moves("contiguous", Extent::Result), samples: Samples::Unknown, ..FAMILY },
    ),
    Operator::new(
        &["aten.flip.default"],
        Facts {
            memory: Modelled(flip),
            time: Time::moves("roll", Extent::Larger),
            samples: Samples::Along(1),
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.roll.default"],
        Facts {
            launch: Launch::Kernel,
            memory: Modelled(roll),
            time: Time::moves("roll", Extent::Larger),
            samples: Samples::Along(2),
            ..FAMILY
        },
    ),
    Operator::new(&["aten.rot90.default"], Facts { memory: Modelled(rot90), samples: Samples::Along(2), ..FAMILY }),
    Operator::new(&["aten.pad.default"], Facts { time: Time::moves("pad", Extent::Input), ..FAMILY }),
];

/// Its gradient is a new tensor of the input's shape, in the gradient's format.
#[derive(Debug)]
struct Moved(Dims);

impl Backward for Moved {
    fn apply(&self, context: &mut Context, _node: &Node, gradients: &mut Gradients) -> Gradients {
        smallvec![gradients[0].as_ref().map(|gradient| empty_in_format_of(context, gradient, &self.0))]
    }
}

fn pad(context: &mut Context, call: &Call<'_>) -> Outcome {
    Ok(smallvec![padded(context, call.tensor(0)?, &call.result(0)?.shape)])
}

fn empty_in_format_of(context: &mut Context, source: &Tensor, shape: &[i64]) -> Tensor {
    context.empty(Format::suggested(source.layout()).layout(source.dtype(), shape))
}

/// A tensor with something around it, in the graph.
pub(super) fn padded(context: &mut Context, source: &Tensor, shape: &[i64]) -> Tensor {
    let result = empty_in_format_of(context, source, shape);
    let edge = context.record(&[Some(source)], 1, |_| smallvec![], Moved(source.shape().into()));
    result.with_edge(edge)
}

/// Copies side by side: the gradient is summed over them.
#[derive(Debug)]
struct Repeated {
    source: Dims,
    times: Dims,
}

impl Backward for Repeated {
    fn apply(&self, context: &mut Context, _node: &Node, gradients: &mut Gradients) -> Gradients {
        let Some(gradient) = gradients[0].take() else { return smallvec![None] };
        let leading = self.times.len() - self.source.len();
        let (mut shape, mut summed) = (Dims::default(), Dims::default());
        for (place, &times) in self.times.iter().enumerate() {
            if place < leading {
                summed.push(shape.len() as i64);
                shape.push(times);
                continue;
            }
            if times != 1 {
                summed.push(shape.len() as i64);
                shape.push(times);
            }
            shape.push(self.source[place - leading]);
        }
        let parted = reshaped(context, &gradient, &shape);
        if summed.is_empty() {
            return smallvec![Some(parted)];
        }
        smallvec![Some(context.sum(&parted, &summed, false, gradient.dtype()))]
    }
}

fn repeat(context: &mut Context, call: &Call<'_>) -> Outcome {
    Ok(smallvec![repeated(context, call.tensor(0)?, &call.ints(1)?)])
}

/// A tensor several times over, in the graph.
pub(super) fn repeated(context: &mut Context, source: &Tensor, times: &[i64]) -> Tensor {
    let mut times: Dims = times.into();
    while times.len() < source.shape().len() {
        times = std::iter::once(1).chain(times.iter().copied()).collect();
    }
    let leading = times.len() - source.shape().len();
    let size = |place: usize| if place < leading { 1 } else { source.shape()[place - leading] };
    let shape: Dims = times.iter().enumerate().map(|(place, &times)| times * size(place)).collect();
    let result = context.empty_contiguous(source.dtype(), &shape);
    let backward = Repeated { source: source.shape().into(), times };
    let edge = context.record(&[Some(source)], 1, |_| smallvec![], backward);
    result.with_edge(edge)
}

/// Every element a number of times in place, of a flat tensor where no dimension is given: a view that repeats, a copy, and one dimension out of two.
fn repeat_interleave(context: &mut Context, call: &Call<'_>) -> Outcome {
    let (mut source, times) = (call.tensor(0)?.clone(), call.int(1)?);
    let is_flat = call.is_none(2);
    if is_flat && source.shape().len() != 1 {
        source = only(reshape_to(context, &source, &[source.layout().elements()]))?;
    }
    let dim = if is_flat { 0 } else { call.dim(2, source.shape().len())? };
    let mut shape: Dims = source.shape()[..=dim].into();
    shape.push(1);
    for &size in &source.shape()[dim + 1..] {
        shape.push(size);
    }
    let apart = only(reshaped_by_view(context, &source, &shape))?;
    shape[dim + 1] = times;
    let wide = only(expanded(context, &apart, &shape))?;
    drop(apart);
    let copy = super::copy::clone_contiguous(context, &wide);
    drop(wide);
    let mut shape: Dims = source.shape().into();
    shape[dim] *= times;
    reshape_to(context, &copy, &shape)
}

fn flip(context: &mut Context, call: &Call<'_>) -> Outcome {
    #[derive(Debug)]
    struct Flipped;
    impl Backward for Flipped {
        fn apply(&self, context: &mut Context, _node: &Node, gradients: &mut Gradients) -> Gradients {
            smallvec![gradients[0].as_ref().map(|gradient| { context.empty(gradient.like(gradient.dtype())) })]
        }
    }
    let source = call.tensor(0)?;
    let result = context.empty(source.like(source.dtype()));
    let edge = context.record(&[Some(source)], 1, |_| smallvec![], Flipped);
    Ok(smallvec![result.with_edge(edge)])
}

/// One dimension after another, each into new memory; a source that is not contiguous is copied first.
fn rolled(context: &mut Context, source: &Tensor, dims: usize) -> Tensor {
    let mut result = source.clone();
    for _ in 0..dims {
        let read = context.contiguous(&result);
        let next = context.empty_contiguous(source.dtype(), source.shape());
        drop(read);
        result = next;
    }
    result
}

fn roll(context: &mut Context, call: &Call<'_>) -> Outcome {
    rolled_in_graph(context, call.tensor(0)?, call.ints(1)?.len())
}

/// A tensor rolled along so many dimensions, in the graph.
pub(super) fn rolled_in_graph(context: &mut Context, source: &Tensor, dims: usize) -> Outcome {
    #[derive(Debug)]
    struct Rolled(usize);
    impl Backward for Rolled {
        fn apply(&self, context: &mut Context, _node: &Node, gradients: &mut Gradients) -> Gradients {
            let gradient = gradients[0].clone();
            smallvec![gradient.map(|gradient| rolled(context, &gradient, self.0))]
        }
    }
    if dims == 0 {
        return Err(Unmodelled);
    }
    let result = rolled(context, source, dims);
    let edge = context.record(&[Some(source)], 1, |_| smallvec![], Rolled(dims));
    Ok(smallvec![result.with_edge(edge)])
}

/// A quarter turn, or several: what is flipped is then seen the other way round.
fn rot90(context: &mut Context, call: &Call<'_>) -> Outcome {
    #[derive(Debug)]
    struct Turned {
        dims: Option<(usize, usize)>,
    }
    fn turned(context: &Context, tensor: &Tensor, dims: Option<(usize, usize)>) -> Tensor {
        let flipped = context.empty(tensor.like(tensor.dtype()));
        let Some((one, other)) = dims else { return flipped };
        let mut layout = flipped.layout().clone();
        layout.shape.swap(one, other);
        layout.strides.swap(one, other);
        flipped.unsafe_view(layout)
    }
    impl Backward for Turned {
        fn apply(&self, context: &mut Context, _node: &Node, gradients: &mut Gradients) -> Gradients {
            smallvec![gradients[0].as_ref().map(|gradient| turned(context, gradient, self.dims))]
        }
    }
    let source = call.tensor(0)?;
    let rank = source.shape().len();
    let dims = call.ints(2)?;
    let &[one, other] = dims.as_slice() else { return Err(Unmodelled) };
    let is_quarter = call.int(1)?.rem_euclid(2) == 1;
    let dims = if is_quarter { Some((wrap(one, rank)?, wrap(other, rank)?)) } else { None };
    let result = turned(context, source, dims);
    let edge = context.record(&[Some(source)], 1, |_| smallvec![], Turned { dims });
    Ok(smallvec![result.with_edge(edge)])
}
