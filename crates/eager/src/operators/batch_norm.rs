//! Batch norm and instance norm: cuDNN's kernels, or PyTorch's own where types or shapes ask for them.

use std::rc::Rc;

use smallvec::smallvec;
use vramfit_graph::dims::Dims;
use vramfit_graph::dtype::Dtype;
use vramfit_graph::format::Format;
use vramfit_graph::layout::Layout;

use super::call::{Call, Outcome, Unmodelled, only};
use super::facts::*;
use super::view::{reshaped_by_view, view_strides};
use crate::autograd::{Backward, Context, Gradients, Node, Tensor};
use crate::kernels::accumulator::accumulator_dtype;
use crate::kernels::batch_norm as kernels;
use crate::kernels::batch_norm::Pass;

/// What the family's operators have in common.
const FAMILY: Facts = Facts {
    effect: Effect::UpdatesStatistics,
    ..Facts::of_family(
        Library::Own,
        Launch::LocalMemory,
        Time::moves("batch_norm", Extent::Larger),
        Keeps::Results,
        Autocast::Unchanged,
        Samples::First,
    )
};

pub(super) const OPERATORS: &[Operator] = &[
    Operator::new(
        &["aten.batch_norm.default"],
        Facts {
            memory: Modelled(batch_norm),
            overwrite: Overwrite::Allowed,
            evaluation: Evaluation::Unsets("training"),
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.instance_norm.default"],
        Facts { memory: Modelled(instance_norm), hides_base: HidesBase::Always, ..FAMILY },
    ),
    Operator::new(
        &[
            "aten.batch_norm_elemt.default",
            "aten.batch_norm_gather_stats.default",
            "aten.batch_norm_gather_stats_with_counts.default",
            "aten.batch_norm_stats.default",
            "aten.batch_norm_update_stats.default",
        ],
        Facts { time: Time::ASSUMED, keeps: Keeps::Nothing, ..FAMILY },
    ),
    Operator::new(
        &["aten.native_batch_norm.default"],
        Facts {
            time: Time::ASSUMED,
            keeps: Keeps::Nothing,
            effect: Effect::ReadsOnly,
            evaluation: Evaluation::Unsets("training"),
            ..FAMILY
        },
    ),
];

/// What is normalized, beside the input.
struct Arguments<'a> {
    weight: Option<&'a Tensor>,
    bias: Option<&'a Tensor>,
    running: [Option<&'a Tensor>; 2],
    is_training: bool,
    is_cudnn_enabled: bool,
}

/// Who normalizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Backend {
    Cudnn,
    Native,
}

impl Arguments<'_> {
    /// `_batch_norm_impl_index`. A bfloat16 tensor is never cuDNN's, a float16 one only with float32 weights.
    fn backend(&self, input: &Tensor) -> Backend {
        let (Some(weight), Some(_)) = (self.weight, self.bias) else { return Backend::Native };
        let suits = match (input.dtype(), weight.dtype()) {
            (Dtype::Bfloat16, _) | (_, Dtype::Bfloat16) => false,
            (Dtype::Float16, weight) => weight == Dtype::Float32,
            _ => true,
        };
        let most = if self.is_training { 880_801 } else { 65_535 };
        let is_cudnn = self.is_cudnn_enabled
            && suits
            && (self.running[0].is_some() || self.is_training)
            && input.shape().len() >= 3
            && input.shape()[0] <= most;
        if is_cudnn { Backend::Cudnn } else { Backend::Native }
    }
}

/// `batch_norm_use_channels_last_kernels`.
fn is_channels_last(layout: &Layout) -> bool {
    let is_image = matches!(layout.shape.len(), 4 | 5);
    (is_image && Format::ChannelsLast.is_kept_by(layout)) || (layout.is_contiguous() && layout.strides[1] == 1)
}

