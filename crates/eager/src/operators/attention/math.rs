//! Attention out of plain operators (`_scaled_dot_product_attention_math`), each with its own node in the graph.

use vramfit_graph::dtype::Dtype;

use super::inputs::Inputs;
use super::mask;
use super::steps;
use crate::autograd::{Context, Tensor};
use crate::operators::call::Unmodelled;

pub(super) fn forward(context: &mut Context, inputs: &Inputs<'_>) -> Result<Tensor, Unmodelled> {
    let dtype = inputs.query.dtype();
    let accurate = if dtype.is_half() { Dtype::Float32 } else { dtype };
    let query_accurate = steps::cast(context, inputs.query, accurate);
    let key_accurate = steps::cast(context, inputs.key, accurate);
    let value_accurate = steps::cast(context, inputs.value, accurate);
    let rank = query_accurate.shape().len();
    if rank < 3 || key_accurate.shape().len() != rank || value_accurate.shape().len() != rank {
        return Err(Unmodelled);
    }
    let mut mask = inputs.mask.cloned();
    let query = steps::scaled(context, &query_accurate);
    if inputs.is_causal {
        let shape = [query.shape()[rank - 2], key_accurate.shape()[rank - 2]];
        let ones = context.empty_contiguous(Dtype::Bool, &shape);
        let triangle = context.empty_contiguous(Dtype::Bool, &shape);
        drop(ones);
        mask = Some(mask::additive(context, &triangle, accurate));
        drop(triangle);
    }
    let repeats =
        |tensor: &Tensor| if inputs.is_grouped { query.shape()[rank - 3] / tensor.shape()[rank - 3] } else { 1 };
    let (key_repeats, value_repeats) = (repeats(&key_accurate), repeats(&value_accurate));
    let (key, value) = if key_repeats == 1 && value_repeats == 1 {
        (key_accurate.clone(), value_accurate.clone())
    } else {
        let key = steps::repeated(context, &key_accurate, key_repeats, rank - 3)?;
        (key, steps::repeated(context, &value_accurate, value_repeats, rank - 3)?)
    };
    let turned = steps::transposed(context, &key);
    let scaled_key = steps::scaled(context, &turned);
    drop(turned);
    let mut weights = steps::product(context, &query, &scaled_key)?;
    drop(scaled_key);
    if let Some(mask) = &mask {
        weights = steps::added_in_place(context, weights, mask);
    }
    let result = steps::safe_softmax(context, &weights);
    weights = result;
    if inputs.dropout > 0.0 {
        let result = steps::dropped(context, &weights);
        weights = result;
    }
    // C++ evaluates the second result, which nobody uses, first.
    let unused = steps::cast(context, &weights, dtype);
    let product = steps::product(context, &weights, &value)?;
    let result = steps::cast(context, &product, dtype);
    drop(product);
    drop(weights);
    drop(key);
    drop(value);
    drop(query);
    drop(mask);
    drop(value_accurate);
    drop(key_accurate);
    drop(query_accurate);
    drop(unused);
    Ok(result)
}
