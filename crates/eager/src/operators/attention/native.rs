//! The fast paths of `nn.MultiheadAttention` and `nn.TransformerEncoderLayer`, which evaluation without gradients takes
//! (`transformers/transformer.cpp`, `transformers/cuda/attention.cu`).

use smallvec::smallvec;
use vramfit_graph::dims::Dims;
use vramfit_graph::dtype::Dtype;
use vramfit_graph::layout::Layout;

use super::inputs::{Inputs, swapped_layout};
use super::scaled::run;
use super::select::{Backend, backend};
use crate::autograd::{Context, Tensor};
use crate::operators::call::{Call, Outcome, Unmodelled, only};
use crate::operators::copy::contiguous_of;
use crate::operators::normalization::norm_of_rows;
use crate::operators::product::{add_product, linear, matmul, multiply};
use crate::operators::softmax::{Kind, softmax};
use crate::operators::view::{reshape_to, transposed};

/// Attention with its projections.
struct Attention<'a> {
    query: &'a Tensor,
    key: &'a Tensor,
    value: &'a Tensor,
    heads: i64,
    input_weight: &'a Tensor,
    input_bias: &'a Tensor,
    output_weight: &'a Tensor,
    output_bias: &'a Tensor,
    mask: Option<&'a Tensor>,
    /// 1 for a mask of padded keys.
    mask_type: i64,
    needs_weights: bool,
    averages_weights: bool,
}

pub(super) fn multi_head_attention(context: &mut Context, call: &Call<'_>) -> Outcome {
    let attention = Attention {
        query: call.tensor(0)?,
        key: call.tensor(1)?,
        value: call.tensor(2)?,
        heads: call.int(4)?,
        input_weight: call.tensor(5)?,
        input_bias: call.tensor(6)?,
        output_weight: call.tensor(7)?,
        output_bias: call.tensor(8)?,
        mask: call.optional_tensor(9),
        needs_weights: call.bool(10).unwrap_or(true),
        averages_weights: call.bool(11).unwrap_or(true),
        mask_type: call.int(12).unwrap_or(2),
    };
    let (result, weights) = attention.run(context)?;
    Ok(std::iter::once(result).chain(weights).collect())
}

pub(super) fn encoder_layer(context: &mut Context, call: &Call<'_>) -> Outcome {
    let source = call.tensor(0)?;
    let is_norm_first = call.bool(8)?;
    let norm = |context: &mut Context, input: &Tensor, scale: usize| {
        only(norm_of_rows(context, input, call.tensor(scale)?, call.tensor(scale + 1)?))
    };
    let first = if is_norm_first { norm(context, source, 10)? } else { source.clone() };
    let attention = Attention {
        query: &first,
        key: &first,
        value: &first,
        heads: call.int(2)?,
        input_weight: call.tensor(3)?,
        input_bias: call.tensor(4)?,
        output_weight: call.tensor(5)?,
        output_bias: call.tensor(6)?,
        mask: call.optional_tensor(18),
        mask_type: call.int(19).unwrap_or(2),
        needs_weights: false,
        averages_weights: true,
    };
    let (attended, _) = attention.run(context)?;
    drop(first);
    // The source is added in place.
    let normed = |context: &mut Context, input: Tensor, scale: usize| {
        let result = norm(context, &input, scale)?;
        drop(input);
        Ok(result)
    };
    let before = if is_norm_first { attended } else { normed(context, attended, 10)? };
    let input = if is_norm_first { norm(context, &before, 12)? } else { before.clone() };
    let inner = feed_forward(context, &input, call.tensor(14)?, call.tensor(15)?)?;
    let outer = feed_forward(context, &inner, call.tensor(16)?, call.tensor(17)?)?;
    drop(inner);
    drop(input);
    let result = if is_norm_first { outer } else { normed(context, outer, 12)? };
    drop(before);
    Ok(smallvec![result])
}

/// A linear layer, its activation part of the product.
fn feed_forward(context: &mut Context, input: &Tensor, weight: &Tensor, bias: &Tensor) -> Result<Tensor, Unmodelled> {
    let &[batch, length, width] = input.shape() else { return Err(Unmodelled) };
    let flat = only(reshape_to(context, input, &[batch * length, width]))?;
    let turned = only(transposed(context, weight))?;
    let product = only(add_product(context, bias, (&flat, &turned)))?;
    only(reshape_to(context, &product, &[batch, length, weight.shape()[0]]))
}

