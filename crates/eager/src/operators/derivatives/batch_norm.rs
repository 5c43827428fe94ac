//! The gradient of batch norm as an operator, and its own gradients (`batchnorm_double_backward`).

use std::rc::Rc;

use smallvec::smallvec;
use vramfit_graph::dtype::Dtype;
use vramfit_graph::layout::Layout;

use crate::autograd::{Backward, Context, Gradients, Node, Tensor};
use crate::operators::batch_norm;
use crate::operators::call::{Call, Outcome, Unmodelled, wanted_results};

/// `native_batch_norm_backward`, which is cuDNN's kernel where the forward pass was.
pub(super) fn of_batch_norm(context: &mut Context, call: &Call<'_>) -> Outcome {
    let (gradient, input, weight) = (call.tensor(0)?, call.tensor(1)?, call.optional_tensor(2));
    if input.shape().len() < 2 || !matches!(input.dtype(), Dtype::Float32 | Dtype::Float64) {
        return Err(Unmodelled);
    }
    let is_training = call.bool(7)?;
    let results = batch_norm::gradients(context, call)?;
    let saved = |_: &dyn Fn(usize) -> bool| smallvec![Some(gradient.clone()), Some(input.clone()), weight.cloned()];
    let backward = OfBatchNorm { is_training, weight: weight.map(Tensor::shared_layout) };
    let edge = context.record(&[Some(gradient), Some(input), weight], 3, saved, backward);
    Ok(wanted_results(results, edge.as_ref(), gradient))
}

/// Saved: the gradient, the input, the weight.
#[derive(Debug)]
struct OfBatchNorm {
    is_training: bool,
    weight: Option<Rc<Layout>>,
}

/// The terms that several formulas use. Each is freed with its own formula's end in the reverse order.
struct Terms {
    input: Tensor,
    has_weight: bool,
}

impl Terms {
    /// A tensor as large as the input.
    fn whole(&self, context: &Context) -> Tensor {
        context.empty(self.input.like(self.input.dtype()))
    }

    /// A number for each channel.
    fn channels(&self, context: &Context) -> Tensor {
        let mut shape = vec![1; self.input.shape().len()];
        shape[1] = self.input.shape()[1];
        context.empty_contiguous(self.input.dtype(), &shape)
    }

    /// The product of the weight, seen in the input's shape, with a number for each channel.
    fn weighted(&self, context: &Context) -> Tensor {
        if self.has_weight { self.whole(context) } else { self.channels(context) }
    }

    /// Sums over all dims but the channels, one dim after another.
    fn sums(&self, context: &Context, tensor: &Tensor, keeps_dims: bool) -> Tensor {
        let mut sum = context.sum(tensor, &[0], keeps_dims, tensor.dtype());
        let first = if keeps_dims { 2 } else { 1 };
        for dim in (first..sum.shape().len() as i64).rev() {
            sum = context.sum(&sum, &[dim], keeps_dims, sum.dtype());
        }
        sum
    }

    /// Sums of a product with a tensor as large as the input.
    fn sums_of_product(&self, context: &Context) -> Tensor {
        let product = self.whole(context);
        self.sums(context, &product, true)
    }

    /// A number for each channel times the difference between another one and a whole tensor; the right factor comes first.
    fn scaled_difference(&self, context: &Context) -> Tensor {
        let mean = self.channels(context);
        let difference = self.whole(context);
        let scale = self.channels(context);
        let result = self.whole(context);
        drop(scale);
        drop(difference);
        drop(mean);
        result
    }

    /// The input's gradient of the first pass, with `scale` as the product of the weight and the inverse deviation.
    fn first_gradient(&self, context: &Context, of: &Tensor, scale: Tensor) -> Tensor {
        let centred = self.whole(context);
        let sum = self.sums(context, of, true);
        let product = self.whole(context);
        let sums = self.sums(context, &product, true);
        let scaled = self.whole(context);
        let projected = self.whole(context);
        drop(projected);
        drop(scaled);
        drop(sums);
        drop(product);
        drop(sum);
        let result = self.whole(context);
        drop(centred);
        drop(scale);
        result
    }

