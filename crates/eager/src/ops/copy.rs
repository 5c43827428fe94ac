//! Copies and casts.

use smallvec::smallvec;
use vramfit_graph::bind::Value;
use vramfit_graph::dtype::Dtype;
use vramfit_graph::model::MemoryFormat;

use super::{Call, Context, Outcome, Rule};
use crate::autograd::Tensor;
use crate::autograd::{Backward, Gradients, Node};
use vramfit_graph::format::Format;
use vramfit_graph::layout::Layout;

pub(super) fn rule(name: &str) -> Option<Rule> {
    Some(match name {
        "aten.contiguous.default" => contiguous,
        "aten.clone.default" => clone,
        "aten.to.dtype"
        | "aten.to.device"
        | "aten.to.dtype_layout"
        | "aten.to.other"
        | "aten._to_copy.default"
        | "aten.type_as.default" => to,
        "vramfit.tensor" => made_on_host,
        _ => return None,
    })
}

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

/// The tensor itself where it lies in the format, else a copy that does, in the graph.
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

fn clone(context: &mut Context, call: &Call<'_>) -> Outcome {
    let source = call.tensor(0)?;
    let layout = match memory_format(call) {
        None | Some(MemoryFormat::Preserve) => source.like(source.dtype()),
        Some(MemoryFormat::Contiguous) => Layout::contiguous(source.dtype(), source.shape()).into(),
        Some(MemoryFormat::ChannelsLast | MemoryFormat::ChannelsLast3d) => {
            Format::ChannelsLast.layout(source.dtype(), source.shape()).into()
        }
    };
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
        return Ok(smallvec![context.empty(wanted)]);
    }
    if source.dtype() == wanted.dtype && context.autocast() == Some(wanted.dtype) && call.bool(3) == Ok(false) {
        return Ok(smallvec![source.clone()]);
    }
    let result = context.empty(source.like(wanted.dtype));
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
