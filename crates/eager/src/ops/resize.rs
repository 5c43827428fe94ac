//! Images in another size: interpolation, pixels moved between channels and image.

use smallvec::smallvec;

use super::{Call, Context, Outcome, Rule};
use crate::autograd::{Backward, Gradients, Node};
use vramfit_graph::dims::Dims;
use vramfit_graph::format::Format;

pub(super) fn rule(name: &str) -> Option<Rule> {
    let (base, _) = name.strip_prefix("aten.")?.split_once('.')?;
    Some(match base {
        "upsample_nearest2d" | "_upsample_nearest_exact2d" | "upsample_bilinear2d" => {
            |context, call| resized(context, call, Kernel::AnyFormat)
        }
        "upsample_nearest1d"
        | "_upsample_nearest_exact1d"
        | "upsample_nearest3d"
        | "_upsample_nearest_exact3d"
        | "upsample_linear1d"
        | "upsample_bicubic2d"
        | "upsample_trilinear3d"
        | "_upsample_bilinear2d_aa"
        | "_upsample_bicubic2d_aa" => |context, call| resized(context, call, Kernel::RowMajor),
        "pixel_shuffle" | "pixel_unshuffle" | "channel_shuffle" | "native_channel_shuffle" => moved,
        _ => return None,
    })
}

/// What a kernel for the gradient reads and writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kernel {
    AnyFormat,
    RowMajor,
}

/// Nothing is saved: sizes are enough.
#[derive(Debug)]
struct Resized {
    source: Dims,
    kernel: Kernel,
}

impl Backward for Resized {
    fn apply(&self, context: &mut Context, _node: &Node, gradients: &mut Gradients) -> Gradients {
        let Some(gradient) = gradients[0].clone() else { return smallvec![None] };
        let format = match self.kernel {
            Kernel::AnyFormat => Format::suggested(gradient.layout()),
            Kernel::RowMajor => Format::Contiguous,
        };
        let result = context.empty(format.layout(gradient.dtype(), &self.source));
        let incoming = context.contiguous_in(&gradient, format);
        drop(incoming);
        smallvec![Some(result)]
    }
}

fn resized(context: &mut Context, call: &Call<'_>, kernel: Kernel) -> Outcome {
    let source = call.tensor(0)?;
    let format = Format::suggested(source.layout());
    let result = context.empty(format.layout(source.dtype(), &call.result(0)?.shape));
    if !source.layout().is_dense() {
        let read = context.contiguous_in(source, format);
        drop(read);
    }
    let backward = Resized { source: source.shape().into(), kernel };
    let edge = context.record(&[Some(source)], 1, |_| smallvec![], backward);
    Ok(smallvec![result.with_edge(edge)])
}

/// The same numbers in another order, both ways a copy.
#[derive(Debug)]
struct Moved(Dims);

impl Backward for Moved {
    fn apply(&self, context: &mut Context, _node: &Node, gradients: &mut Gradients) -> Gradients {
        let gradient = gradients[0].clone();
        smallvec![gradient.map(|gradient| context.empty_contiguous(gradient.dtype(), &self.0))]
    }
}

fn moved(context: &mut Context, call: &Call<'_>) -> Outcome {
    let source = call.tensor(0)?;
    let result = context.empty_contiguous(source.dtype(), &call.result(0)?.shape);
    let edge = context.record(&[Some(source)], 1, |_| smallvec![], Moved(source.shape().into()));
    Ok(smallvec![result.with_edge(edge)])
}