    /// What the weight's gradient adds to the input's in training: three terms that are added up, and their product.
    fn of_weight(&self, context: &Context) -> Tensor {
        let first = self.whole(context);
        let second = self.channels(context);
        let product = self.whole(context);
        let sums = self.sums(context, &product, true);
        let third = self.whole(context);
        drop(sums);
        drop(product);
        let result = self.whole(context);
        drop(third);
        drop(second);
        drop(first);
        result
    }

    /// The input's gradient in training.
    fn of_input(&self, context: &Context, of_result: &Tensor) -> Tensor {
        let sum = self.sums(context, of_result, true);
        let sum_of_product = self.sums_of_product(context);
        let all = {
            let all = self.channels(context);
            let product = self.whole(context);
            let sums = self.sums(context, &product, true);
            let factor = self.channels(context);
            let factors = self.channels(context);
            drop(factors);
            drop(factor);
            drop(sums);
            drop(product);
            all
        };
        let terms = [self.whole(context), self.scaled_difference(context), self.scaled_difference(context)];
        let result = self.whole(context);
        let [first, second, third] = terms;
        drop(third);
        drop(second);
        drop(first);
        drop(all);
        drop(sum_of_product);
        drop(sum);
        result
    }

    /// A product of three, the first two as large as the input.
    fn product_of_three(&self, context: &Context) -> Tensor {
        let product = self.whole(context);
        let result = self.whole(context);
        drop(product);
        result
    }
}

impl Backward for OfBatchNorm {
    fn apply(&self, context: &mut Context, node: &Node, gradients: &mut Gradients) -> Gradients {
        let [of_input, of_weight, of_bias] = [0, 1, 2].map(|index| gradients.get(index).cloned().flatten());
        let gradient = node.saved(0);
        let terms = Terms { input: node.saved(1), has_weight: self.weight.is_some() };
        let one = self.weight.is_none().then(|| context.empty_contiguous(gradient.dtype(), &[]));
        let centred = terms.whole(context);
        let deviation = (!self.is_training).then(|| {
            let sum = terms.channels(context);
            let deviation = terms.channels(context);
            drop(sum);
            deviation
        });
        let (squared, cubed) = (terms.channels(context), terms.channels(context));
        let scaled = terms.whole(context);
        let product_sums = terms.sums_of_product(context);
        let sums = terms.sums(context, &gradient, true);
        let mut to_input = of_input.as_ref().filter(|_| self.is_training).map(|of| terms.of_input(context, of));
        let weight_term = of_weight
            .as_ref()
            .filter(|_| terms.has_weight)
            .map(|_| if self.is_training { terms.of_weight(context) } else { terms.product_of_three(context) });
        if to_input.is_none() {
            to_input.clone_from(&weight_term);
        }
        let mut to_weight = of_input.as_ref().filter(|_| terms.has_weight).map(|_| {
            let product = if self.is_training {
                let one = context.empty_contiguous(gradient.dtype(), &[]);
                let first = terms.first_gradient(context, &gradient, terms.channels(context));
                let product = terms.whole(context);
                drop(first);
                drop(one);
                product
            } else {
                terms.product_of_three(context)
            };
            terms.sums(context, &product, false)
        });
        let mut to_gradient = of_input.as_ref().map(|of| match self.is_training {
            true => terms.first_gradient(context, of, terms.weighted(context)),
            false => terms.product_of_three(context),
        });
        if of_weight.is_some() {
            let term = terms.product_of_three(context);
            to_gradient.get_or_insert(term);
        }
        if to_gradient.is_none() {
            // The bias's gradient, seen in the input's shape.
            to_gradient = of_bias;
        }
        if let (true, None, Some(weight)) = (node.wants(2), &to_weight, &self.weight) {
            to_weight = Some(context.empty_contiguous(weight.dtype, &weight.shape));
        }
        drop(weight_term);
        drop(sums);
        drop(product_sums);
        drop(scaled);
        drop(cubed);
        drop(squared);
        drop(deviation);
        drop(centred);
        drop(one);
        smallvec![to_gradient, to_input, to_weight]
    }
}
