//! The memory-efficient kernels (`mem_eff_attention`, compiled for compute capability 8.0 and later).

use smallvec::smallvec;
use vramfit_graph::dtype::Dtype;
use vramfit_graph::layout::{Layout, contiguous_strides};

use super::inputs::{Inputs, Sizes, swapped};
use crate::autograd::{Backward, Context, Gradients, Node, ResultKind, Results, Tensor};
use crate::operators::call::Unmodelled;

/// The backward kernels read the row sums in blocks of this many.
const SUMS_ALIGNMENT: i64 = 32;
/// The widest value whose forward accumulator stays in registers.
const WIDEST_IN_REGISTERS: i64 = 128;
/// Elements to which the rows of a mask's gradient are aligned.
const MASK_GRADIENT_ALIGNMENT: i64 = 16;

#[derive(Debug)]
struct Efficient;

/// Indexes of the saved tensors, in the order in which autograd frees them.
const MASK: usize = 0;
const KEY: usize = 1;
const QUERY: usize = 2;
const VALUE: usize = 3;
const OUTPUT: usize = 5;

impl Backward for Efficient {
    fn apply(&self, context: &mut Context, node: &Node, gradients: &mut Gradients) -> Gradients {
        let Some(gradient) = gradients[0].clone() else { return smallvec![None, None, None, None] };
        let (query, key, value) = (node.saved(QUERY), node.saved(KEY), node.saved(VALUE));
        let dtype = query.dtype();
        let gradient = context.contiguous(&swapped(&gradient));
        let empty_like =
            |context: &mut Context, tensor: &Tensor| swapped(&context.empty_contiguous(dtype, swapped(tensor).shape()));
        let for_query = empty_like(context, &query);
        let for_key = empty_like(context, &key);
        let for_value = empty_like(context, &value);
        let for_mask = node.wants(3).then(|| mask_gradient(context, &node.saved(MASK)));
        let delta = delta(context, &gradient, &swapped(&node.saved(OUTPUT)));
        let bytes = Sizes::of(&query, &key, &value).map_or(0, |sizes| Kernel::of(dtype, sizes).workspace(sizes));
        let workspace = context.scratch(bytes);
        drop(delta);
        drop(workspace);
        drop(gradient);
        smallvec![
            node.wants(0).then_some(for_query),
            node.wants(1).then_some(for_key),
            node.wants(2).then_some(for_value),
            for_mask
        ]
    }
}

/// The gradient of the mask, in rows that are aligned.
fn mask_gradient(context: &mut Context, mask: &Tensor) -> Tensor {
    let mut layout = mask.layout().clone();
    let Some(width) = layout.shape.last_mut() else { return context.empty(layout) };
    *width = align(*width, MASK_GRADIENT_ALIGNMENT);
    layout.strides = contiguous_strides(&layout.shape);
    let whole = context.empty(layout.clone());
    layout.shape = mask.shape().into();
    whole.view(layout)
}

/// The row sums of gradient times output, one a head and query: half-precision kernels compute them themselves.
fn delta(context: &mut Context, gradient: &Tensor, output: &Tensor) -> Tensor {
    if gradient.dtype().is_half() {
        let &[batch, queries, heads, _] = gradient.shape() else { return gradient.clone() };
        return context.empty_contiguous(Dtype::Float32, &[batch, heads, queries]);
    }
    let layout = Layout::broadcast(&[gradient.layout(), output.layout()], Dtype::Float32);
    let product = context.empty(layout);
    let sum = context.sum(&product, &[3], false, Dtype::Float32);
    let result = context.contiguous(&swapped(&sum));
    drop(sum);
    drop(product);
    result
}

pub(super) fn forward(context: &mut Context, inputs: &Inputs<'_>) -> Result<Tensor, Unmodelled> {
    let Inputs { query, key, value, mask, .. } = *inputs;
    let sizes = Sizes::of(query, key, value).ok_or(Unmodelled)?;
    let results =
        context.computed(ResultKind::Attention, |context| compute(context, query, sizes, inputs.wants_gradient));
    let mut results = results.into_iter();
    let output = results.next().ok_or(Unmodelled)?;
    let sums = results.next();
    // Seed and offset of the random numbers are tensors on the host.
    let edge = context.record(
        &[Some(query), Some(key), Some(value), mask],
        1,
        |_| {
            smallvec![
                mask.cloned(),
                Some(key.clone()),
                Some(query.clone()),
                Some(value.clone()),
                sums.as_ref().map(Tensor::detach),
                Some(output.detach())
            ]
        },
        Efficient,
    );
    drop(sums);
    Ok(output.with_edge(edge))
}

