//! `convolution_backward` as an operator of its own, which a backward pass with `create_graph` records, and its gradient
//! (`_convolution_double_backward` in `Convolution.cpp`).

use smallvec::smallvec;
use vramfit_graph::dims::Dims;
use vramfit_graph::layout::Layout;

use super::geometry::{Backend, Geometry};
use super::{as_image, as_row, compute, cudnn, input_image};
use crate::autograd::{Backward, Context, Gradients, Node, Tensor};
use crate::operators::call::{Call, Outcome, Unmodelled, wanted_results};

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
    Ok(wanted_results(results, edge.as_ref(), gradient))
}

/// Saved: the gradient, the input and the weight, which are its inputs too. What comes in are gradients of the three results. All
/// that they allow is computed, whether it is wanted or not.
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
        let of_weight = of_weight.map(|kernel| context.contiguous(&kernel));
        let kernel = if of_input.is_some() { context.contiguous(&kernel) } else { kernel };
        let double = Double { geometry: &self.geometry, rank };
        let first = of_input.as_ref().map(|image| double.convolve(context, image, &kernel, result.layout()));
        let second = of_weight.as_ref().map(|kernel| double.convolve(context, &image, kernel, result.layout()));
        let sum = match (first, second) {
            (Some(first), Some(second)) => {
                let sum = context.empty(first.like(first.dtype()));
                drop((second, first));
                Some(sum)
            }
            (one, other) => one.or(other),
        };
        let of_gradient = match (sum, &of_bias) {
            (Some(sum), Some(_)) => {
                let with_bias = context.empty(sum.like(sum.dtype()));
                drop(sum);
                Some(with_bias)
            }
            (sum, _) => sum,
        };
        let weight_gradient = of_input.as_ref().map(|image| double.weight_gradient(context, image, &result, &weight));
        let input_gradient = of_weight.as_ref().map(|kernel| {
            let result = context.contiguous(&result);
            let back = Geometry { is_transposed: !self.geometry.is_transposed, ..self.geometry.clone() };
            Double { geometry: &back, rank }.convolve(context, &result, kernel, image.layout())
        });
        let back = |index: usize, tensor: Option<Tensor>| {
            tensor.filter(|_| node.wants(index)).map(|tensor| as_row(tensor, rank))
        };
        smallvec![back(0, of_gradient), back(1, input_gradient), weight_gradient.filter(|_| node.wants(2))]
    }
}

/// The convolutions of a second derivative, of images; `rank` is the one of the tensors before rows became images.
struct Double<'a> {
    geometry: &'a Geometry,
    rank: usize,
}

impl Double<'_> {
    /// `convolution`; the result is `like` this.
    fn convolve(&self, context: &mut Context, image: &Tensor, kernel: &Tensor, like: &Layout) -> Tensor {
        let read = if self.rank == 3 { context.contiguous(image) } else { image.clone() };
        compute(context, (&read, kernel), like.clone(), (self.geometry, Backend::Cudnn))
    }

    /// The weight's gradient: a convolution in which batch and channels change places, one for each group. The gradient is its kernel.
    fn weight_gradient(&self, context: &mut Context, image: &Tensor, gradient: &Tensor, weight: &Tensor) -> Tensor {
        let groups = self.geometry.groups;
        let mut parts: Vec<Tensor> = Vec::new();
        for _ in 0..groups {
            let (image, gradient) = (swapped(image, groups), swapped(gradient, groups));
            let gradient = context.contiguous(&gradient);
            let part = match self.geometry.is_transposed {
                true => self.over_batch(context, &gradient, &image),
                false => self.over_batch(context, &image, &gradient),
            };
            drop((gradient, image));
            parts.push(part);
        }
        let whole = match parts.len() {
            1 => parts.remove(0),
            _ => {
                let mut shape: Dims = parts[0].layout().shape.clone();
                shape[1] *= groups;
                let whole = context.empty_contiguous(weight.dtype(), &shape);
                parts.into_iter().for_each(drop);
                whole
            }
        };
        // A stride that leaves a remainder makes it larger than the weight: a part of it is the gradient.
        let whole = as_row(whole, self.rank);
        let mut layout = swapped(&whole, 1).layout().clone();
        for (size, &of_weight) in layout.shape.iter_mut().zip(weight.shape()).skip(2) {
            *size = (*size).min(of_weight);
        }
        whole.view(layout)
    }

    /// A convolution without groups whose strides are the dilations, and the other way round.
    fn over_batch(&self, context: &mut Context, image: &Tensor, kernel: &Tensor) -> Tensor {
        let Geometry { stride, padding, dilation, .. } = self.geometry.clone();
        let geometry = Geometry { stride: dilation, padding, dilation: stride, groups: 1, is_transposed: false };
        let mut shape: Dims = Dims::from([image.shape()[0], kernel.shape()[0]]);
        for dim in 0..geometry.stride.len() {
            let reach = geometry.dilation[dim] * (kernel.shape()[dim + 2] - 1) + 1;
            let free = image.shape()[dim + 2] + 2 * geometry.padding[dim] - reach;
            shape.push(free / geometry.stride[dim] + 1);
        }
        let like = Layout::contiguous(image.dtype(), &shape);
        let turned = Double { geometry: &geometry, rank: self.rank };
        turned.convolve(context, image, kernel, &like)
    }
}

