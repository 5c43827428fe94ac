//! Copies and casts.

use std::rc::Rc;

use smallvec::smallvec;
use vramfit_graph::bind::Value;
use vramfit_graph::dtype::Dtype;
use vramfit_graph::format::Format;
use vramfit_graph::layout::Layout;
use vramfit_graph::model::MemoryFormat;

use super::call::{Call, Outcome};
use super::facts::*;
use super::sparse;
use crate::autograd::{Backward, Context, Gradients, Node, Tensor};
use crate::kernels::reduce::Reduction;

/// What the family's operators have in common.
const FAMILY: Facts = Facts::of_family(
    Library::Own,
    Launch::LocalMemory,
    Time::ASSUMED,
    Keeps::Nothing,
    Autocast::Unchanged,
    Samples::Linear,
);

pub(super) const OPERATORS: &[Operator] = &[
    Operator::new(
        &["aten.contiguous.default"],
        Facts {
            memory: Modelled(contiguous),
            copies_by_layout: true,
            time: Time::moves("contiguous", Extent::Result),
            view_dispatch: "contiguous_no_copy",
            greatest: Greatest::Same,
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.clone.default"],
        Facts {
            launch: Launch::Copy,
            memory: Modelled(clone),
            sparse: Modelled(sparse::copied),
            time: Time::moves("contiguous", Extent::Result),
            greatest: Greatest::Same,
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.to.dtype", "aten.to.device", "aten.to.dtype_layout", "aten.to.other", "aten.type_as.default"],
        Facts {
            launch: Launch::Copy,
            memory: Modelled(to),
            is_copy: true,
            time: Time::moves("to_half", Extent::Larger),
            view_dispatch: "to_no_copy",
            greatest: Greatest::Same,
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.to.prim_Device", "aten.to.prim_dtype", "aten.to.prim_other"],
        Facts {
            time: Time::moves("to_half", Extent::Larger),
            view_dispatch: "to_no_copy",
            greatest: Greatest::Same,
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten._to_copy.default"],
        Facts {
            launch: Launch::Copy,
            memory: Modelled(to),
            is_copy: true,
            time: Time::moves("to_half", Extent::Larger),
            greatest: Greatest::Same,
            ..FAMILY
        },
    ),
    Operator::new(
        &["vramfit.tensor"],
        Facts { memory: Modelled(made_on_host), time: Time::moves("zeros", Extent::Result), ..FAMILY },
    ),
    Operator::new(
        &[
            "aten.tensor.bool",
            "aten.tensor.complex",
            "aten.tensor.default",
            "aten.tensor.float",
            "aten.tensor.int",
            "vramfit.scalar",
        ],
        Facts { time: Time::moves("zeros", Extent::Result), ..FAMILY },
    ),
    Operator::new(
        &["aten._local_scalar_dense.default", "aten.is_nonzero.default", "aten.item.default"],
        Facts { memory: Modelled(read), time: Time::WAIT, ..FAMILY },
    ),
    Operator::new(&["aten.equal.default"], Facts { memory: Modelled(equal), time: Time::WAIT, ..FAMILY }),
    Operator::new(&["aten.lift_fresh_copy.default"], Facts { greatest: Greatest::Same, ..FAMILY }),
];

/// A copy: its gradient goes through as it is.
#[derive(Debug)]
struct Copied;

impl Backward for Copied {
    fn apply(&self, _context: &mut Context, _node: &Node, gradients: &mut Gradients) -> Gradients {
        smallvec![gradients[0].take()]
    }
}

/// A cast: its gradient is cast back.
#[derive(Debug)]
struct WasCast(Dtype);

impl Backward for WasCast {
    fn apply(&self, context: &mut Context, _node: &Node, gradients: &mut Gradients) -> Gradients {
        let gradient = gradients[0].take();
        smallvec![gradient.map(|gradient| {
            if gradient.dtype() == self.0 { gradient } else { context.empty(gradient.like(self.0)) }
        })]
    }
}

/// A copy of a tensor on the host: its gradient goes there.
#[derive(Debug)]
struct MovedFromHost;

impl Backward for MovedFromHost {
    fn apply(&self, _context: &mut Context, _node: &Node, gradients: &mut Gradients) -> Gradients {
        gradients[0].take();
        smallvec![None]
    }
}

/// Whether a copy between host and GPU takes the bytes as they are. Otherwise a contiguous tensor on the GPU is copied (`Copy.cu`).
fn is_plain_copy(source: &Layout, result: &Layout) -> bool {
    source.dtype == result.dtype && source.is_dense() && source.strides == result.strides
}

/// A copy to the host.
pub(crate) fn copied_to_host(context: &mut Context, source: &Tensor, result: &Layout) {
    let layout = source.layout();
    if !source.is_on_host() && !is_plain_copy(layout, result) && !layout.is_contiguous() {
        drop(context.empty_contiguous(layout.dtype, &layout.shape));
    }
}

/// A contiguous copy, in the graph.
pub(super) fn clone_contiguous(context: &mut Context, source: &Tensor) -> Tensor {
    let copy = context.empty_contiguous(source.dtype(), source.shape());
    let edge = context.record(&[Some(source)], 1, |_| smallvec![], Copied);
    copy.with_edge(edge)
}

/// The tensor itself where it is contiguous, else a contiguous copy, in the graph.
pub(super) fn contiguous_of(context: &mut Context, source: &Tensor) -> Tensor {
    if source.layout().is_contiguous() { source.clone() } else { clone_contiguous(context, source) }
}

/// A cast to another type, in the graph.
pub(super) fn cast_to(context: &mut Context, source: &Tensor, dtype: Dtype) -> Tensor {
    let result = context.empty(source.like(dtype));
    let edge = context.record(&[Some(source)], 1, |_| smallvec![], WasCast(source.dtype()));
    result.with_edge(edge)
}

/// A cast into a part of memory that is there already, in the graph.
pub(super) fn cast_into(context: &mut Context, source: &Tensor, whole: &Tensor, dtype: Dtype) -> Tensor {
    let edge = context.record(&[Some(source)], 1, |_| smallvec![], WasCast(source.dtype()));
    whole.unsafe_view(source.layout().with_dtype(dtype)).with_edge(edge)
}

/// The tensor itself if it has the format, else a copy in that format, recorded in the graph.
pub(super) fn in_format(context: &mut Context, source: &Tensor, format: Format) -> Tensor {
    if format.is_kept_by(source.layout()) {
        return source.clone();
    }
    let copy = context.empty(format.layout(source.dtype(), source.shape()));
    let edge = context.record(&[Some(source)], 1, |_| smallvec![], Copied);
    copy.with_edge(edge)
}

fn memory_format(call: &Call<'_>) -> Option<MemoryFormat> {
    call.arguments.iter().find_map(|value| match value {
        Value::MemoryFormat(format) => Some(*format),
        _ => None,
    })
}

fn contiguous(context: &mut Context, call: &Call<'_>) -> Outcome {
    let source = call.tensor(0)?;
    let format = match memory_format(call) {
        Some(MemoryFormat::ChannelsLast | MemoryFormat::ChannelsLast3d) => Format::ChannelsLast,
        _ => Format::Contiguous,
    };
    Ok(smallvec![in_format(context, source, format)])
}

/// The layout of a copy in the memory format that the call names; without one, that of the source.
fn copied_layout(call: &Call<'_>, source: &Tensor, dtype: Dtype) -> Rc<Layout> {
    match memory_format(call) {
        None | Some(MemoryFormat::Preserve) => source.like(dtype),
        Some(MemoryFormat::Contiguous) => Layout::contiguous(dtype, source.shape()).into(),
        Some(MemoryFormat::ChannelsLast | MemoryFormat::ChannelsLast3d) => {
            Format::ChannelsLast.layout(dtype, source.shape()).into()
        }
    }
}

fn clone(context: &mut Context, call: &Call<'_>) -> Outcome {
    let source = call.tensor(0)?;
    let layout = copied_layout(call, source, source.dtype());
    let copy = context.empty(layout);
    let edge = context.record(&[Some(source)], 1, |_| smallvec![], Copied);
    Ok(smallvec![copy.with_edge(edge)])
}

/// A cast or a move; whether it is one at all shows in the capture, where the result is the argument itself. Only a cast that
/// autocast was taken to make may turn out to be none: cuDNN's recurrent layers have cast already, which a capture cannot see.
fn to(context: &mut Context, call: &Call<'_>) -> Outcome {
    let source = call.tensor(0)?;
    let wanted = call.result(0)?;
    if source.is_on_host() {
        let (is_plain, shape) = (is_plain_copy(source.layout(), &wanted), wanted.shape.clone());
        let is_contiguous = wanted.is_contiguous();
        let result = context.empty(wanted);
        if !is_plain && !is_contiguous {
            drop(context.empty_contiguous(result.dtype(), &shape));
        }
        let edge = context.record(&[Some(source)], 1, |_| smallvec![], MovedFromHost);
        return Ok(smallvec![result.with_edge(edge)]);
    }
    if source.dtype() == wanted.dtype && context.autocast() == Some(wanted.dtype) && call.bool(3) == Ok(false) {
        return Ok(smallvec![source.clone()]);
    }
    let result = context.empty(copied_layout(call, source, wanted.dtype));
    let edge = match wanted.dtype.is_differentiable() {
        true => context.record(&[Some(source)], 1, |_| smallvec![], WasCast(source.dtype())),
        false => None,
    };
    Ok(smallvec![result.with_edge(edge)])
}

fn made_on_host(context: &mut Context, call: &Call<'_>) -> Outcome {
    let layout = call.result(0)?;
    Ok(smallvec![context.empty(layout)])
}

/// A value that Python reads.
fn read(context: &mut Context, call: &Call<'_>) -> Outcome {
    if call.tensor(0).is_ok_and(|tensor| !tensor.is_on_host()) {
        context.memory().borrow_mut().host_reads_value();
    }
    Ok(smallvec![])
}

/// `eq(first, second).all().item()`.
fn equal(context: &mut Context, call: &Call<'_>) -> Outcome {
    let (first, second) = (call.tensor(0)?, call.tensor(1)?);
    if first.is_on_host() || second.is_on_host() || first.shape() != second.shape() {
        return Ok(smallvec![]);
    }
    let truth = Reduction { partial_bytes: 1, input_vector: 4, max_threads: 512 };
    let elements = context.empty(first.like(Dtype::Bool));
    let all = context.reduce(&elements, &[], false, Dtype::Bool, truth);
    context.memory().borrow_mut().host_reads_value();
    drop(all);
    drop(elements);
    Ok(smallvec![])
}
