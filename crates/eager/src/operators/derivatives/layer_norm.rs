//! The gradient of layer norm as an operator, and its own gradients (`layer_norm_double_backward` in `FunctionsManual.cpp`).

use std::rc::Rc;

use smallvec::smallvec;
use vramfit_graph::dtype::Dtype;
use vramfit_graph::layout::Layout;

use crate::autograd::{Backward, Context, Gradients, Node, Tensor};
use crate::operators::call::{Call, Outcome, Unmodelled, wanted_results};
use crate::operators::normalization::{Rows, gradients_of_rows};

/// `native_layer_norm_backward(grad, input, normalized_shape, mean, rstd, weight, bias, mask)`.
pub(super) fn of_layer_norm(context: &mut Context, call: &Call<'_>) -> Outcome {
    let (gradient, input, weight) = (call.tensor(0)?, call.tensor(1)?, call.optional_tensor(5));
    if !matches!(input.dtype(), Dtype::Float32 | Dtype::Float64) {
        return Err(Unmodelled);
    }
    let rows = Rows::of(input, call.ints(2)?.len())?;
    let bias = call.optional_tensor(6).map(Tensor::shared_layout);
    let weight_layout = weight.map(Tensor::shared_layout);
    let wanted = call.mask(7)?;
    let results = gradients_of_rows(context, rows, (gradient, input), wanted, [weight_layout.as_ref(), bias.as_ref()]);
    let saved = |_: &dyn Fn(usize) -> bool| smallvec![Some(gradient.clone()), Some(input.clone()), weight.cloned()];
    let backward = OfLayerNorm { rows, weight: weight_layout };
    let edge = context.record(&[Some(gradient), Some(input), weight], 3, saved, backward);
    Ok(wanted_results(results, edge.as_ref(), gradient))
}

/// Saved: the gradient, the input, the weight.
#[derive(Debug)]
struct OfLayerNorm {
    rows: Rows,
    weight: Option<Rc<Layout>>,
}

/// The shapes of the terms: all elements, or a number for each row.
struct Terms {
    dtype: Dtype,
    rows: Rows,
}

impl Terms {
    fn whole(&self, context: &Context) -> Tensor {
        context.empty_contiguous(self.dtype, &[self.rows.count, self.rows.width])
    }

    fn column(&self, context: &Context) -> Tensor {
        context.empty_contiguous(self.dtype, &[self.rows.count, 1])
    }

    fn sum(&self, context: &Context, tensor: &Tensor) -> Tensor {
        context.sum(tensor, &[1], true, self.dtype)
    }

    /// The sums of a product of two whole tensors.
    fn sum_of_product(&self, context: &Context) -> Tensor {
        let product = self.whole(context);
        self.sum(context, &product)
    }

    /// A number for each row times the difference between another one and a whole tensor; the right factor comes first.
    fn scaled_difference(&self, context: &Context) -> Tensor {
        let mean = self.column(context);
        let difference = self.whole(context);
        let scale = self.column(context);
        let result = self.whole(context);
        drop(scale);
        drop(difference);
        drop(mean);
        result
    }