impl Attention<'_> {
    /// The result, and the weights where they are asked for.
    fn run(&self, context: &mut Context) -> Result<(Tensor, Option<Tensor>), Unmodelled> {
        let &[batch, length, width] = self.query.shape() else { return Err(Unmodelled) };
        let head = width / self.heads;
        let is_self = self.query.is(self.key) && self.key.is(self.value);
        if is_self && head % 8 == 0 && !self.needs_weights && self.mask.is_none() {
            let seen = head_view(self.query, self.heads, 1);
            if backend(&inputs(&seen, &seen, &seen), context.compute()) != Backend::Math {
                return Ok((self.fused(context)?, None));
            }
        }
        let projected = self.projected(context)?;
        let packed = context.empty_contiguous(projected.dtype(), &[3, batch * self.heads, length, head]);
        drop(projected);
        let part = packed.unsafe_view(Layout::contiguous(packed.dtype(), &[batch * self.heads, length, head]));
        let turned = part.unsafe_view(turned_layout(part.layout()));
        let mut weights = only(multiply(context, &part, &turned))?;
        if let Some(mask) = self.mask {
            weights = self.masked_softmax(context, weights, mask)?;
        }
        // The product with the values is written over the queries.
        context.use_blas();
        let weights = self.needs_weights.then_some(weights);
        let shape = [batch, length, self.heads, head];
        let mut strides = Layout::contiguous(packed.dtype(), &[batch, self.heads, length, head]).strides;
        strides.swap(1, 2);
        let turned = packed.unsafe_view(Layout { dtype: packed.dtype(), shape: shape[..].into(), strides });
        let ordered = contiguous_of(context, &turned);
        let flat = only(reshape_to(context, &ordered, &[batch * length, width]))?;
        let product = only(linear(context, &flat, self.output_weight, Some(self.output_bias)))?;
        let result = only(reshape_to(context, &product, &[batch, length, product.shape()[1]]))?;
        drop((flat, ordered));
        let weights = weights.map(|weights| self.averaged(context, weights));
        drop((turned, part, packed));
        Ok((result, weights))
    }

    /// A fused kernel between two linear layers.
    fn fused(&self, context: &mut Context) -> Result<Tensor, Unmodelled> {
        let &[batch, length, width] = self.query.shape() else { return Err(Unmodelled) };
        let projected = only(linear(context, self.query, self.input_weight, Some(self.input_bias)))?;
        // Where queries, keys and values begin does not matter.
        let part = head_view(&projected, self.heads, 3);
        let given = inputs(&part, &part, &part);
        let chosen = backend(&given, context.compute());
        let attended = run(context, given, chosen)?;
        let ordered = attended.unsafe_view(swapped_layout(attended.layout()));
        let flat = only(reshape_to(context, &ordered, &[batch, length, width]))?;
        let result = only(linear(context, &flat, self.output_weight, Some(self.output_bias)))?;
        drop((flat, ordered, attended));
        drop((part, projected));
        Ok(result)
    }

    /// Queries, keys and values side by side, still without their bias.
    fn projected(&self, context: &mut Context) -> Result<Tensor, Unmodelled> {
        let times = |context: &mut Context, input: &Tensor, parts: i64| {
            let mut layout = self.input_weight.layout().clone();
            layout.shape[0] = layout.shape[0] / 3 * parts;
            let weight = self.input_weight.unsafe_view(turned_layout(&layout));
            only(matmul(context, input, &weight))
        };
        if self.key.is(self.value) && self.query.is(self.key) {
            return times(context, self.query, 3);
        }
        let query = times(context, self.query, 1)?;
        let others = if self.key.is(self.value) {
            vec![times(context, self.key, 2)?]
        } else {
            vec![times(context, self.key, 1)?, times(context, self.value, 1)?]
        };
        let mut shape: Dims = query.shape().into();
        shape[2] *= 3;
        let joined = context.empty_contiguous(query.dtype(), &shape);
        for other in others.into_iter().rev() {
            drop(other);
        }
        drop(query);
        Ok(joined)
    }

    /// `_masked_softmax`: one kernel for short rows and masks without gaps, else filled and then normalized.
    fn masked_softmax(&self, context: &mut Context, weights: Tensor, mask: &Tensor) -> Result<Tensor, Unmodelled> {
        let mask = if mask.dtype() == Dtype::Bool { mask.clone() } else { context.empty(mask.like(Dtype::Bool)) };
        let &[_, length, keys] = weights.shape() else { return Err(Unmodelled) };
        let batch = self.query.shape()[0];
        let whole = weights.unsafe_view(Layout::contiguous(weights.dtype(), &[batch, self.heads, length, keys]));
        drop(weights);
        let mut output = context.empty(whole.like(whole.dtype()));
        let is_repeated = self.mask_type == 0 && batch * self.heads > 1;
        let is_short = keys <= 1024 && keys.unsigned_abs() * whole.dtype().bytes() <= 4096;
        if !is_short || is_repeated || !mask.layout().is_contiguous() {
            let filled = context.empty_contiguous(whole.dtype(), whole.shape());
            output = softmax(context, &filled, filled.dtype(), Kind::Plain);
            drop(filled);
        }
        drop(mask);
        drop(whole);
        let shape = [batch * self.heads, length, keys];
        Ok(output.unsafe_view(Layout::contiguous(output.dtype(), &shape)))
    }

    /// The weights as they are given back: the mean over heads, divided in place, or each head's.
    fn averaged(&self, context: &Context, weights: Tensor) -> Tensor {
        let (batch, dtype) = (self.query.shape()[0], weights.dtype());
        let (length, keys) = (weights.shape()[1], weights.shape()[2]);
        let whole = weights.unsafe_view(Layout::contiguous(dtype, &[batch, self.heads, length, keys]));
        drop(weights);
        if self.averages_weights { context.sum(&whole, &[1], false, dtype) } else { whole }
    }
}

fn inputs<'a>(query: &'a Tensor, key: &'a Tensor, value: &'a Tensor) -> Inputs<'a> {
    let (mask, dropout, is_causal, is_grouped, wants_gradient) = (None, 0.0, false, false, false);
    Inputs { query, key, value, mask, dropout, is_causal, is_grouped, wants_gradient }
}

/// One of `parts` of a packed projection, head by head: (batch, heads, sequence, width).
fn head_view(packed: &Tensor, heads: i64, parts: i64) -> Tensor {
    let layout = packed.layout();
    let (batch, length, width) = (layout.shape[0], layout.shape[1], layout.shape[2] / parts / heads);
    let strides = Dims::from([layout.strides[0], width * layout.strides[2], layout.strides[1], layout.strides[2]]);
    packed.unsafe_view(Layout { dtype: layout.dtype, shape: Dims::from([batch, heads, length, width]), strides })
}

/// The last two dimensions swapped.
fn turned_layout(layout: &Layout) -> Layout {
    let mut turned = layout.clone();
    let rank = turned.shape.len();
    turned.shape.swap(rank - 2, rank - 1);
    turned.strides.swap(rank - 2, rank - 1);
    turned
}
