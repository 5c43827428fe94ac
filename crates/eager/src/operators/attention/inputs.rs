//! What attention is called with, and the small things that its backends share.

use vramfit_graph::dims::Dims;
use vramfit_graph::dtype::Dtype;
use vramfit_graph::layout::Layout;

use crate::autograd::{Context, Tensor};

/// What attention is called with.
#[derive(Clone, Copy, Debug)]
pub(super) struct Inputs<'a> {
    pub query: &'a Tensor,
    pub key: &'a Tensor,
    pub value: &'a Tensor,
    pub mask: Option<&'a Tensor>,
    pub dropout: f64,
    pub is_causal: bool,
    /// Whether keys and values may have fewer heads than queries.
    pub is_grouped: bool,
    /// Whether the graph is being built and query, key or value take part in it.
    pub wants_gradient: bool,
}

/// The sizes of attention over four dimensions: batch, heads, sequence, width.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sizes {
    pub batch: i64,
    pub heads: i64,
    pub key_heads: i64,
    pub value_heads: i64,
    pub queries: i64,
    pub keys: i64,
    pub width: i64,
    pub value_width: i64,
}

impl Sizes {
    pub fn of(query: &Tensor, key: &Tensor, value: &Tensor) -> Option<Sizes> {
        let (&[batch, heads, queries, width], &[_, key_heads, keys, _], &[_, value_heads, _, value_width]) =
            (query.shape(), key.shape(), value.shape())
        else {
            return None;
        };
        Some(Sizes { batch, heads, key_heads, value_heads, queries, keys, width, value_width })
    }
}

/// The tensor with sequence and heads swapped: (batch, heads, sequence, width) as (batch, sequence, heads, width). The kernels swap them
/// below autograd, which does not see a view: a gradient that nothing else holds is added to in place.
pub(super) fn swapped(tensor: &Tensor) -> Tensor {
    tensor.unsafe_view(swapped_layout(tensor.layout()))
}

pub(super) fn swapped_layout(layout: &Layout) -> Layout {
    let mut swapped = layout.clone();
    swapped.shape.swap(1, 2);
    swapped.strides.swap(1, 2);
    swapped
}

/// A number on the GPU.
pub(super) fn scalar(context: &mut Context, dtype: Dtype) -> Tensor {
    context.empty(Layout { dtype, shape: Dims::default(), strides: Dims::default() })
}
