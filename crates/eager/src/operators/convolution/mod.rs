//! Convolutions: which library runs them, in which format, and what each pass allocates.

mod cudnn;
mod flops;
mod geometry;
mod second_order;
mod workspace;

use std::rc::Rc;

use smallvec::smallvec;
use vramfit_graph::dims::Dims;
use vramfit_graph::format::Format;
use vramfit_graph::layout::Layout;

use super::call::{Call, Outcome, Unmodelled, only};
use super::facts::*;
use crate::autograd::{Backward, Context, Gradients, Node, ResultKind, Tensor};
use geometry::{Backend, Geometry};

/// What the family's operators have in common.
const FAMILY: Facts = Facts::of_family(
    Library::Cudnn,
    Launch::LocalMemory,
    Time::ASSUMED,
    Keeps::Inputs,
    Autocast::Lower,
    Samples::First,
);

pub(super) const OPERATORS: &[Operator] = &[
    Operator::new(
        &["aten.conv1d.default", "aten.conv2d.default", "aten.conv3d.default"],
        Facts {
            memory: Modelled(|context, call| convolve(context, call, Geometry::plain(call)?)),
            flops: FlopFormula::Counted(flops::plain),
            time: Time { work: Work::Convolution { is_transposed: false }, dispatch: "conv2d" },
            overwrite: Overwrite::Allowed,
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.conv1d.padding", "aten.conv3d.padding"],
        Facts {
            memory: Modelled(|context, call| convolve(context, call, Geometry::padded_by_name(call)?)),
            flops: FlopFormula::Counted(flops::plain),
            time: Time { work: Work::Convolution { is_transposed: false }, dispatch: "conv2d" },
            autocast: Autocast::Unchanged,
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.conv2d.padding"],
        Facts {
            memory: Modelled(|context, call| convolve(context, call, Geometry::padded_by_name(call)?)),
            flops: FlopFormula::Counted(flops::plain),
            time: Time { work: Work::Convolution { is_transposed: false }, dispatch: "conv2d" },
            autocast: Autocast::Unchanged,
            overwrite: Overwrite::Allowed,
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.conv_transpose1d.default", "aten.conv_transpose3d.input"],
        Facts {
            memory: Modelled(|context, call| convolve(context, call, Geometry::transposed(call)?)),
            flops: FlopFormula::Counted(flops::transposed),
            time: Time { work: Work::Convolution { is_transposed: true }, dispatch: "conv_transpose2d" },
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.conv_transpose2d.input"],
        Facts {
            memory: Modelled(|context, call| convolve(context, call, Geometry::transposed(call)?)),
            flops: FlopFormula::Counted(flops::transposed),
            time: Time { work: Work::Convolution { is_transposed: true }, dispatch: "conv_transpose2d" },
            overwrite: Overwrite::Allowed,
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.convolution.default"],
        Facts {
            memory: Modelled(|context, call| convolve(context, call, Geometry::general(call)?)),
            flops: FlopFormula::Counted(flops::general),
            keeps: Keeps::Nothing,
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.convolution_backward.default"],
        Facts { memory: Modelled(second_order::convolution_backward), autocast: Autocast::Unchanged, ..FAMILY },
    ),
    Operator::new(
        &[
            "aten._conv_depthwise2d.default",
            "aten._convolution.deprecated",
            "aten._convolution_mode.default",
            "aten._mps_convolution.default",
            "aten._mps_convolution_transpose.default",
            "aten._nnpack_spatial_convolution.default",
            "aten._slow_conv2d_forward.default",
            "aten.conv_depthwise3d.default",
            "aten.convolution_overrideable.default",
            "aten.slow_conv3d.default",
            "aten.slow_conv3d_forward.default",
            "aten.slow_conv_dilated2d.default",
            "aten.slow_conv_dilated3d.default",
            "aten.slow_conv_transpose2d.default",
            "aten.slow_conv_transpose3d.default",
            "aten.thnn_conv2d.default",
        ],
        Facts { keeps: Keeps::Nothing, autocast: Autocast::Unchanged, ..FAMILY },
    ),
    Operator::new(&["aten._convolution.default", "aten.conv_tbc.default"], Facts { keeps: Keeps::Nothing, ..FAMILY }),
];

/// Rows are images of height one: `tensor.unsqueeze(2)`.
fn as_image(tensor: &Tensor) -> Tensor {
    if tensor.shape().len() != 3 {
        return tensor.clone();
    }
    let Layout { dtype, shape, strides } = tensor.layout();
    let layout = Layout {
        dtype: *dtype,
        shape: Dims::from([shape[0], shape[1], 1, shape[2]]),
        strides: Dims::from([strides[0], strides[1], shape[2] * strides[2], strides[2]]),
    };
    tensor.unsafe_view(layout)
}

/// An input as the libraries read it. Rows are made contiguous first, whatever runs, so that permuted ones are not taken for
/// images with their channels last (`Convolution.cpp`, in `_convolution` and in `convolution_backward`).
fn input_image(context: &mut Context, input: &Tensor) -> Tensor {
    if input.shape().len() == 3 { as_image(&context.contiguous(input)) } else { input.clone() }
}

/// The way back: `tensor.squeeze(2)`.
fn as_row(tensor: Tensor, rank: usize) -> Tensor {
    if rank != 3 {
        return tensor;
    }
    let Layout { dtype, shape, strides } = tensor.layout();
    let keep = |dims: &Dims| Dims::from([dims[0], dims[1], dims[3]]);
    tensor.unsafe_view(Layout { dtype: *dtype, shape: keep(shape), strides: keep(strides) })
}

fn convolve(context: &mut Context, call: &Call<'_>, geometry: Geometry) -> Outcome {
    let (input, weight, bias) = (call.tensor(0)?, call.tensor(1)?, call.optional_tensor(2));
    let rank = input.shape().len();
    if rank != weight.shape().len() || !(3..=5).contains(&rank) || input.dtype() != weight.dtype() {
        return Err(Unmodelled);
    }
    let mut like = call.result(0)?;
    let geometry = if rank == 3 {
        like = Layout::contiguous(like.dtype, &[like.shape[0], like.shape[1], 1, like.shape[2]]);
        geometry.into_image()
    } else {
        geometry
    };
    let (image, kernel) = (input_image(context, input), as_image(weight));
    let backend = geometry.backend(image.layout(), kernel.layout());
    let results = context.computed(ResultKind::Convolution, |context| {
        let result = compute(context, (&image, &kernel), like, (&geometry, backend));
        smallvec![result]
    });
    drop(kernel);
    drop(image);
    let result = only(Ok(results))?;
    let result = as_row(result, rank);
    let backward = Convolution { geometry, backend };
    let saved = |_: &dyn Fn(usize) -> bool| smallvec![Some(input.clone()), Some(weight.clone())];
    let edge = context.record(&[Some(input), Some(weight), bias], 1, saved, backward);
    Ok(smallvec![result.with_edge(edge)])
}

/// Runs the kernels; the result is `like` this.
fn compute(
    context: &mut Context,
    (image, kernel): (&Tensor, &Tensor),
    like: Layout,
    (geometry, backend): (&Geometry, Backend),
) -> Tensor {
    match backend {
        Backend::Depthwise => {
            let read = context.contiguous_in(image, Format::Contiguous);
            let result = context.empty_contiguous(image.dtype(), &like.shape);
            drop(context.contiguous_in(kernel, Format::Contiguous));
            drop(read);
            result
        }
        Backend::Cudnn => {
            let format = Format::of_convolution(image.layout(), kernel.layout());
            let read = context.contiguous_in(image, format);
            let like = Rc::new(like);
            let result = if geometry.is_transposed {
                cudnn::input_gradient(context, &like, &read, kernel, geometry)
            } else {
                cudnn::forward(context, &like, &read, kernel, geometry)
            };
            drop(read);
            result
        }
    }
}

/// Saved: input and weight. Inputs are the input, the weight and the bias.
#[derive(Debug)]
struct Convolution {
    geometry: Geometry,
    backend: Backend,
}

impl Backward for Convolution {
    fn apply(&self, context: &mut Context, node: &Node, gradients: &mut Gradients) -> Gradients {
        let Some(gradient) = gradients[0].clone() else { return smallvec![None, None, None] };
        let (input, weight) = (node.saved(0), node.saved(1));
        let rank = input.shape().len();
        let gradient = as_image(&gradient);
        let (image, kernel) = (input_image(context, &input), as_image(&weight));
        let (input_gradient, weight_gradient) = match self.backend {
            Backend::Depthwise if rank == 5 => depthwise_volume(context, node, &gradient, &image, &kernel),
            Backend::Depthwise => depthwise(context, node, &gradient, &image, &kernel),
            Backend::Cudnn => cudnn::gradients(context, node, &gradient, &image, &kernel, &self.geometry),
        };
        let bias_gradient = node.wants(2).then(|| {
            let dims: Dims = std::iter::once(0).chain(2..gradient.shape().len() as i64).collect();
            context.sum(&gradient, &dims, false, gradient.dtype())
        });
        smallvec![
            input_gradient.map(|tensor| as_row(tensor, rank)),
            weight_gradient.map(|tensor| as_row(tensor, rank)),
            bias_gradient
        ]
    }
}

/// PyTorch's own kernels, which find the weight's gradient first.
fn depthwise(
    context: &mut Context,
    node: &Node,
    gradient: &Tensor,
    image: &Tensor,
    kernel: &Tensor,
) -> (Option<Tensor>, Option<Tensor>) {
    let image = context.contiguous_in(image, Format::Contiguous);
    let of_weight = node.wants(1).then(|| {
        let result = context.empty_contiguous(gradient.dtype(), kernel.shape());
        let read = context.contiguous_in(gradient, Format::Contiguous);
        drop(read);
        result
    });
    let of_input = node.wants(0).then(|| {
        let read = context.contiguous_in(gradient, Format::Contiguous);
        let result = context.empty_contiguous(gradient.dtype(), image.shape());
        drop(read);
        result
    });
    drop(image);
    (of_input, of_weight)
}

/// The same for volumes (`DepthwiseConv3d.cu`), which makes room for both gradients first.
fn depthwise_volume(
    context: &mut Context,
    node: &Node,
    gradient: &Tensor,
    image: &Tensor,
    kernel: &Tensor,
) -> (Option<Tensor>, Option<Tensor>) {
    let image = context.contiguous_in(image, Format::Contiguous);
    let of_input = node.wants(0).then(|| context.empty_contiguous(gradient.dtype(), image.shape()));
    let of_weight = node.wants(1).then(|| context.empty_contiguous(gradient.dtype(), kernel.shape()));
    let read = context.contiguous_in(gradient, Format::Contiguous);
    let weight = context.contiguous_in(kernel, Format::Contiguous);
    drop((weight, read, image));
    (of_input, of_weight)
}
