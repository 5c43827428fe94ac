//! Images in another size: interpolation, pixels moved between channels and image.

use smallvec::smallvec;
use vramfit_graph::dims::Dims;
use vramfit_graph::format::Format;

use super::call::{Call, Outcome};
use super::facts::*;
use crate::autograd::{Backward, Context, Gradients, Node};

/// What the family's operators have in common.
const FAMILY: Facts =
    Facts::of_family(Library::Own, Launch::Kernel, Time::ASSUMED, Keeps::Nothing, Autocast::Single, Samples::First);

pub(super) const OPERATORS: &[Operator] = &[
    Operator::new(
        &["aten.upsample_nearest2d.default", "aten.upsample_nearest2d.vec"],
        Facts {
            memory: Modelled(|context, call| resized(context, call, Kernel::AnyFormat)),
            time: Time::moves("upsample_nearest", Extent::Input),
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten._upsample_nearest_exact2d.default", "aten._upsample_nearest_exact2d.vec"],
        Facts { memory: Modelled(|context, call| resized(context, call, Kernel::AnyFormat)), ..FAMILY },
    ),
    Operator::new(
        &["aten.upsample_bilinear2d.default", "aten.upsample_bilinear2d.vec"],
        Facts {
            memory: Modelled(|context, call| resized(context, call, Kernel::AnyFormat)),
            time: Time::moves("upsample_bilinear", Extent::Input),
            ..FAMILY
        },
    ),
    Operator::new(
        &[
            "aten.upsample_nearest1d.default",
            "aten.upsample_nearest1d.vec",
            "aten.upsample_nearest3d.default",
            "aten.upsample_nearest3d.vec",
        ],
        Facts {
            memory: Modelled(|context, call| resized(context, call, Kernel::RowMajor)),
            time: Time::moves("upsample_nearest", Extent::Input),
            ..FAMILY
        },
    ),
    Operator::new(
        &[
            "aten._upsample_nearest_exact1d.default",
            "aten._upsample_nearest_exact1d.vec",
            "aten._upsample_nearest_exact3d.default",
            "aten._upsample_nearest_exact3d.vec",
            "aten.upsample_linear1d.default",
            "aten.upsample_linear1d.vec",
            "aten.upsample_trilinear3d.default",
            "aten.upsample_trilinear3d.vec",
            "aten._upsample_bilinear2d_aa.default",
            "aten._upsample_bilinear2d_aa.vec",
            "aten._upsample_bicubic2d_aa.default",
            "aten._upsample_bicubic2d_aa.vec",
        ],
        Facts { memory: Modelled(|context, call| resized(context, call, Kernel::RowMajor)), ..FAMILY },
    ),
    Operator::new(
        &["aten.upsample_bicubic2d.default", "aten.upsample_bicubic2d.vec"],
        Facts {
            memory: Modelled(|context, call| resized(context, call, Kernel::RowMajor)),
            time: Time::moves("upsample_bilinear", Extent::Input),
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.pixel_shuffle.default"],
        Facts {
            memory: Modelled(moved),
            time: Time::moves("contiguous", Extent::Result),
            autocast: Autocast::Unchanged,
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.pixel_unshuffle.default", "aten.channel_shuffle.default", "aten.native_channel_shuffle.default"],
        Facts { memory: Modelled(moved), autocast: Autocast::Unchanged, ..FAMILY },
    ),
];

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
