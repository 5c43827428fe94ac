//! cuDNN's three convolutions. A transposed convolution's forward pass is the gradient of an input, and so on.

use super::geometry::Geometry;
use super::problem::{Pass, Problem};
use super::workspace;
use crate::format::Format;
use crate::ops::Context;
use crate::tape::Node;
use crate::tensor::Tensor;

/// Runs one of them: `image` and `result` are the two ends of the convolution, whichever is given.
fn run(
    context: &mut Context,
    pass: Pass,
    image: &Tensor,
    result: &Tensor,
    weight: &[i64],
    geometry: &Geometry,
    format: Format,
) {
    let problem = Problem {
        pass,
        dtype: image.dtype(),
        format,
        image: image.shape().into(),
        result: result.shape().into(),
        weight: weight.into(),
        stride: geometry.stride.clone(),
        dilation: geometry.dilation.clone(),
        groups: geometry.groups,
    };
    workspace::take(context, &problem);
}

/// `cudnn_convolution_forward`.
pub(super) fn forward(
    context: &mut Context,
    shape: &[i64],
    input: &Tensor,
    weight: &Tensor,
    geometry: &Geometry,
) -> Tensor {
    let format = Format::of_convolution(input.layout(), weight.layout());
    let result = context.empty(format.layout(input.dtype(), shape));
    let kernel = context.contiguous_in(weight, format);
    let image = context.contiguous_in(input, format);
    run(context, Pass::Forward, &image, &result, weight.shape(), geometry, format);
    drop(image);
    drop(kernel);
    result
}

/// `cudnn_convolution_backward_input`.
pub(super) fn input_gradient(
    context: &mut Context,
    shape: &[i64],
    gradient: &Tensor,
    weight: &Tensor,
    geometry: &Geometry,
) -> Tensor {
    let format = Format::of_convolution(gradient.layout(), weight.layout());
    let result = context.empty(format.layout(gradient.dtype(), shape));
    let kernel = context.contiguous_in(weight, format);
    let incoming = context.contiguous_in(gradient, format);
    run(context, Pass::InputGradient, &result, &incoming, weight.shape(), geometry, format);
    drop(incoming);
    drop(kernel);
    result
}

/// `cudnn_convolution_backward_weight`.
pub(super) fn weight_gradient(
    context: &mut Context,
    shape: &[i64],
    gradient: &Tensor,
    input: &Tensor,
    geometry: &Geometry,
) -> Tensor {
    let format = Format::of_convolution(input.layout(), gradient.layout());
    let incoming = context.contiguous_in(gradient, format);
    let image = context.contiguous_in(input, format);
    let result = context.empty(format.layout(gradient.dtype(), shape));
    run(context, Pass::WeightGradient, &image, &incoming, shape, geometry, format);
    drop(image);
    drop(incoming);
    result
}

/// Both gradients, the input's first.
pub(super) fn gradients(
    context: &mut Context,
    node: &Node,
    gradient: &Tensor,
    image: &Tensor,
    kernel: &Tensor,
    geometry: &Geometry,
) -> (Option<Tensor>, Option<Tensor>) {
    let format = Format::of_convolution(image.layout(), kernel.layout());
    let read = if node.wants(1) { context.contiguous_in(image, format) } else { image.clone() };
    // A transposed one wants its gradient in the input's format; for others one that suggests it is left as it lies.
    let wanted = Format::suggested(read.layout());
    let incoming = match !geometry.is_transposed && Format::suggested(gradient.layout()) == wanted {
        true => gradient.clone(),
        false => context.contiguous_in(gradient, wanted),
    };
    let of_input = node.wants(0).then(|| {
        if geometry.is_transposed {
            forward(context, image.shape(), &incoming, kernel, geometry)
        } else {
            input_gradient(context, image.shape(), &incoming, kernel, geometry)
        }
    });
    let of_weight = node.wants(1).then(|| {
        if geometry.is_transposed {
            weight_gradient(context, kernel.shape(), &read, &incoming, geometry)
        } else {
            weight_gradient(context, kernel.shape(), &incoming, &read, geometry)
        }
    });
    drop(incoming);
    drop(read);
    (of_input, of_weight)
}
