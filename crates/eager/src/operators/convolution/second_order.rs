//! `convolution_backward` as an operator of its own, which a backward pass with `create_graph` records, and its gradient
//! (`_convolution_double_backward` in `Convolution.cpp`).

use smallvec::smallvec;
use vramfit_graph::dims::Dims;

use super::geometry::{Backend, Geometry};
use super::{as_image, as_row, compute, cudnn, input_image};
use crate::autograd::{Backward, Context, Edge, Gradients, Node, Tensor};
use crate::operators::call::{Call, Outcome, Unmodelled};

/// `convolution_backward(grad, input, weight, bias_sizes, stride, padding, dilation, transposed, output_padding, groups, mask)`.
pub(super) fn convolution_backward(context: &mut Context, call: &Call<'_>) -> Outcome {
    let (gradient, input, weight) = (call.tensor(0)?, call.tensor(1)?, call.tensor(2)?);
    let geometry = Geometry::of_backward(call)?;
    let rank = input.shape().len();
    let geometry = if rank == 3 { geometry.into_image() } else { geometry };
    let wanted = call.mask(10)?;
    let incoming = as_image(gradient);
    let (image, kernel) = (input_image(context, input), as_image(weight));
    if geometry.backend(image.layout(), kernel.layout()) != Backend::Cudnn {
        return Err(Unmodelled);
    }
    let (of_input, of_weight) =
        cudnn::gradients_of(context, [wanted[0], wanted[1]], &incoming, &image, &kernel, &geometry);
    let of_bias = wanted[2].then(|| {
        let dims: Dims = std::iter::once(0).chain(2..incoming.shape().len() as i64).collect();
        context.sum(&incoming, &dims, false, incoming.dtype())
    });
    drop((image, kernel, incoming));
    let saved =
        |_: &dyn Fn(usize) -> bool| smallvec![Some(gradient.clone()), Some(input.clone()), Some(weight.clone())];
    let inputs = [Some(gradient), Some(input), Some(weight)];
    let edge = context.record(&inputs, 3, saved, ConvolutionBackward { geometry });
    let results = [of_input.map(|tensor| as_row(tensor, rank)), of_weight.map(|tensor| as_row(tensor, rank)), of_bias];
    // A result that is not wanted is not defined; a tensor on the host takes its place in the list.
    let outputs = results.into_iter().enumerate().map(|(output, result)| match result {
        Some(result) => result.with_edge(edge.clone().map(|edge| Edge { output, ..edge })),
        None => Tensor::on_host(gradient.shared_layout()),
    });
    Ok(outputs.collect())
}

/// Saved: the gradient, the input and the weight, which are its inputs too. What comes in are gradients of the three results.
#[derive(Debug)]
struct ConvolutionBackward {
    geometry: Geometry,
}

impl Backward for ConvolutionBackward {
    fn apply(&self, context: &mut Context, node: &Node, gradients: &mut Gradients) -> Gradients {
        let (gradient, input, weight) = (node.saved(0), node.saved(1), node.saved(2));
        let rank = input.shape().len();
        let incoming = |index: usize| gradients.get(index).cloned().flatten().map(|tensor| as_image(&tensor));
        let (of_input, of_weight, of_bias) = (incoming(0), incoming(1), incoming(2));
        let (image, kernel, result) = (as_image(&input), as_image(&weight), as_image(&gradient));
        let run = |context: &mut Context, image: &Tensor, kernel: &Tensor| {
            compute(context, (image, kernel), result.layout().clone(), (&self.geometry, Backend::Cudnn))
        };
        let of_gradient = node.wants(0).then(|| {
            let first = of_input.as_ref().map(|image| run(context, image, &kernel));
            let second = of_weight.as_ref().map(|kernel| run(context, &image, kernel));
            let sum = match (first, second) {
                (Some(first), Some(second)) => {
                    let sum = context.empty(first.like(first.dtype()));
                    drop((first, second));
                    Some(sum)
                }
                (one, other) => one.or(other),
            };
            match (sum, &of_bias) {
                (Some(sum), Some(_)) => {
                    let with_bias = context.empty(sum.like(sum.dtype()));
                    drop(sum);
                    Some(with_bias)
                }
                (sum, _) => sum,
            }
        });
        let weight_gradient = of_input
            .as_ref()
            .filter(|_| node.wants(2))
            .map(|image| cudnn::weight_gradient(context, &kernel, &result, image, &self.geometry));
        let input_gradient = of_weight
            .as_ref()
            .filter(|_| node.wants(1))
            .map(|kernel| cudnn::input_gradient(context, &image.shared_layout(), &result, kernel, &self.geometry));
        let back = |tensor: Option<Tensor>| tensor.map(|tensor| as_row(tensor, rank));
        smallvec![back(of_gradient.flatten()), back(input_gradient), back(weight_gradient)]
    }
}
