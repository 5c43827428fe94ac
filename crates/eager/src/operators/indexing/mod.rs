//! Reading and writing by index.

mod advanced;
mod masked_scatter;
mod order;
mod pieces;
mod plain;
mod put;
mod reduced;
mod selected;
mod windows;

use super::facts::*;

pub(super) use order::{look_for_largest, sorted};
pub(super) use selected::nonzero;

/// What the family's operators have in common.
const FAMILY: Facts = Facts::of_family(
    Library::Own,
    Launch::LocalMemory,
    Time::ASSUMED,
    Keeps::Nothing,
    Autocast::Unchanged,
    Samples::Unknown,
);

/// What those have in common that write into their first argument.
const IN_PLACE: Facts = Facts { effect: Effect::WritesFirst, ..FAMILY };

pub(super) const OPERATORS: &[Operator] = &[
    Operator::new(
        &["aten.gather.default"],
        Facts {
            memory: Modelled(plain::gather),
            launch: Launch::LocalMemoryAndStack,
            time: Time::moves("embedding", Extent::Result),
            keeps: Keeps::Inputs,
            reads: Reads::Along,
            samples: Samples::Picked(1),
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.index_select.default"],
        Facts {
            memory: Modelled(plain::index_select),
            launch: Launch::LocalMemoryAndStack,
            time: Time::moves("embedding", Extent::Result),
            reads: Reads::Along,
            samples: Samples::Picked(1),
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.scatter.src", "aten.scatter.value"],
        Facts { memory: Modelled(plain::scatter), samples: Samples::Picked(1), ..FAMILY },
    ),
    Operator::new(
        &["aten.scatter_add.default"],
        Facts {
            memory: Modelled(plain::scatter_add),
            autocast: Autocast::Widest,
            samples: Samples::Picked(1),
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.index_add.default"],
        Facts { memory: Modelled(plain::index_add), samples: Samples::Picked(1), ..FAMILY },
    ),
    Operator::new(
        &["aten.index_fill.int_Scalar"],
        Facts { memory: Modelled(plain::index_fill), samples: Samples::Picked(1), ..FAMILY },
    ),
    Operator::new(
        &["aten.scatter_.src", "aten.scatter_.value"],
        Facts { memory: Modelled(plain::scatter_in_place), samples: Samples::Picked(1), ..IN_PLACE },
    ),
    Operator::new(
        &["aten.scatter_add_.default"],
        Facts { memory: Modelled(plain::scatter_add_in_place), samples: Samples::Picked(1), ..IN_PLACE },
    ),
    Operator::new(
        &["aten.index_add_.default"],
        Facts { memory: Modelled(plain::index_add_in_place), samples: Samples::Picked(1), ..IN_PLACE },
    ),
    Operator::new(
        &["aten.index_copy.default"],
        Facts { memory: Modelled(plain::index_copy), samples: Samples::Picked(1), ..FAMILY },
    ),
    Operator::new(
        &["aten.index_copy_.default"],
        Facts { memory: Modelled(plain::index_copy_in_place), samples: Samples::Picked(1), ..IN_PLACE },
    ),
    Operator::new(
        &["aten.take.default"],
        Facts {
            memory: Modelled(plain::take),
            time: Time::moves("embedding", Extent::Result),
            samples: Samples::Unknown,
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.take_along_dim.default"],
        Facts { memory: Modelled(plain::take_along), samples: Samples::Picked(2), ..FAMILY },
    ),
    Operator::new(&["aten.put.default"], Facts { memory: Modelled(plain::put), samples: Samples::Unknown, ..FAMILY }),
    Operator::new(
        &["aten.scatter_reduce.two"],
        Facts { memory: Modelled(reduced::scatter_reduce), samples: Samples::Picked(1), ..FAMILY },
    ),
    Operator::new(
        &["aten.index_reduce.default"],
        Facts { memory: Modelled(reduced::index_reduce), samples: Samples::Picked(1), ..FAMILY },
    ),
    Operator::new(&["aten.select_scatter.default"], Facts { memory: Modelled(windows::select_scatter), ..FAMILY }),
    Operator::new(&["aten.slice_scatter.default"], Facts { memory: Modelled(windows::slice_scatter), ..FAMILY }),
    Operator::new(&["aten.diagonal_scatter.default"], Facts { memory: Modelled(windows::diagonal_scatter), ..FAMILY }),
    Operator::new(
        &["aten.masked_scatter.default"],
        Facts { memory: Modelled(masked_scatter::masked_scatter), samples: Samples::Unknown, ..FAMILY },
    ),
    Operator::new(
        &["aten.masked_scatter_.default"],
        Facts { memory: Modelled(masked_scatter::masked_scatter_in_place), samples: Samples::Unknown, ..IN_PLACE },
    ),
    Operator::new(&["aten.segment_reduce.default"], Facts { memory: Modelled(selected::segment_reduce), ..FAMILY }),
    Operator::new(&["aten.repeat_interleave.Tensor"], Facts { memory: Modelled(selected::repeated_places), ..FAMILY }),
    Operator::new(
        &["aten.where.default"],
        Facts { memory: Modelled(selected::where_true), time: Time::WAIT, ..FAMILY },
    ),
    Operator::new(
        &["aten.index.Tensor"],
        Facts {
            memory: Modelled(advanced::index),
            launch: Launch::LocalMemoryAndStack,
            time: Time::moves("embedding", Extent::Result),
            keeps: Keeps::Inputs,
            reads: Reads::Indexed,
            samples: Samples::Indexed,
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.index.Tensor_hacked_twin", "aten.index.list_Tensor"],
        Facts {
            launch: Launch::LocalMemoryAndStack,
            time: Time::moves("embedding", Extent::Result),
            keeps: Keeps::Inputs,
            reads: Reads::Indexed,
            samples: Samples::Indexed,
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.index_put.default"],
        Facts { memory: Modelled(put::index_put), autocast: Autocast::Widest, samples: Samples::Unknown, ..FAMILY },
    ),
    Operator::new(
        &["aten.index_put_.default", "aten._index_put_impl_.default"],
        Facts { memory: Modelled(put::index_put_in_place), samples: Samples::Unknown, ..IN_PLACE },
    ),
    Operator::new(
        &["aten.nonzero.default"],
        Facts { memory: Modelled(selected::nonzero_call), time: Time::WAIT, samples: Samples::Unknown, ..FAMILY },
    ),
    Operator::new(
        &["aten.masked_select.default"],
        Facts { memory: Modelled(selected::masked_select), samples: Samples::Unknown, ..FAMILY },
    ),
    Operator::new(
        &["aten.sort.default"],
        Facts { memory: Modelled(|context, call| order::sort(context, call, 1)), samples: Samples::Along(1), ..FAMILY },
    ),
    Operator::new(
        &["aten.sort.stable"],
        Facts { memory: Modelled(|context, call| order::sort(context, call, 2)), samples: Samples::Along(2), ..FAMILY },
    ),
    Operator::new(
        &["aten.topk.default"],
        Facts { memory: Modelled(order::topk), samples: Samples::Along(1), ..FAMILY },
    ),
    Operator::new(
        &["aten.kthvalue.default"],
        Facts { memory: Modelled(order::kthvalue), samples: Samples::Along(1), ..FAMILY },
    ),
    Operator::new(
        &["aten.cummax.default", "aten.cummin.default"],
        Facts { memory: Modelled(order::cummax), samples: Samples::Along(1), ..FAMILY },
    ),
];