/// Runs the kernel. Returns the output, and the row sums that a gradient needs.
fn compute(context: &mut Context, query: &Tensor, sizes: Sizes, wants_gradient: bool) -> Results {
    let Sizes { batch, heads, queries, width, value_width, .. } = sizes;
    let shape = [batch, queries, heads, value_width];
    let output = swapped(&context.empty_contiguous(query.dtype(), &shape));
    let sums = wants_gradient
        .then(|| context.empty_contiguous(Dtype::Float32, &[batch, heads, align(queries, SUMS_ALIGNMENT)]));
    if query.dtype().is_half() && width.max(value_width) > WIDEST_IN_REGISTERS {
        drop(context.empty_contiguous(Dtype::Float32, &shape));
    }
    let mut results: Results = smallvec![output];
    results.extend(sums);
    results
}

fn align(number: i64, to: i64) -> i64 {
    number.div_euclid(to) * to + if number % to == 0 { 0 } else { to }
}

fn ceil_div(number: i64, by: i64) -> i64 {
    (number + by - 1) / by
}

/// A backward kernel: the block of queries and keys it works on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Kernel {
    queries: i64,
    keys: i64,
    /// Whether keys' and values' gradients are gathered in memory, not in registers.
    gathers_in_memory: bool,
}

impl Kernel {
    /// The kernel that is launched: the first of those compiled that takes the width.
    fn of(dtype: Dtype, sizes: Sizes) -> Kernel {
        let width = sizes.width.max(sizes.value_width);
        let (queries, keys) = match (dtype.is_half(), width) {
            (_, ..=64) => (64, 64),
            (true, ..=128) => (128, 128),
            _ => (128, 64),
        };
        Kernel { queries, keys, gathers_in_memory: dtype.is_half() && width > 128 }
    }

    /// Into how many parts the keys are split.
    fn splits(self, sizes: Sizes) -> i64 {
        let blocks = sizes.batch * sizes.heads;
        let mut splits = ceil_div(sizes.keys, self.keys);
        if blocks >= 256 && sizes.keys <= 2 * self.keys {
            splits = 1;
        }
        if self.gathers_in_memory {
            splits = splits.min(200 / blocks.max(1));
        }
        splits.max(1)
    }

    /// Bytes in which gradients are gathered.
    fn workspace(self, sizes: Sizes) -> u64 {
        let gathered = |width: i64| {
            if self.gathers_in_memory { self.splits(sizes) * self.keys * align(width, self.queries) } else { 0 }
        };
        // Each tile of the query's gradient has a lock and a counter before it, 16 bytes with their padding.
        let tile = self.queries * self.keys + 4;
        let tiles = ceil_div(sizes.queries, self.queries) * ceil_div(sizes.width, self.keys);
        let elements = gathered(sizes.width) + gathered(sizes.value_width) + tiles * tile;
        (sizes.batch * sizes.heads * align(elements, 4) * 4).unsigned_abs()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workspace(dtype: Dtype, width: i64, queries: i64) -> u64 {
        let sizes = Sizes {
            batch: 3,
            heads: 3,
            key_heads: 3,
            value_heads: 3,
            queries,
            keys: queries,
            width,
            value_width: width,
        };
        Kernel::of(dtype, sizes).workspace(sizes)
    }

    #[test]
    fn the_workspace_holds_tiles_of_the_querys_gradient() {
        assert_eq!(workspace(Dtype::Float32, 64, 333), 885_600);
        assert_eq!(workspace(Dtype::Float32, 96, 333), 1_770_336);
        assert_eq!(workspace(Dtype::Float32, 256, 333), 3_540_672);
        assert_eq!(workspace(Dtype::Bfloat16, 80, 333), 1_769_904);
    }

    #[test]
    fn wide_half_precision_heads_gather_keys_and_values_too() {
        assert_eq!(workspace(Dtype::Bfloat16, 256, 333), 10_618_560);
        assert_eq!(workspace(Dtype::Bfloat16, 512, 99), 7_079_040);
    }
}
