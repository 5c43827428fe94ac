//! Activations: one result, and one tensor saved for the gradient.

use smallvec::smallvec;

use super::pointwise::{Elementwise, KERNEL_OF_INPUT, KERNEL_OF_RESULT, Save, elementwise, run, run_in_place};
use super::{Call, Context, Outcome, Rule, Unmodelled};
use crate::autograd::Tensor;
use crate::autograd::{Backward, Gradients, Node};
use vramfit_graph::dims::Dims;
use vramfit_graph::layout::Layout;

pub(super) fn rule(name: &str) -> Option<Rule> {
    Some(match name {
        "aten.gelu.default"
        | "aten.silu.default"
        | "aten.leaky_relu.default"
        | "aten.elu.default"
        | "aten.hardtanh.default"
        | "aten.relu6.default"
        | "aten.hardswish.default"
        | "aten.hardsigmoid.default"
        | "aten.hardshrink.default"
        | "aten.softshrink.default"
        | "aten.threshold.default"
        | "aten.mish.default"
        | "aten.softplus.default"
        | "aten.celu.default"
        | "aten.selu.default"
        | "aten.log_sigmoid.default" => |context, call| run(context, call, &KERNEL_OF_INPUT),
        // These find the gradient from what they wrote, the others from a copy of what they overwrote.
        "aten.elu_.default" | "aten.celu_.default" | "aten.selu_.default" | "aten.leaky_relu_.default" => {
            |context, call| run_in_place(context, call, &KERNEL_OF_RESULT)
        }
        "aten.silu_.default"
        | "aten.hardtanh_.default"
        | "aten.relu6_.default"
        | "aten.hardswish_.default"
        | "aten.hardsigmoid_.default"
        | "aten.threshold_.default"
        | "aten.mish_.default"
        | "aten.gelu_.default" => |context, call| run_in_place(context, call, &KERNEL_OF_INPUT),
        "aten.glu.default" => glu,
        "aten.prelu.default" => prelu,
        "aten.rrelu_with_noise.default" => rrelu_with_noise,
        "aten.rrelu.default" => rrelu,
        "aten.rrelu_.default" => rrelu_in_place,
        _ => return None,
    })
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
