//! cuDNN's three convolutions. A transposed convolution's forward pass is the gradient of an input, and so on.

use std::rc::Rc;

use vramfit_cudnn::convolution::{ConvolutionPass, ConvolutionProblem};
use vramfit_graph::dims::Dims;
use vramfit_graph::format::Format;
use vramfit_graph::layout::Layout;

use super::geometry::Geometry;
use super::workspace;
use crate::autograd::{Context, Node, Tensor};

/// Runs one of them: `image` and `result` are the two ends of the convolution, whichever is given.
fn run(
    context: &mut Context,
    pass: ConvolutionPass,
    image: &Tensor,
    result: &Tensor,
    weight: &Dims,
    geometry: &Geometry,
    format: Format,
) {
    let problem = ConvolutionProblem {
        pass,
        dtype: image.dtype(),
        format,
        image: image.layout().shape.clone(),
        result: result.layout().shape.clone(),
        weight: weight.clone(),
        stride: geometry.stride.clone(),
        padding: geometry.padding.clone(),
        dilation: geometry.dilation.clone(),
        groups: geometry.groups,
    };
    context.use_dnn_handle();
    workspace::take(context, &problem);
}

/// `cudnn_convolution_forward`; the result has the shape of `like`.
pub(super) fn forward(
    context: &mut Context,
    like: &Rc<Layout>,
    input: &Tensor,
    weight: &Tensor,
    geometry: &Geometry,
) -> Tensor {
    let made_in = Format::of_convolution(input.layout(), weight.layout());
    let result = context.empty(made_in.layout_like(input.dtype(), like));
    // It runs in the format that its result suggests. A result of single numbers has both formats and suggests the first.
    let format = Format::suggested(result.layout());
    let kernel = context.contiguous_in(weight, format);
    let image = context.contiguous_in(input, format);
    run(context, ConvolutionPass::Forward, &image, &result, &weight.layout().shape, geometry, format);
    drop(image);
    drop(kernel);
    result
}

/// `cudnn_convolution_backward_input`; the result has the shape of `like`.
pub(super) fn input_gradient(
    context: &mut Context,
    like: &Rc<Layout>,
    gradient: &Tensor,
    weight: &Tensor,
    geometry: &Geometry,
) -> Tensor {
    let format = Format::of_convolution(gradient.layout(), weight.layout());
    let result = context.empty(format.layout_like(gradient.dtype(), like));
    let kernel = context.contiguous_in(weight, format);
    let incoming = context.contiguous_in(gradient, format);
    run(context, ConvolutionPass::InputGradient, &result, &incoming, &weight.layout().shape, geometry, format);
    drop(incoming);
    drop(kernel);
    result
}

/// `cudnn_convolution_backward_weight`.
pub(super) fn weight_gradient(
    context: &mut Context,
    weight: &Tensor,
    gradient: &Tensor,
    input: &Tensor,
    geometry: &Geometry,
) -> Tensor {
    let format = Format::of_convolution(input.layout(), gradient.layout());
    let incoming = context.contiguous_in(gradient, format);
    let image = context.contiguous_in(input, format);
    let result = context.empty(format.layout_like(gradient.dtype(), &weight.shared_layout()));
    run(context, ConvolutionPass::WeightGradient, &image, &incoming, &weight.layout().shape, geometry, format);
    drop(image);
    drop(incoming);
    result
}

/// Both gradients of a node, the input's first.
pub(super) fn gradients(
    context: &mut Context,
    node: &Node,
    gradient: &Tensor,
    image: &Tensor,
    kernel: &Tensor,
    geometry: &Geometry,
) -> (Option<Tensor>, Option<Tensor>) {
    gradients_of(context, [node.wants(0), node.wants(1)], gradient, image, kernel, geometry)
}

/// The gradients of the input and of the weight, as far as they are wanted.
pub(super) fn gradients_of(
    context: &mut Context,
    [wants_input, wants_weight]: [bool; 2],
    gradient: &Tensor,
    image: &Tensor,
    kernel: &Tensor,
    geometry: &Geometry,
) -> (Option<Tensor>, Option<Tensor>) {
    let format = Format::of_convolution(image.layout(), kernel.layout());
    let read = if wants_weight { context.contiguous_in(image, format) } else { image.clone() };
    // A transposed convolution needs its gradient in the input's format (`contiguous`). Others use a gradient that suggests the
    // format as it is and copy any other (`to`), even one that has both formats: with one channel or one pixel.
    let wanted = Format::suggested(read.layout());
    let incoming = if geometry.is_transposed {
        context.contiguous_in(gradient, wanted)
    } else if Format::suggested(gradient.layout()) == wanted {
        gradient.clone()
    } else {
        context.empty(wanted.layout(gradient.dtype(), gradient.shape()))
    };
    let of_input = wants_input.then(|| {
        if geometry.is_transposed {
            forward(context, &image.shared_layout(), &incoming, kernel, geometry)
        } else {
            input_gradient(context, &image.shared_layout(), &incoming, kernel, geometry)
        }
    });
    let of_weight = wants_weight.then(|| {
        if geometry.is_transposed {
            weight_gradient(context, kernel, &read, &incoming, geometry)
        } else {
            weight_gradient(context, kernel, &incoming, &read, geometry)
        }
    });
    drop(incoming);
    drop(read);
    (of_input, of_weight)
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use vramfit_graph::dtype::Dtype;

    use super::*;
    use crate::machine::H200;
    use crate::memory::{Entry, Memory};

    #[test]
    fn a_layer_whose_result_is_one_number_a_sample_runs_in_the_first_layout_as_a_gpu_ran_it() {
        let memory = Rc::new(RefCell::new(Memory::new()));
        let mut context = Context::new(Rc::clone(&memory), H200);
        let last = |shape: &[i64]| Format::ChannelsLast.layout(Dtype::Float32, shape);
        let (input, weight) = (context.empty(last(&[10, 1024, 4, 4])), context.empty(last(&[1, 1024, 4, 4])));
        let ones = || Dims::from([1, 1]);
        let padding = Dims::from([0, 0]);
        let geometry = Geometry { stride: ones(), padding, dilation: ones(), groups: 1, is_transposed: false };
        let before = memory.borrow().journal().len();
        let result = forward(&mut context, &Rc::new(last(&[10, 1, 1, 1])), &input, &weight, &geometry);
        let bytes: u64 = memory.borrow().journal()[before..]
            .iter()
            .map(|entry| if let Entry::Allocate { bytes, .. } = entry { *bytes } else { 0 })
            .sum();
        // Of measured/workspaces.jsonl.xz: copies of image and weight, and the workspace.
        assert_eq!(bytes - 40, 1_646_935);
        drop(result);
    }
}
