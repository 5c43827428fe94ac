//! Views: other shapes and strides on the same memory. Nothing is allocated forward; backward turns the gradient's
//! shape back, and only a slice needs memory for that.

mod expanded;
mod in_place;
mod part;
mod permuted;
mod reshaped;
mod same;

use smallvec::smallvec;

use super::call::Outcome;
use super::facts::*;
use crate::autograd::{Backward, Context, Tensor};

pub(super) use expanded::expanded;
pub(super) use part::{narrowed, part_of};
pub(super) use permuted::{permuted_in_graph, transposed};
pub(crate) use reshaped::view_strides;
pub(super) use reshaped::{reshape_to, reshaped, reshaped_by_view};
pub(crate) use same::made_leaf;
pub(super) use same::{leaf_with, viewed_as_real};

/// What the family's operators have in common.
const FAMILY: Facts = Facts::of_family(
    Library::Own,
    Launch::LocalMemory,
    Time::moves("contiguous", Extent::Result),
    Keeps::Nothing,
    Autocast::Unchanged,
    Samples::Linear,
);

pub(super) const OPERATORS: &[Operator] = &[
    Operator::new(
        &["aten.view.default"],
        Facts { memory: Modelled(reshaped::view), effect: Effect::ViewsFirst, greatest: Greatest::Same, ..FAMILY },
    ),
    Operator::new(&["aten.view.dtype"], Facts { greatest: Greatest::Same, ..FAMILY }),
    Operator::new(
        &["aten.requires_grad_.default"],
        Facts {
            memory: Modelled(same::require_gradient),
            launch: Launch::Nothing,
            effect: Effect::ReshapesFirst,
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten._unsafe_view.default"],
        Facts { memory: Modelled(reshaped::view), time: Time::ASSUMED, greatest: Greatest::Same, ..FAMILY },
    ),
    Operator::new(
        &["aten.reshape.default"],
        Facts { memory: Modelled(reshaped::reshape), view_dispatch: "reshape", greatest: Greatest::Same, ..FAMILY },
    ),
    Operator::new(
        &["aten.reshape_as.default"],
        Facts { memory: Modelled(reshaped::reshape_as), time: Time::ASSUMED, ..FAMILY },
    ),
    Operator::new(
        &["aten.flatten.using_ints"],
        Facts { memory: Modelled(reshaped::flatten), view_dispatch: "flatten", greatest: Greatest::Same, ..FAMILY },
    ),
    Operator::new(
        &["aten.flatten.named_out_dim", "aten.flatten.using_names"],
        Facts { view_dispatch: "flatten", greatest: Greatest::Same, ..FAMILY },
    ),
    Operator::new(
        &["aten.unflatten.int"],
        Facts { memory: Modelled(reshaped::captured_view), view_dispatch: "flatten", ..FAMILY },
    ),
    Operator::new(
        &["aten.transpose.int"],
        Facts { memory: Modelled(permuted::transpose), view_dispatch: "transpose", greatest: Greatest::Same, ..FAMILY },
    ),
    Operator::new(
        &["aten.unsqueeze_.default"],
        Facts { memory: Modelled(in_place::unsqueeze), effect: Effect::ReshapesFirst, ..FAMILY },
    ),
    Operator::new(
        &["aten.squeeze_.default", "aten.squeeze_.dim", "aten.squeeze_.dims"],
        Facts { memory: Modelled(in_place::squeeze), effect: Effect::ReshapesFirst, ..FAMILY },
    ),
    Operator::new(
        &["aten.transpose_.default", "aten.swapaxes_.default"],
        Facts { memory: Modelled(in_place::transpose), effect: Effect::ReshapesFirst, ..FAMILY },
    ),
    Operator::new(
        &["aten.t_.default"],
        Facts { memory: Modelled(in_place::swap_last), effect: Effect::ReshapesFirst, ..FAMILY },
    ),
    Operator::new(
        &["aten.swapaxes.default"],
        Facts { memory: Modelled(permuted::transpose), view_dispatch: "transpose", ..FAMILY },
    ),
    Operator::new(
        &["aten.swapdims.default"],
        Facts { memory: Modelled(permuted::transpose), time: Time::ASSUMED, ..FAMILY },
    ),
    Operator::new(
        &["aten.swapdims_.default"],
        Facts { memory: Modelled(in_place::transpose), time: Time::ASSUMED, effect: Effect::ReshapesFirst, ..FAMILY },
    ),
    Operator::new(
        &[
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
        Facts { memory: Modelled(permuted::swap_last), view_dispatch: "transpose", greatest: Greatest::Same, ..FAMILY },
    ),
    Operator::new(
        &["aten.numpy_T.default", "aten.mT.default", "aten.adjoint.default", "aten.matrix_H.default"],
        Facts { memory: Modelled(permuted::swap_last), time: Time::ASSUMED, ..FAMILY },
    ),
    Operator::new(
        &["aten.permute.default"],
        Facts { memory: Modelled(permuted::permute), view_dispatch: "permute", greatest: Greatest::Same, ..FAMILY },
    ),
    Operator::new(
        &["aten.movedim.int", "aten.movedim.intlist"],
        Facts { memory: Modelled(permuted::move_dims), view_dispatch: "permute", ..FAMILY },
    ),
    Operator::new(
        &["aten.moveaxis.int", "aten.moveaxis.intlist"],
        Facts { memory: Modelled(permuted::move_dims), time: Time::ASSUMED, ..FAMILY },
    ),
    Operator::new(
        &["aten.expand.default"],
        Facts { memory: Modelled(expanded::expand), view_dispatch: "expand", greatest: Greatest::Same, ..FAMILY },
    ),
    Operator::new(
        &["aten.broadcast_to.default"],
        Facts { memory: Modelled(expanded::expand), time: Time::ASSUMED, ..FAMILY },
    ),
    Operator::new(
        &["aten.expand_as.default"],
        Facts { memory: Modelled(expanded::expand_as), view_dispatch: "expand", greatest: Greatest::Same, ..FAMILY },
    ),
    Operator::new(
        &["aten.broadcast_tensors.default"],
        Facts { memory: Modelled(expanded::broadcast_tensors), view_dispatch: "expand", ..FAMILY },
    ),
    Operator::new(
        &["aten.unsqueeze.default"],
        Facts { memory: Modelled(reshaped::unsqueeze), view_dispatch: "unsqueeze", greatest: Greatest::Same, ..FAMILY },
    ),
    Operator::new(
        &["aten.squeeze.dim", "aten.squeeze.dims", "aten.squeeze.default"],
        Facts { memory: Modelled(reshaped::squeeze), view_dispatch: "squeeze", greatest: Greatest::Same, ..FAMILY },
    ),
    Operator::new(
        &["aten.view_as.default"],
        Facts { memory: Modelled(reshaped::captured_view), effect: Effect::ViewsFirst, ..FAMILY },
    ),
    Operator::new(
        &["aten.atleast_1d.default", "aten.atleast_2d.default"],
        Facts { memory: Modelled(reshaped::captured_view), time: Time::ASSUMED, ..FAMILY },
    ),
    Operator::new(
        &["aten.slice.Tensor"],
        Facts {
            memory: Modelled(part::slice),
            view_dispatch: "slice",
            reads: Reads::Slice,
            samples: Samples::Part,
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.tensor_split.sections", "aten.tensor_split.indices"],
        Facts {
            memory: Modelled(part::slices),
            time: Time::ASSUMED,
            effect: Effect::ListsViews,
            samples: Samples::Part,
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.tensor_split.tensor_indices_or_sections"],
        Facts { time: Time::ASSUMED, effect: Effect::ListsViews, samples: Samples::Part, ..FAMILY },
    ),
    Operator::new(
        &["aten.narrow.default"],
        Facts {
            memory: Modelled(part::narrow),
            view_dispatch: "slice",
            reads: Reads::Narrow,
            samples: Samples::Part,
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.narrow.Tensor"],
        Facts { view_dispatch: "slice", reads: Reads::Narrow, samples: Samples::Part, ..FAMILY },
    ),
    Operator::new(
        &["aten.select.int"],
        Facts { memory: Modelled(part::select), view_dispatch: "select", samples: Samples::Picked(1), ..FAMILY },
    ),
    Operator::new(
        &["aten.diagonal.default"],
        Facts { memory: Modelled(part::diagonal), time: Time::ASSUMED, samples: Samples::Part, ..FAMILY },
    ),
    Operator::new(
        &["aten.diagonal_copy.default"],
        Facts { memory: Modelled(part::diagonal_copy), time: Time::ASSUMED, samples: Samples::Part, ..FAMILY },
    ),
    Operator::new(
        &["aten.diag_embed.default"],
        Facts { memory: Modelled(part::diag_embed), time: Time::ASSUMED, ..FAMILY },
    ),
    Operator::new(&["aten.unfold.default"], Facts { memory: Modelled(part::unfold), samples: Samples::Part, ..FAMILY }),
    Operator::new(
        &["aten.detach.default"],
        Facts {
            memory: Modelled(same::detach),
            sparse: Modelled(same::detach),
            greatest: Greatest::Same,
            leaves_base: true,
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.detach_.default"],
        Facts { memory: Modelled(same::detach), effect: Effect::WritesFirst, ..FAMILY },
    ),
    Operator::new(
        &["aten.view_as_complex.default", "aten.view_as_real.default"],
        Facts { memory: Modelled(same::other_numbers), time: Time::ASSUMED, ..FAMILY },
    ),
    Operator::new(&["aten.alias.default"], Facts { memory: Modelled(same::alias), greatest: Greatest::Same, ..FAMILY }),
    Operator::new(&["aten.positive.default"], Facts { memory: Modelled(same::alias), time: Time::ASSUMED, ..FAMILY }),
];

/// A view in the graph.
fn finish(context: &mut Context, source: &Tensor, result: Tensor, backward: impl Backward + 'static) -> Outcome {
    let edge = context.record(&[Some(source)], 1, |_| smallvec![], backward);
    Ok(smallvec![result.with_edge(edge)])
}
