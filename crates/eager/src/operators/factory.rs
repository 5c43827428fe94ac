//! Tensors made from nothing, and writing into tensors.

use smallvec::smallvec;
use vramfit_graph::dtype::Dtype;
use vramfit_graph::layout::Layout;

use super::call::{Call, Outcome};
use super::facts::*;
use super::pointwise::rebased;
use super::sparse;
use crate::autograd::{Backward, Context, Edge, Gradients, Node, Tensor};
use crate::kernels::reduce::Reduction;

/// What the family's operators have in common.
const FAMILY: Facts = Facts::of_family(
    Library::Own,
    Launch::LocalMemory,
    Time::moves("zeros", Extent::Result),
    Keeps::Nothing,
    Autocast::Unchanged,
    Samples::Apart,
);

/// What those have in common that write into their first argument.
const IN_PLACE: Facts = Facts { effect: Effect::WritesFirst, ..FAMILY };

pub(super) const OPERATORS: &[Operator] = &[
    Operator::new(
        &["aten.arange.default"],
        Facts {
            memory: Modelled(made),
            launch: Launch::Kernel,
            greatest: Greatest::Below(0),
            samples: Samples::Range,
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.arange.start"],
        Facts {
            memory: Modelled(made),
            launch: Launch::Kernel,
            greatest: Greatest::Below(1),
            samples: Samples::Range,
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.arange.start_step"],
        Facts {
            memory: Modelled(made),
            launch: Launch::Kernel,
            greatest: Greatest::LastOfRange,
            samples: Samples::Range,
            ..FAMILY
        },
    ),
    Operator::new(
        &[
            "aten.zeros.default",
            "aten.zeros.names",
            "aten.ones.default",
            "aten.ones.names",
            "aten.full.default",
            "aten.full.names",
            "aten.eye.default",
            "aten.eye.m",
            "aten.new_zeros.default",
            "aten.new_ones.default",
        ],
        Facts { memory: Modelled(made), samples: Samples::Ignored, ..FAMILY },
    ),
    Operator::new(
        &[
            "aten.rand.default",
            "aten.rand.generator",
            "aten.rand.generator_with_names",
            "aten.rand.names",
            "aten.randn.default",
            "aten.randn.generator",
            "aten.randn.generator_with_names",
            "aten.randn.names",
        ],
        Facts { memory: Modelled(made), launch: Launch::Kernel, samples: Samples::Ignored, ..FAMILY },
    ),
    Operator::new(
        &["aten.empty.memory_format", "aten.empty.names"],
        Facts { memory: Modelled(made), launch: Launch::Nothing, ..FAMILY },
    ),
    Operator::new(
        &[
            "aten.randint.default",
            "aten.randint.generator",
            "aten.randint.low",
            "aten.randint.low_generator",
            "aten.linspace.default",
            "aten.logspace.Scalar_Tensor",
            "aten.logspace.Tensor_Scalar",
            "aten.logspace.Tensor_Tensor",
            "aten.logspace.default",
        ],
        Facts {
            memory: Modelled(made),
            launch: Launch::Kernel,
            time: Time::ASSUMED,
            samples: Samples::Ignored,
            ..FAMILY
        },
    ),
    Operator::new(
        &[
            "aten.new_full.default",
            "aten.new_tensor.default",
            "aten.scalar_tensor.default",
            "aten.empty_permuted.default",
            "aten.tril_indices.default",
            "aten.triu_indices.default",
        ],
        Facts { memory: Modelled(made), time: Time::ASSUMED, samples: Samples::Ignored, ..FAMILY },
    ),
    Operator::new(
        &[
            "aten.linspace.Scalar_Tensor",
            "aten.linspace.Tensor_Scalar",
            "aten.linspace.Tensor_Tensor",
            "aten.one_hot.default",
            "aten.searchsorted.Scalar",
            "aten.searchsorted.Tensor",
            "aten.bucketize.Scalar",
            "aten.bucketize.Tensor",
        ],
        Facts { memory: Modelled(made), time: Time::ASSUMED, ..FAMILY },
    ),
    Operator::new(
        &["aten.hann_window.default", "aten.hamming_window.default"],
        Facts { memory: Modelled(|context, call| window(context, call, true)), time: Time::ASSUMED, ..FAMILY },
    ),
    Operator::new(
        &[
            "aten.hann_window.periodic",
            "aten.hamming_window.periodic",
            "aten.hamming_window.periodic_alpha",
            "aten.hamming_window.periodic_alpha_beta",
        ],
        Facts { memory: Modelled(|context, call| window(context, call, call.bool(1)?)), time: Time::ASSUMED, ..FAMILY },
    ),
    Operator::new(
        &["aten.normal.Tensor_Tensor"],
        Facts { memory: Modelled(normal_of_each), time: Time::ASSUMED, ..FAMILY },
    ),
    Operator::new(
        &["aten.new_empty.default", "aten.new_empty_strided.default"],
        Facts {
            memory: Modelled(made),
            launch: Launch::Nothing,
            time: Time::ASSUMED,
            samples: Samples::Ignored,
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.zeros_like.default", "aten.ones_like.default", "aten.full_like.default"],
        Facts { memory: Modelled(like), samples: Samples::Ignored, ..FAMILY },
    ),
    Operator::new(
        &["aten.rand_like.default", "aten.rand_like.generator", "aten.randn_like.default", "aten.randn_like.generator"],
        Facts { memory: Modelled(like), launch: Launch::Kernel, samples: Samples::Ignored, ..FAMILY },
    ),
    Operator::new(
        &["aten.empty_like.default"],
        Facts { memory: Modelled(like), launch: Launch::Nothing, samples: Samples::Ignored, ..FAMILY },
    ),
    Operator::new(
        &[
            "aten.randint_like.Tensor",
            "aten.randint_like.Tensor_generator",
            "aten.randint_like.default",
            "aten.randint_like.generator",
            "aten.randint_like.low_dtype",
            "aten.randint_like.low_generator_dtype",
        ],
        Facts {
            memory: Modelled(like),
            launch: Launch::Kernel,
            time: Time::ASSUMED,
            samples: Samples::Ignored,
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.bernoulli.Tensor", "aten.bernoulli.default", "aten.bernoulli.p"],
        Facts { memory: Modelled(bernoulli), time: Time::moves("dropout", Extent::Larger), ..FAMILY },
    ),
    Operator::new(
        &["aten.zero_.default"],
        Facts { memory: Modelled(fill), sparse: Modelled(sparse::clear), samples: Samples::Ignored, ..IN_PLACE },
    ),
    Operator::new(&["aten.fill_.Scalar", "aten.fill_.Tensor"], Facts { memory: Modelled(fill), ..IN_PLACE }),
    Operator::new(&["aten.zero.default", "aten.fill.Scalar", "aten.fill.Tensor"], FAMILY),
    Operator::new(
        &[
            "aten.normal_.default",
            "aten.uniform_.default",
            "aten.random_.default",
            "aten.random_.from",
            "aten.random_.to",
            "aten.exponential_.default",
        ],
        Facts {
            memory: Modelled(fill),
            launch: Launch::Kernel,
            time: Time::ASSUMED,
            samples: Samples::Ignored,
            ..IN_PLACE
        },
    ),
    Operator::new(
        &["aten.bernoulli_.Tensor", "aten.bernoulli_.float"],
        Facts { memory: Modelled(fill), time: Time::moves("dropout", Extent::Larger), ..IN_PLACE },
    ),
    Operator::new(
        &["aten.copy_.Tensor", "aten.copy_.default", "aten.copy_.float", "aten.copy_.int"],
        Facts {
            memory: Modelled(copy_into),
            launch: Launch::Copy,
            time: Time::moves("to_half", Extent::Larger),
            ..IN_PLACE
        },
    ),
    Operator::new(
        &["aten.copy.Dict_Tensor", "aten.copy.default"],
        Facts { time: Time::moves("to_half", Extent::Larger), ..FAMILY },
    ),
    Operator::new(&["aten.empty_strided.default"], Facts { launch: Launch::Nothing, time: Time::ASSUMED, ..FAMILY }),
];

fn made(context: &mut Context, call: &Call<'_>) -> Outcome {
    Ok(smallvec![context.empty(call.result(0)?)])
}

/// Normal numbers with a mean and a deviation each. That no deviation is negative is checked before and after the result is made.
fn normal_of_each(context: &mut Context, call: &Call<'_>) -> Outcome {
    let (mean, deviation) = (call.tensor(0)?, call.tensor(1)?);
    let check = |context: &mut Context| {
        let reduction = Reduction::comparing(deviation.dtype());
        let least = context.reduce(deviation, &[], false, deviation.dtype(), reduction);
        let is_right = context.empty_contiguous(Dtype::Bool, &[]);
        drop(is_right);
        drop(least);
    };
    check(context);
    let result = context.empty_contiguous(mean.dtype(), &call.result(0)?.shape);
    check(context);
    Ok(smallvec![result])
}

/// A periodic window is made with one more element, which is cut off.
fn window(context: &mut Context, call: &Call<'_>, is_periodic: bool) -> Outcome {
    let Layout { dtype, shape, .. } = call.result(0)?;
    let length: i64 = shape.iter().product();
    let more = i64::from(is_periodic && length > 1);
    let whole = context.empty_contiguous(dtype, &[length + more]);
    Ok(smallvec![whole.unsafe_view(Layout::contiguous(dtype, &[length]))])
}

fn like(context: &mut Context, call: &Call<'_>) -> Outcome {
    let wanted = call.result(0)?;
    let source = call.tensor(0)?;
    let is_contiguous = call.arguments.iter().any(|value| {
        matches!(value, vramfit_graph::bind::Value::MemoryFormat(vramfit_graph::model::MemoryFormat::Contiguous))
    });
    let layout = if is_contiguous || source.is_on_host() {
        Layout::contiguous(wanted.dtype, &wanted.shape).into()
    } else {
        source.like(wanted.dtype)
    };
    Ok(smallvec![context.empty(layout)])
}

/// Chances in half precision are cast to single first.
fn bernoulli(context: &mut Context, call: &Call<'_>) -> Outcome {
    let source = call.tensor(0)?;
    let result = context.empty(source.like(source.dtype()));
    let single = vramfit_graph::dtype::Dtype::Float32;
    let cast = source.dtype().is_half().then(|| context.empty(source.like(single)));
    drop(cast);
    let edge = context.record(&[Some(source)], 1, |_| smallvec![], Zeros);
    Ok(smallvec![result.with_edge(edge)])
}

/// What was overwritten gets zeros for a gradient.
#[derive(Debug)]
struct Zeros;

impl Backward for Zeros {
    fn apply(&self, context: &mut Context, _node: &Node, gradients: &mut Gradients) -> Gradients {
        smallvec![gradients[0].as_ref().map(|gradient| context.empty(gradient.like(gradient.dtype())))]
    }
}

fn fill(context: &mut Context, call: &Call<'_>) -> Outcome {
    let target = call.tensor(0)?;
    let edge = context.record(&[Some(target)], 1, |_| smallvec![], Zeros);
    if edge.is_none() { Ok(smallvec![target.clone()]) } else { rebased(target, edge) }
}

/// A copy into a tensor: what was there gets zeros, the source the gradient itself.
#[derive(Debug)]
struct CopiedInto;

impl Backward for CopiedInto {
    fn apply(&self, context: &mut Context, node: &Node, gradients: &mut Gradients) -> Gradients {
        let Some(gradient) = gradients[0].clone() else { return smallvec![None, None] };
        let zeros = node.wants(0).then(|| context.empty(gradient.like(gradient.dtype())));
        smallvec![zeros, node.wants(1).then_some(gradient)]
    }
}

/// Records a copy of `source` into `target`.
pub(super) fn copied_into(context: &mut Context, target: &Tensor, source: &Tensor) -> Option<Edge> {
    context.record(&[Some(target), Some(source)], 1, |_| smallvec![], CopiedInto)
}

fn copy_into(context: &mut Context, call: &Call<'_>) -> Outcome {
    let target = call.tensor(0)?;
    let edge = context.record(&[Some(target), call.optional_tensor(1)], 1, |_| smallvec![], CopiedInto);
    if edge.is_none() { Ok(smallvec![target.clone()]) } else { rebased(target, edge) }
}
