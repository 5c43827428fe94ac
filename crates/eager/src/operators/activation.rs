//! Activations: one result, and one tensor saved for the gradient.

use smallvec::smallvec;
use vramfit_graph::dims::Dims;
use vramfit_graph::layout::Layout;

use super::call::{Call, Outcome, Unmodelled};
use super::facts::*;
use super::pointwise::{
    Elementwise, KERNEL_OF_INPUT, KERNEL_OF_RESULT, RECTIFIED_INPUT, RECTIFIED_RESULT, Save, elementwise, run,
    run_in_place,
};
use crate::autograd::{Backward, Context, Gradients, Node, Tensor};

/// What the family's operators have in common.
const FAMILY: Facts = Facts::of_family(
    Library::Own,
    Launch::LocalMemory,
    Time::moves("hardswish", Extent::Larger),
    Keeps::Nothing,
    Autocast::Unchanged,
    Samples::Apart,
);

/// What those have in common that write into their first argument.
const IN_PLACE: Facts = Facts { effect: Effect::WritesFirst, ..FAMILY };

pub(super) const OPERATORS: &[Operator] = &[
    Operator::new(
        &["aten.gelu.default"],
        Facts {
            memory: Modelled(from_input),
            time: Time::moves("gelu", Extent::Larger),
            keeps: Keeps::Inputs,
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.silu.default"],
        Facts {
            memory: Modelled(from_input),
            time: Time::moves("silu", Extent::Larger),
            keeps: Keeps::Inputs,
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.leaky_relu.default"],
        Facts {
            memory: Modelled(rectified),
            keeps: Keeps::Inputs,
            activation: Some(Activation { module: "LeakyReLU", in_place: "aten.leaky_relu_.default" }),
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.elu.default"],
        Facts {
            memory: Modelled(from_input),
            keeps: Keeps::Results,
            activation: Some(Activation { module: "ELU", in_place: "aten.elu_.default" }),
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.hardtanh.default", "aten.hardswish.default", "aten.hardsigmoid.default", "aten.mish.default"],
        Facts { memory: Modelled(from_input), keeps: Keeps::Inputs, ..FAMILY },
    ),
    Operator::new(&["aten.relu6.default"], Facts { memory: Modelled(from_input), ..FAMILY }),
    Operator::new(
        &["aten.hardshrink.default", "aten.softshrink.default"],
        Facts { memory: Modelled(from_input), time: Time::ASSUMED, ..FAMILY },
    ),
    Operator::new(
        &["aten.threshold.default"],
        Facts { memory: Modelled(rectified), time: Time::moves("relu", Extent::Larger), ..FAMILY },
    ),
    Operator::new(
        &["aten.softplus.default"],
        Facts { memory: Modelled(from_input), keeps: Keeps::Inputs, autocast: Autocast::Single, ..FAMILY },
    ),
    Operator::new(
        &["aten.celu.default"],
        Facts {
            memory: Modelled(from_input),
            activation: Some(Activation { module: "CELU", in_place: "aten.celu_.default" }),
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.selu.default"],
        Facts {
            memory: Modelled(from_input),
            keeps: Keeps::Results,
            activation: Some(Activation { module: "SELU", in_place: "aten.selu_.default" }),
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.log_sigmoid.default"],
        Facts { memory: Modelled(from_input), keeps: Keeps::Results, ..FAMILY },
    ),
    Operator::new(
        &["aten.elu_.default", "aten.selu_.default"],
        Facts { memory: Modelled(from_result_in_place), keeps: Keeps::Results, ..IN_PLACE },
    ),
    Operator::new(&["aten.celu_.default"], Facts { memory: Modelled(from_result_in_place), ..IN_PLACE }),
    Operator::new(
        &["aten.leaky_relu_.default"],
        Facts { memory: Modelled(leaky_relu_in_place), keeps: Keeps::Inputs, ..IN_PLACE },
    ),
    Operator::new(
        &["aten.silu_.default"],
        Facts {
            memory: Modelled(from_input_in_place),
            time: Time::moves("silu", Extent::Larger),
            keeps: Keeps::Inputs,
            ..IN_PLACE
        },
    ),
    Operator::new(
        &["aten.hardtanh_.default", "aten.hardswish_.default", "aten.hardsigmoid_.default", "aten.mish_.default"],
        Facts { memory: Modelled(from_input_in_place), keeps: Keeps::Inputs, ..IN_PLACE },
    ),
    Operator::new(&["aten.relu6_.default"], Facts { memory: Modelled(from_input_in_place), ..IN_PLACE }),
    Operator::new(
        &["aten.threshold_.default"],
        Facts { memory: Modelled(threshold_in_place), time: Time::moves("relu", Extent::Larger), ..IN_PLACE },
    ),
    Operator::new(
        &["aten.gelu_.default"],
        Facts {
            memory: Modelled(from_input_in_place),
            time: Time::moves("gelu", Extent::Larger),
            keeps: Keeps::Inputs,
            ..IN_PLACE
        },
    ),
    Operator::new(&["aten.glu.default"], Facts { memory: Modelled(glu), time: Time::ASSUMED, ..FAMILY }),
    Operator::new(
        &["aten.prelu.default"],
        Facts { memory: Modelled(prelu), keeps: Keeps::Inputs, autocast: Autocast::Lower, ..FAMILY },
    ),
    Operator::new(
        &["aten.rrelu_with_noise.default"],
        Facts { memory: Modelled(rrelu_with_noise), time: Time::ASSUMED, ..FAMILY },
    ),
    Operator::new(
        &["aten.rrelu.default"],
        Facts { memory: Modelled(rrelu), time: Time::ASSUMED, evaluation: Evaluation::Unsets("training"), ..FAMILY },
    ),
    Operator::new(
        &["aten.rrelu_.default"],
        Facts { memory: Modelled(rrelu_in_place), time: Time::ASSUMED, ..IN_PLACE },
    ),
];

/// The gradient is found from the input.
fn from_input(context: &mut Context, call: &Call<'_>) -> Outcome {
    run(context, call, &KERNEL_OF_INPUT)
}

/// The same, from a copy of the input that is overwritten.
fn from_input_in_place(context: &mut Context, call: &Call<'_>) -> Outcome {
    run_in_place(context, call, &KERNEL_OF_INPUT)
}

/// The gradient is found from what was written.
fn from_result_in_place(context: &mut Context, call: &Call<'_>) -> Outcome {
    run_in_place(context, call, &KERNEL_OF_RESULT)
}

/// From the input, as which the gradient lies.
fn rectified(context: &mut Context, call: &Call<'_>) -> Outcome {
    run(context, call, &RECTIFIED_INPUT)
}

fn threshold_in_place(context: &mut Context, call: &Call<'_>) -> Outcome {
    run_in_place(context, call, &RECTIFIED_INPUT)
}

fn leaky_relu_in_place(context: &mut Context, call: &Call<'_>) -> Outcome {
    run_in_place(context, call, &RECTIFIED_RESULT)
}

/// The first half times the sigmoid of the second.
fn glu(context: &mut Context, call: &Call<'_>) -> Outcome {
    #[derive(Debug)]
    struct Glu;
    impl Backward for Glu {
        fn apply(&self, context: &mut Context, node: &Node, _gradients: &mut Gradients) -> Gradients {
            let source = node.saved(0);
            smallvec![Some(context.empty_contiguous(source.dtype(), source.shape()))]
        }
    }
    let source = call.tensor(0)?;
    let rank = source.shape().len();
    let dim = if call.is_none(1) { rank - 1 } else { call.dim(1, rank)? };
    let mut half = source.layout().clone();
    half.shape[dim] /= 2;
    let layout = Layout::broadcast(&[&half], source.dtype());
    let result = context.empty(layout);
    let edge = context.record(&[Some(source)], 1, |_| smallvec![Some(source.clone())], Glu);
    Ok(smallvec![result.with_edge(edge)])
}

/// A learned slope: the weight's gradient is as large as the input's, then summed.
fn prelu(context: &mut Context, call: &Call<'_>) -> Outcome {
    #[derive(Debug)]
    struct Prelu;
    impl Backward for Prelu {
        fn apply(&self, context: &mut Context, node: &Node, gradients: &mut Gradients) -> Gradients {
            let (source, weight) = (node.saved(0), node.saved(1));
            let Some(gradient) = gradients[0].as_ref() else { return smallvec![None, None] };
            let one = elementwise(context, &[&source, &weight, gradient], source.dtype());
            let other = elementwise(context, &[&source, &weight, gradient], source.dtype());
            smallvec![Some(one), Some(other)]
        }
    }
    let (source, weight) = (call.tensor(0)?, call.tensor(1)?);
    let rank = source.shape().len();
    // A weight for each channel is seen as a tensor of the input's rank.
    let mut seen = weight.clone();
    if rank != 1 || weight.shape().len() != 1 {
        let mut shape = Dims::filled(1, rank);
        if rank > 1 {
            shape[1] = *weight.shape().first().ok_or(Unmodelled)?;
        }
        if weight.layout().elements() == 1 || rank > 1 {
            seen = super::view::reshape_to(context, weight, &shape)?.pop().ok_or(Unmodelled)?;
        }
    }
    let result = elementwise(context, &[source, &seen], source.dtype());
    let edge =
        context.record(&[Some(source), Some(&seen)], 1, |_| smallvec![Some(source.clone()), Some(seen.clone())], Prelu);
    Ok(smallvec![result.with_edge(edge)])
}

static RRELU: Elementwise = Elementwise {
    inputs: &[0, 1],
    saves: &[Save::Input(1), Save::Input(0)],
    gradients: super::pointwise::KERNEL_OF_BOTH,
};

/// A random slope, kept as noise.
fn rrelu_with_noise(context: &mut Context, call: &Call<'_>) -> Outcome {
    run(context, call, &RRELU)
}

/// The same with noise of its own, which is there in evaluation too.
fn rrelu(context: &mut Context, call: &Call<'_>) -> Outcome {
    let source = call.tensor(0)?;
    let noise = context.empty(Layout::like(source.layout(), source.dtype()));
    let result = elementwise(context, &[source], source.dtype());
    let inputs: [Option<&Tensor>; 2] = [Some(source), Some(&noise)];
    let edge = super::pointwise::record(context, &inputs, &inputs, &result, &RRELU);
    Ok(smallvec![result.with_edge(edge)])
}

fn rrelu_in_place(context: &mut Context, call: &Call<'_>) -> Outcome {
    static IN_PLACE: Elementwise = Elementwise {
        inputs: &[0, 1],
        saves: &[Save::Input(1), Save::Result],
        gradients: super::pointwise::KERNEL_OF_BOTH,
    };
    let source = call.tensor(0)?;
    let noise = context.empty(Layout::like(source.layout(), source.dtype()));
    let inputs: [Option<&Tensor>; 2] = [Some(source), Some(&noise)];
    let edge = super::pointwise::record(context, &inputs, &inputs, source, &IN_PLACE);
    if edge.is_none() { Ok(smallvec![source.clone()]) } else { super::pointwise::rebased(source, edge) }
}
