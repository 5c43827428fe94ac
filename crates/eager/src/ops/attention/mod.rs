//! Scaled dot product attention: four CUDA backends, chosen as PyTorch chooses them.
//!
//! [`select`] says which backend runs; each backend has a file with what it allocates forward and backward and what it
//! saves. [`steps`] are the small operators that attention itself calls around a backend, or instead of one.

mod cudnn;
mod efficient;
mod flash;
mod mask;
mod math;
mod native;
mod select;
mod steps;

use smallvec::smallvec;
use vramfit_graph::dtype::Dtype;

use super::{Call, Context, Outcome, Rule, Unmodelled};
use crate::autograd::Tensor;
use select::Backend;
use vramfit_graph::dims::Dims;
use vramfit_graph::layout::Layout;

pub(super) fn rule(name: &str) -> Option<Rule> {
    Some(match name {
        "aten.scaled_dot_product_attention.default" => attention,
        "aten._native_multi_head_attention.default" => native::multi_head_attention,
        "aten._transformer_encoder_layer_fwd.default" => native::encoder_layer,
        _ => return None,
    })
}

/// The largest batch that a fused kernel takes at once.
const LARGEST_BATCH: i64 = 65_535;

/// What attention is called with.
#[derive(Clone, Copy, Debug)]
struct Inputs<'a> {
    query: &'a Tensor,
    key: &'a Tensor,
    value: &'a Tensor,
    mask: Option<&'a Tensor>,
    dropout: f64,
    is_causal: bool,
    /// Whether keys and values may have fewer heads than queries.
    is_grouped: bool,
    /// Whether the graph is being built and query, key or value take part in it.
    wants_gradient: bool,
}

/// The sizes of attention over four dimensions: batch, heads, sequence, width.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sizes {
    batch: i64,
    heads: i64,
    key_heads: i64,
    value_heads: i64,
    queries: i64,
    keys: i64,
    width: i64,
    value_width: i64,
}

impl Sizes {
    fn of(query: &Tensor, key: &Tensor, value: &Tensor) -> Option<Sizes> {
        let (&[batch, heads, queries, width], &[_, key_heads, keys, _], &[_, value_heads, _, value_width]) =
            (query.shape(), key.shape(), value.shape())
        else {
            return None;
        };
        Some(Sizes { batch, heads, key_heads, value_heads, queries, keys, width, value_width })
    }
}

fn attention(context: &mut Context, call: &Call<'_>) -> Outcome {
    let (query, key, value) = (call.tensor(0)?, call.tensor(1)?, call.tensor(2)?);
    let wants_gradient = context.is_grad_on() && [query, key, value].iter().any(|tensor| tensor.requires_grad());
    let inputs = Inputs {
        query,
        key,
        value,
        mask: call.optional_tensor(3),
        dropout: if call.is_none(4) { 0.0 } else { call.float(4)? },
        is_causal: !call.is_none(5) && call.bool(5)?,
        is_grouped: !call.is_none(7) && call.bool(7)?,
        wants_gradient,
    };
    if [query, key, value].iter().any(|tensor| tensor.is_on_host() || tensor.layout().elements() == 0) {
        return Err(Unmodelled);
    }
    // Larger batches are computed in parts.
    if query.shape().len() == 4 && query.shape()[0] > LARGEST_BATCH {
        return Err(Unmodelled);
    }
    let backend = select::backend(&inputs, context.compute());
    let step = context.memory().borrow().origin();
    if let Some(visits) = &mut context.visits
        && backend == Backend::Math
    {
        visits.note_unfused_attention(step);
    }
    Ok(smallvec![run(context, inputs, backend)?])
}

/// Attention on a backend.
fn run(context: &mut Context, inputs: Inputs<'_>, backend: Backend) -> Result<Tensor, Unmodelled> {
    let mut mask = inputs.mask.map(|given| mask::additive(context, given, inputs.query.dtype()));
    if backend == Backend::Efficient
        && let Some(additive) = mask.take()
    {
        mask = Some(mask::aligned(context, additive, &inputs)?);
    }
    let inputs = Inputs { mask: mask.as_ref(), ..inputs };
    match backend {
        Backend::Cudnn => cudnn::forward(context, &inputs),
        Backend::Flash => flash::forward(context, &inputs),
        Backend::Efficient => efficient::forward(context, &inputs),
        Backend::Math => math::forward(context, &inputs),
    }
}

/// The tensor with sequence and heads swapped: (batch, heads, sequence, width) as (batch, sequence, heads, width).
fn swapped(tensor: &Tensor) -> Tensor {
    tensor.view(swapped_layout(tensor.layout()))
}

fn swapped_layout(layout: &Layout) -> Layout {
    let mut swapped = layout.clone();
    swapped.shape.swap(1, 2);
    swapped.strides.swap(1, 2);
    swapped
}

/// A number on the GPU.
fn scalar(context: &mut Context, dtype: Dtype) -> Tensor {
    context.empty(Layout { dtype, shape: Dims::default(), strides: Dims::default() })
}

fn is_half(dtype: Dtype) -> bool {
    matches!(dtype, Dtype::Float16 | Dtype::Bfloat16)
}
