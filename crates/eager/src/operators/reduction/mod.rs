//! Reductions: a result, the buffers of a split kernel, and gradients that are spread out again.

mod distance;
mod extreme;
mod moment;
mod over;
mod product;
mod scan;
mod sum;

use super::facts::*;
use over::Over;

pub(super) use extreme::PLACED;
pub(super) use scan::running_sum;
pub(super) use sum::{any_of, mean};

/// What the family's operators have in common.
const FAMILY: Facts = Facts::of_family(
    Library::Own,
    Launch::LocalMemoryAndStack,
    Time::ASSUMED,
    Keeps::Nothing,
    Autocast::Unchanged,
    Samples::Apart,
);

pub(super) const OPERATORS: &[Operator] = &[
    Operator::new(
        &["aten.sum.default"],
        Facts {
            memory: Modelled(|context, call| sum::sum(context, call, &Over::all(call)?, false)),
            time: Time::moves("sum", Extent::Input),
            autocast: Autocast::SingleByDtype,
            samples: Samples::Sum,
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.sum.dim_IntList"],
        Facts {
            memory: Modelled(|context, call| sum::sum(context, call, &Over::listed(call)?, false)),
            time: Time::moves("sum", Extent::Input),
            autocast: Autocast::SingleByDtype,
            samples: Samples::Sum,
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.mean.default"],
        Facts {
            memory: Modelled(|context, call| sum::sum(context, call, &Over::all(call)?, true)),
            time: Time::moves("mean_last", Extent::Input),
            samples: Samples::Mean,
            ..FAMILY
        },
    ),
    Operator::new(&["aten.mean.names_dim"], Facts { time: Time::moves("mean_last", Extent::Input), ..FAMILY }),
    Operator::new(
        &["aten.mean.dim"],
        Facts {
            memory: Modelled(|context, call| sum::sum(context, call, &Over::listed(call)?, true)),
            time: Time::moves("mean_last", Extent::Input),
            samples: Samples::Mean,
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.count_nonzero.default", "aten.count_nonzero.dim_IntList"],
        Facts { memory: Modelled(sum::count_nonzero), time: Time::moves("sum", Extent::Input), ..FAMILY },
    ),
    Operator::new(
        &["aten.any.default", "aten.all.default", "aten._is_all_true.default"],
        Facts {
            memory: Modelled(|context, call| sum::truth(context, call, &Over::all(call)?)),
            time: Time::moves("sum", Extent::Input),
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.any.dim", "aten.all.dim", "aten.any.dims", "aten.all.dims"],
        Facts {
            memory: Modelled(|context, call| sum::truth(context, call, &Over::listed(call)?)),
            time: Time::moves("sum", Extent::Input),
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.var.default"],
        Facts {
            memory: Modelled(|context, call| moment::variance(context, call, &Over::all(call)?, false)),
            time: Time::moves("sum", Extent::Input),
            ..FAMILY
        },
    ),
    Operator::new(
        &[
            "aten.var.correction_names",
            "aten.var.names_dim",
            "aten.std.correction_names",
            "aten.std.names_dim",
            "aten.norm.ScalarOpt_dtype",
            "aten.norm.names_ScalarOpt_dim",
            "aten.norm.names_ScalarOpt_dim_dtype",
        ],
        Facts { time: Time::moves("sum", Extent::Input), ..FAMILY },
    ),
    Operator::new(
        &["aten.std.default"],
        Facts {
            memory: Modelled(|context, call| moment::variance(context, call, &Over::all(call)?, true)),
            time: Time::moves("sum", Extent::Input),
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.var.dim", "aten.var.correction"],
        Facts {
            memory: Modelled(|context, call| moment::variance(context, call, &Over::at(call, 1, 3)?, false)),
            time: Time::moves("sum", Extent::Input),
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.std.dim", "aten.std.correction"],
        Facts {
            memory: Modelled(|context, call| moment::variance(context, call, &Over::at(call, 1, 3)?, true)),
            time: Time::moves("sum", Extent::Input),
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.var_mean.correction"],
        Facts { memory: Modelled(|context, call| moment::with_mean(context, call, false)), ..FAMILY },
    ),
    Operator::new(
        &[
            "aten.var_mean.correction_names",
            "aten.var_mean.default",
            "aten.var_mean.dim",
            "aten.var_mean.names_dim",
            "aten.logsumexp.names",
        ],
        FAMILY,
    ),
    Operator::new(
        &["aten.std_mean.correction"],
        Facts {
            memory: Modelled(|context, call| moment::with_mean(context, call, true)),
            launch: Launch::LocalMemory,
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.linalg_vector_norm.default"],
        Facts { memory: Modelled(moment::norm), autocast: Autocast::SingleByDtype, ..FAMILY },
    ),
    Operator::new(
        &["aten.norm.ScalarOpt_dim", "aten.norm.ScalarOpt_dim_dtype", "aten.norm.Scalar"],
        Facts { memory: Modelled(moment::norm), time: Time::moves("sum", Extent::Input), ..FAMILY },
    ),
    Operator::new(
        &["aten.logsumexp.default"],
        Facts { memory: Modelled(moment::logsumexp), autocast: Autocast::Single, ..FAMILY },
    ),
    Operator::new(
        &["aten.amax.default"],
        Facts {
            memory: Modelled(|context, call| extreme::values(context, call, &Over::listed(call)?, false)),
            time: Time::moves("sum", Extent::Input),
            keeps: Keeps::Results,
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.amin.default"],
        Facts {
            memory: Modelled(|context, call| extreme::values(context, call, &Over::listed(call)?, false)),
            time: Time::moves("sum", Extent::Input),
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.max.default", "aten.min.default"],
        Facts {
            memory: Modelled(|context, call| extreme::values(context, call, &Over::all(call)?, true)),
            time: Time::moves("add", Extent::Larger),
            promotion: Promotion::Widest,
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.max.names_dim", "aten.min.names_dim"],
        Facts { time: Time::moves("add", Extent::Larger), promotion: Promotion::Widest, ..FAMILY },
    ),
    Operator::new(
        &["aten.max.dim", "aten.min.dim"],
        Facts {
            memory: Modelled(extreme::with_places),
            time: Time::moves("add", Extent::Larger),
            promotion: Promotion::Widest,
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.median.dim", "aten.mode.default"],
        Facts { memory: Modelled(extreme::with_places), launch: Launch::LocalMemory, ..FAMILY },
    ),
    Operator::new(
        &["aten.argmax.default"],
        Facts { memory: Modelled(extreme::places), time: Time::moves("sum", Extent::Input), ..FAMILY },
    ),
    Operator::new(&["aten.argmin.default"], Facts { memory: Modelled(extreme::places), ..FAMILY }),
    Operator::new(
        &["aten.cumsum.default"],
        Facts {
            memory: Modelled(scan::cumsum),
            launch: Launch::Kernel,
            time: Time::moves("cumsum", Extent::Larger),
            autocast: Autocast::SingleByDtype,
            greatest: Greatest::Counted,
            samples: Samples::Along(1),
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.cumsum_.default", "aten.cumprod_.default"],
        Facts {
            launch: Launch::LocalMemory,
            time: Time::moves("cumsum", Extent::Larger),
            effect: Effect::WritesFirst,
            samples: Samples::Along(1),
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.diff.default"],
        Facts {
            memory: Modelled(scan::diff),
            launch: Launch::LocalMemory,
            time: Time::moves("cumsum", Extent::Larger),
            samples: Samples::Part,
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.prod.default"],
        Facts {
            memory: Modelled(|context, call| product::product(context, call, &Over::all(call)?, true)),
            autocast: Autocast::SingleByDtype,
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.prod.dim_int"],
        Facts {
            memory: Modelled(|context, call| product::product(context, call, &Over::listed(call)?, false)),
            autocast: Autocast::SingleByDtype,
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.cumprod.default"],
        Facts {
            memory: Modelled(product::cumprod),
            launch: Launch::LocalMemory,
            time: Time::moves("cumsum", Extent::Larger),
            autocast: Autocast::SingleByDtype,
            samples: Samples::Along(1),
            ..FAMILY
        },
    ),
    Operator::new(
        &[
            "aten.cdist.default",
            "aten.cosine_similarity.default",
            "aten.frobenius_norm.dim",
            "aten.nuclear_norm.default",
            "aten.nuclear_norm.dim",
        ],
        Facts { launch: Launch::LocalMemory, autocast: Autocast::Single, ..FAMILY },
    ),
    Operator::new(
        &["aten.dist.default"],
        Facts { memory: Modelled(moment::dist), autocast: Autocast::Single, ..FAMILY },
    ),
    Operator::new(
        &["aten.renorm.default"],
        Facts { memory: Modelled(moment::renorm), autocast: Autocast::Single, samples: Samples::Unknown, ..FAMILY },
    ),
    Operator::new(
        &["aten.pdist.default"],
        Facts { memory: Modelled(distance::within), launch: Launch::LocalMemory, autocast: Autocast::Single, ..FAMILY },
    ),
    Operator::new(
        &["aten._cdist_forward.default"],
        Facts { memory: Modelled(distance::by_pair), launch: Launch::LocalMemory, ..FAMILY },
    ),
    Operator::new(&["aten._euclidean_dist.default"], Facts { memory: Modelled(distance::euclidean), ..FAMILY }),
    Operator::new(
        &["aten.nansum.default"],
        Facts {
            memory: Modelled(sum::nansum),
            time: Time::moves("sum", Extent::Input),
            samples: Samples::Sum,
            ..FAMILY
        },
    ),
    Operator::new(&["aten.trace.default"], Facts { memory: Modelled(sum::trace), ..FAMILY }),
    Operator::new(&["aten.median.default"], Facts { memory: Modelled(extreme::median), ..FAMILY }),
    Operator::new(
        &["aten.logcumsumexp.default"],
        Facts {
            memory: Modelled(scan::logcumsumexp),
            launch: Launch::LocalMemory,
            time: Time::moves("cumsum", Extent::Larger),
            samples: Samples::Along(1),
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.linalg_matrix_norm.default", "aten.linalg_matrix_norm.str_ord"],
        Facts { launch: Launch::LocalMemory, autocast: Autocast::SingleByDtype, ..FAMILY },
    ),
];