fn normalized(context: &mut Context, input: &Tensor, arguments: &Arguments<'_>) -> Result<Tensor, Unmodelled> {
    let channels = *input.shape().get(1).ok_or(Unmodelled)?;
    let backend = arguments.backend(input);
    let statistics = accumulator_dtype(input.dtype());
    let (source, result, kept) = match backend {
        Backend::Cudnn => {
            let format = Format::suggested(input.layout());
            let source = super::copy::in_format(context, input, format);
            let result = context.empty(format.layout_like(input.dtype(), &input.shared_layout()));
            let kept = arguments.is_training.then(|| {
                let kept = pair(context, Dtype::Float32, channels);
                if format == Format::ChannelsLast {
                    drop(context.scratch(kernels::workspace(Pass::Forward, source.layout())));
                }
                kept
            });
            (source, result, kept)
        }
        Backend::Native => {
            let result = context.empty(input.like(input.dtype()));
            let kept = pair(context, statistics, channels);
            if arguments.is_training && is_channels_last(input.layout()) {
                staging(context, input, channels, 4);
            }
            (input.clone(), result, Some(kept))
        }
    };
    let backward =
        BatchNorm { backend, is_training: arguments.is_training, weight: arguments.weight.map(Tensor::shared_layout) };
    let edge = context.record(
        &[Some(&source), arguments.weight, arguments.bias],
        1,
        |_| {
            let mut saved = smallvec![Some(source.clone()), arguments.weight.cloned()];
            saved.extend(arguments.running.map(|running| running.cloned()));
            saved.extend(kept.iter().flatten().map(|statistic| Some(statistic.detach())));
            saved
        },
        backward,
    );
    for statistic in kept.into_iter().flatten() {
        drop(statistic);
    }
    Ok(result.with_edge(edge))
}

/// A number for each channel, twice: a mean and a variance, or two sums.
fn pair(context: &Context, dtype: Dtype, channels: i64) -> [Tensor; 2] {
    let layout = Rc::new(Layout::contiguous(dtype, &[channels]));
    [context.empty(Rc::clone(&layout)), context.empty(layout)]
}

/// The buffers of a channels-last kernel whose rows are split over several blocks of threads: `width` numbers for each
/// channel and part, and a semaphore for each group of channels.
fn staging(context: &mut Context, input: &Tensor, channels: i64, width: i64) {
    let rows = input.layout().elements() / channels.max(1);
    if let Some(split) = kernels::split(rows, channels) {
        let parts = context.scratch((width * channels * split.parts * 4).unsigned_abs());
        let semaphores = context.scratch((split.groups * 4).unsigned_abs());
        drop(semaphores);
        drop(parts);
    }
}

/// Saved: the input, the weight, the running statistics, then those of this batch where there are some.
#[derive(Debug)]
struct BatchNorm {
    backend: Backend,
    is_training: bool,
    weight: Option<Rc<Layout>>,
}

impl BatchNorm {
    fn parameter(&self, context: &Context, is_wanted: bool) -> Option<Tensor> {
        let weight = self.weight.as_ref().filter(|_| is_wanted)?;
        Some(context.empty(Format::Contiguous.layout_like(weight.dtype, weight)))
    }

    fn cudnn(&self, context: &mut Context, gradient: &Tensor, input: &Tensor) -> Gradients {
        let format = Format::suggested(input.layout());
        let incoming = context.contiguous_in(gradient, format);
        let result = context.empty(format.layout_like(gradient.dtype(), &input.shared_layout()));
        let weight = self.parameter(context, true);
        let bias = self.parameter(context, true);
        if format == Format::ChannelsLast {
            drop(context.scratch(kernels::workspace(Pass::Backward, input.layout())));
        }
        drop(incoming);
        smallvec![Some(result), weight, bias]
    }

    /// The gradients of the input, the weight and the bias that are wanted.
    fn gradients(&self, context: &mut Context, wants: [bool; 3], gradient: &Tensor, input: &Tensor) -> Gradients {
        if self.backend == Backend::Cudnn && self.is_training {
            return self.cudnn(context, gradient, input);
        }
        if self.reduces(wants) && wants[0] && !is_channels_last(input.layout()) {
            return self.fused(context, wants, gradient, input);
        }
        self.apart(context, wants, gradient, input)
    }

    /// Whether sums over the batch are needed.
    fn reduces(&self, wants: [bool; 3]) -> bool {
        self.is_training || wants[1] || wants[2]
    }

    /// Sums first, then the input's gradient.
    fn apart(&self, context: &mut Context, wants: [bool; 3], gradient: &Tensor, input: &Tensor) -> Gradients {
        let channels = input.shape()[1];
        let statistics = accumulator_dtype(input.dtype());
        // cuDNN's evaluation saves no statistics: the inverse deviation is computed from the running variance again.
        let deviation = (self.backend == Backend::Cudnn && !self.is_training)
            .then(|| context.empty_contiguous(statistics, &[channels]));
        let sums = self.reduces(wants).then(|| {
            let sums = pair(context, statistics, channels);
            let weight = self.parameter(context, wants[1]);
            let bias = self.parameter(context, wants[2]);
            if is_channels_last(gradient.layout()) {
                staging(context, input, channels, 2);
            }
            (sums, weight, bias)
        });
        let result = wants[0].then(|| context.empty(input.like(gradient.dtype())));
        let (weight, bias) = match sums {
            Some(([first, second], weight, bias)) => {
                drop(second);
                drop(first);
                (weight, bias)
            }
            None => (None, None),
        };
        drop(deviation);
        smallvec![result, weight, bias]
    }