    /// The input's gradient of the first pass, with `scale` as the product of the weight and the inverse deviation.
    fn first_gradient(&self, context: &Context, of: &Tensor, scale: Tensor) -> Tensor {
        let centred = self.whole(context);
        let sum = self.sum(context, of);
        let product = self.whole(context);
        let sums = self.sum(context, &product);
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

    /// The input's gradient: three terms, the last two of which are added to the first.
    fn of_input(&self, context: &Context, of_input: &Tensor) -> Tensor {
        let scaled = self.whole(context);
        let scaled_product_sum = self.sum_of_product(context);
        let scaled_sum = self.sum(context, &scaled);
        let sum = self.sum(context, of_input);
        let product_sum = self.sum_of_product(context);
        let all = {
            let all = self.column(context);
            let product = self.whole(context);
            let sums = self.sum(context, &product);
            let factor = self.column(context);
            let factors = self.column(context);
            drop(factors);
            drop(factor);
            drop(sums);
            drop(product);
            all
        };
        let first = self.whole(context);
        let (second, third) = (self.scaled_difference(context), self.scaled_difference(context));
        drop(third);
        drop(second);
        for term in [all, product_sum, sum, scaled_sum, scaled_product_sum, scaled] {
            drop(term);
        }
        first
    }

    /// What the weight's gradient adds to the input's.
    fn of_weight(&self, context: &Context) -> Tensor {
        let first = {
            let product = self.whole(context);
            let first = self.whole(context);
            drop(product);
            first
        };
        let second = {
            let product = self.whole(context);
            let sum = self.sum(context, &product);
            let second = self.column(context);
            drop(sum);
            drop(product);
            second
        };
        let third = {
            let product = self.whole(context);
            let centred = self.whole(context);
            let sum = self.sum(context, &centred);
            let third = self.whole(context);
            drop(sum);
            drop(centred);
            drop(product);
            third
        };
        drop(third);
        drop(second);
        first
    }
}

impl Backward for OfLayerNorm {
    fn apply(&self, context: &mut Context, node: &Node, gradients: &mut Gradients) -> Gradients {
        let [of_input, of_weight, of_bias] = [0, 1, 2].map(|index| gradients.get(index).cloned().flatten());
        let (gradient, input) = (node.saved(0), node.saved(1));
        let terms = Terms { dtype: input.dtype(), rows: self.rows };
        // All are seen as rows, which takes a copy of what is not contiguous.
        let read = [context.contiguous(&input), context.contiguous(&gradient)];
        let one = self.weight.is_none().then(|| context.empty_contiguous(terms.dtype, &[1]));
        let flat = of_input.as_ref().map(|of_input| context.contiguous(of_input));
        let rows = flat
            .as_ref()
            .map(|flat| flat.unsafe_view(Layout::contiguous(terms.dtype, &[self.rows.count, self.rows.width])));
        let centred = terms.whole(context);
        let (squared, cubed) = (terms.column(context), terms.column(context));
        let scaled = terms.whole(context);
        let mut to_input = rows.as_ref().map(|of_input| terms.of_input(context, of_input));
        if of_weight.is_some() && self.weight.is_some() {
            let term = terms.of_weight(context);
            to_input.get_or_insert(term);
        }
        let to_weight = rows.as_ref().zip(self.weight.as_ref()).map(|(of_input, weight)| {
            let one = context.empty_contiguous(terms.dtype, &[]);
            let first = terms.first_gradient(context, of_input, terms.column(context));
            drop(one);
            let product = terms.whole(context);
            let sum = context.sum(&product, &[0], false, terms.dtype);
            drop(first);
            drop(product);
            sum.view(Layout::contiguous(terms.dtype, &weight.shape))
        });
        let mut to_gradient = rows.as_ref().map(|of_input| {
            let scale = if self.weight.is_some() { terms.whole(context) } else { terms.column(context) };
            terms.first_gradient(context, of_input, scale)
        });
        if of_weight.is_some() {
            let product = terms.whole(context);
            let term = terms.whole(context);
            drop(product);
            to_gradient.get_or_insert(term);
        }
        if of_bias.is_some() && to_gradient.is_none() {
            to_gradient = Some(terms.whole(context));
        }
        let back = |index: usize, tensor: Option<Tensor>| {
            let layout = Layout::contiguous(terms.dtype, input.shape());
            tensor.filter(|_| node.wants(index)).map(|tensor| tensor.view(layout))
        };
        let answer = smallvec![back(0, to_gradient), back(1, to_input), to_weight.filter(|_| node.wants(2))];
        drop(scaled);
        drop(cubed);
        drop(squared);
        drop(centred);
        drop(rows);
        drop(flat);
        drop(one);
        let [input, gradient] = read;
        drop(gradient);
        drop(input);
        answer
    }
}