/// One group of `tensor.transpose(0, 1)`.
fn swapped(tensor: &Tensor, groups: i64) -> Tensor {
    let mut layout = tensor.layout().clone();
    layout.shape.swap(0, 1);
    layout.strides.swap(0, 1);
    layout.shape[0] /= groups;
    tensor.unsafe_view(layout)
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use vramfit_graph::dtype::Dtype;

    use super::*;
    use crate::machine::H200;
    use crate::memory::{Entry, Memory};

    /// What the weight's second gradient takes of a layer, without workspaces: the lasting requests, and the shape.
    fn weight_gradient(
        image: &[i64],
        gradient: &[i64],
        weight: &[i64],
        stride: i64,
        groups: i64,
    ) -> (Vec<u64>, Vec<i64>) {
        let memory = Rc::new(RefCell::new(Memory::new()));
        let mut context = Context::new(Rc::clone(&memory), H200);
        let [image, gradient, weight] =
            [image, gradient, weight].map(|shape| context.empty_contiguous(Dtype::Float32, shape));
        let count = image.shape().len() - 2;
        let geometry = Geometry {
            stride: Dims::filled(stride, count),
            padding: Dims::filled(1, count),
            dilation: Dims::filled(1, count),
            groups,
            is_transposed: false,
        };
        let before = memory.borrow().journal().len();
        let result = Double { geometry: &geometry, rank: 4 }.weight_gradient(&mut context, &image, &gradient, &weight);
        let memory = memory.borrow();
        let requested = |entry: &Entry| match *entry {
            Entry::Allocate { bytes, plan: None, .. } => Some(bytes),
            _ => None,
        };
        (memory.journal()[before..].iter().filter_map(requested).collect(), result.shape().to_vec())
    }

    #[test]
    fn the_weights_second_gradient_is_a_convolution_over_the_batch() {
        let (bytes, shape) = weight_gradient(&[4, 3, 8, 8], &[4, 5, 8, 8], &[5, 3, 3, 3], 1, 1);
        // The gradient with its batch last, the image likewise, and the result.
        assert_eq!(bytes, [4 * 5 * 64 * 4, 4 * 3 * 64 * 4, 5 * 3 * 9 * 4]);
        assert_eq!(shape, [5, 3, 3, 3]);
    }

    #[test]
    fn a_stride_that_leaves_a_remainder_makes_more_than_the_weight() {
        let (bytes, shape) = weight_gradient(&[4, 3, 8, 8], &[4, 5, 4, 4], &[5, 3, 3, 3], 2, 1);
        assert_eq!(bytes.last(), Some(&(5 * 3 * 16 * 4)));
        assert_eq!(shape, [5, 3, 3, 3]);
    }
}