    /// One kernel for everything, on the input seen as batch, channels and the rest.
    fn fused(&self, context: &mut Context, wants: [bool; 3], gradient: &Tensor, input: &Tensor) -> Gradients {
        let (batch, channels) = (input.shape()[0], input.shape()[1]);
        let shape = [batch, channels, input.layout().elements() / (batch * channels).max(1)];
        let incoming = match view_strides(gradient.layout(), &shape) {
            Some(_) => gradient.clone(),
            None => context.contiguous(gradient),
        };
        let result = context.empty_contiguous(gradient.dtype(), input.shape());
        let weight = self.parameter(context, wants[1]);
        let bias = self.parameter(context, wants[2]);
        drop(incoming);
        smallvec![Some(result), weight, bias]
    }
}

impl Backward for BatchNorm {
    fn apply(&self, context: &mut Context, node: &Node, gradients: &mut Gradients) -> Gradients {
        let Some(gradient) = gradients[0].clone() else { return smallvec![None, None, None] };
        self.gradients(context, [0, 1, 2].map(|index| node.wants(index)), &gradient, &node.saved(0))
    }
}

/// What `native_batch_norm_backward` makes.
pub(super) fn gradients(context: &mut Context, call: &Call<'_>) -> Result<Gradients, Unmodelled> {
    let (gradient, input, weight) = (call.tensor(0)?, call.tensor(1)?, call.optional_tensor(2));
    // A weight comes with a bias, which its gradients do not need.
    let arguments = Arguments {
        weight,
        bias: weight,
        running: [call.optional_tensor(3), call.optional_tensor(4)],
        is_training: call.bool(7)?,
        is_cudnn_enabled: true,
    };
    let backward = BatchNorm {
        backend: arguments.backend(input),
        is_training: arguments.is_training,
        weight: weight.map(Tensor::shared_layout),
    };
    Ok(backward.gradients(context, call.mask(9)?, gradient, input))
}

fn batch_norm(context: &mut Context, call: &Call<'_>) -> Outcome {
    let arguments = Arguments {
        weight: call.optional_tensor(1),
        bias: call.optional_tensor(2),
        running: [call.optional_tensor(3), call.optional_tensor(4)],
        is_training: call.bool(5)?,
        is_cudnn_enabled: call.bool(8).unwrap_or(true),
    };
    Ok(smallvec![normalized(context, call.tensor(0)?, &arguments)?])
}

/// Every image's channels are channels of one batch; weights are repeated.
fn instance_norm(context: &mut Context, call: &Call<'_>) -> Outcome {
    let input = call.tensor(0)?;
    let &[batch, channels, ..] = input.shape() else { return Err(Unmodelled) };
    let uses_input = call.bool(5)?;
    let repeat = |context: &mut Context, index: usize| {
        call.optional_tensor(index).map(|tensor| super::rearranging::repeated(context, tensor, &[batch]))
    };
    let weight = repeat(context, 1);
    let bias = repeat(context, 2);
    let running = (repeat(context, 3), repeat(context, 4));
    let mut shape: Dims = input.shape().into();
    shape[0] = 1;
    shape[1] = batch * channels;
    let plain = super::copy::contiguous_of(context, input);
    let seen = only(reshaped_by_view(context, &plain, &shape))?;
    drop(plain);
    let arguments = Arguments {
        weight: weight.as_ref(),
        bias: bias.as_ref(),
        running: [running.0.as_ref(), running.1.as_ref()],
        is_training: uses_input,
        is_cudnn_enabled: call.bool(8).unwrap_or(true),
    };
    let result = normalized(context, &seen, &arguments)?;
    drop(seen);
    for running in [&running.0, &running.1].into_iter().flatten() {
        let seen = running.unsafe_view(Layout::contiguous(running.dtype(), &[batch, channels]));
        drop(context.sum(&seen, &[0], false, running.dtype()));
    }
    let outcome = reshaped_by_view(context, &result, input.shape());
    drop(result);
    drop(running.1);
    drop(running.0);
    drop(bias);
    drop(weight);
    outcome
}
