//! cuDNN's fused attention (`MHA.cpp`).
//!
//! Its workspaces are those of cudnn-frontend's graphs: backward a float32 accumulator for the query's gradient, the
//! row sums of the softmax's gradient, and where heads are shared the gradients of keys and values for every head; 256
//! bytes more in either direction are the library's own. A single query runs another forward kernel, which needs none.

use smallvec::smallvec;
use vramfit_graph::dims::Dims;
use vramfit_graph::dtype::Dtype;
use vramfit_graph::layout::Layout;

use super::inputs::{Inputs, Sizes};
use crate::autograd::{Backward, Context, Gradients, Node, ResultKind, Results, Tensor};
use crate::operators::call::Unmodelled;

/// Bytes that cuDNN asks for beside what the graph's tensors need.
const LIBRARY: u64 = 256;

#[derive(Debug)]
struct Cudnn;

/// Indexes of the saved tensors, in the order in which autograd frees them.
const KEY: usize = 1;
const QUERY: usize = 2;
const VALUE: usize = 3;
const OUTPUT: usize = 5;

impl Backward for Cudnn {
    fn apply(&self, context: &mut Context, node: &Node, gradients: &mut Gradients) -> Gradients {
        let Some(gradient) = gradients[0].clone() else { return smallvec![None, None, None] };
        context.use_dnn();
        context.use_dnn_handle();
        let (query, key, value) = (node.saved(QUERY), node.saved(KEY), node.saved(VALUE));
        let empty_like = |context: &mut Context, tensor: &Tensor| context.empty(tensor.like(tensor.dtype()));
        let for_query = empty_like(context, &query);
        let for_key = empty_like(context, &key);
        let for_value = empty_like(context, &value);
        // A gradient whose rows are not contiguous is copied into the output's order of dimensions.
        let copy = (gradient.layout().strides.last() != Some(&1)).then(|| {
            let output = node.saved(OUTPUT);
            context.empty(ordered_as(output.layout(), gradient.shape(), gradient.dtype()))
        });
        if let Some(sizes) = Sizes::of(&query, &key, &value) {
            drop(context.scratch(backward_workspace(sizes, query.dtype().bytes())));
        }
        drop(copy);
        smallvec![
            node.wants(0).then_some(for_query),
            node.wants(1).then_some(for_key),
            node.wants(2).then_some(for_value)
        ]
    }
}

pub(super) fn forward(context: &mut Context, inputs: &Inputs<'_>) -> Result<Tensor, Unmodelled> {
    let Inputs { query, key, value, mask, .. } = *inputs;
    let sizes = Sizes::of(query, key, value).ok_or(Unmodelled)?;
    context.use_dnn();
    context.use_dnn_handle();
    context.note_assumed_workspace();
    let results =
        context.computed(ResultKind::Attention, |context| compute(context, query, sizes, inputs.wants_gradient));
    let mut results = results.into_iter();
    let (Some(output), Some(seed), Some(offset)) = (results.next(), results.next(), results.next()) else {
        return Err(Unmodelled);
    };
    let sums = results.next();
    let edge = context.record(
        &[Some(query), Some(key), Some(value)],
        1,
        |_| {
            smallvec![
                mask.cloned(),
                Some(key.clone()),
                Some(query.clone()),
                Some(value.clone()),
                sums.as_ref().map(Tensor::detach),
                Some(output.detach()),
                Some(offset.detach()),
                Some(seed.detach())
            ]
        },
        Cudnn,
    );
    drop(sums);
    drop(seed);
    drop(offset);
    Ok(output.with_edge(edge))
}

/// Runs the kernel. Returns the output, seed and offset of the random numbers, and the row sums that a gradient needs.
fn compute(context: &mut Context, query: &Tensor, sizes: Sizes, wants_gradient: bool) -> Results {
    let number = Layout::contiguous(Dtype::Int64, &[]);
    let seed = context.empty(number.clone());
    let offset = context.empty(number);
    let shape = [sizes.batch, sizes.heads, sizes.queries, sizes.value_width];
    let layout = if query.shape() == shape {
        query.like(query.dtype())
    } else {
        ordered_as(query.layout(), &shape, query.dtype()).into()
    };
    let output = context.empty(layout);
    let sums =
        wants_gradient.then(|| context.empty_contiguous(Dtype::Float32, &[sizes.batch, sizes.heads, sizes.queries, 1]));
    if sizes.queries != 1 {
        drop(context.scratch(LIBRARY));
    }
    let mut results: Results = smallvec![output, seed, offset];
    results.extend(sums);
    results
}

/// A dense layout of `shape` in the order of dimensions that `model` has.
fn ordered_as(model: &Layout, shape: &[i64], dtype: Dtype) -> Layout {
    let mut order: Dims = (0..shape.len() as i64).collect();
    order.sort_by_key(|&dim| model.strides[dim as usize]);
    let mut strides = Dims::filled(1, shape.len());
    let mut expected = 1;
    for &dim in &order {
        strides[dim as usize] = expected;
        expected *= shape[dim as usize];
    }
    Layout { dtype, shape: shape.into(), strides }
}

/// Bytes of the backward workspace; `element` is the size of the inputs' elements.
fn backward_workspace(sizes: Sizes, element: u64) -> u64 {
    let rows = (sizes.batch * sizes.heads * sizes.queries).unsigned_abs();
    let key_rows = (sizes.batch * sizes.heads * sizes.keys).unsigned_abs();
    let (width, value_width) = (sizes.width.unsigned_abs(), sizes.value_width.unsigned_abs());
    let mut bytes = rows * width * 4 + rows * 4 + LIBRARY;
    if sizes.key_heads != sizes.heads {
        bytes += key_rows * width * element;
    }
    if sizes.value_heads != sizes.heads {
        bytes += key_rows * value_width * element;
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(heads: i64, key_heads: i64, queries: i64, keys: i64) -> Sizes {
        let (width, value_width) = (64, 64);
        Sizes { batch: 3, heads, key_heads, value_heads: key_heads, queries, keys, width, value_width }
    }

    #[test]
    fn backward_accumulates_in_float32_and_sums_rows() {
        assert_eq!(backward_workspace(sizes(3, 3, 333, 333), 2), 779_476);
        assert_eq!(backward_workspace(sizes(4, 4, 1, 333), 2), 3376);
    }

    #[test]
    fn shared_heads_get_gradients_for_every_head_first() {
        assert_eq!(backward_workspace(sizes(8, 2, 333, 333), 2), 4_124_128);
    }
}
