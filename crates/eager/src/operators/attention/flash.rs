//! FlashAttention 2 (`flash_api.cpp`).

use smallvec::smallvec;
use vramfit_graph::dtype::Dtype;
use vramfit_graph::layout::Layout;

use super::inputs::{Inputs, Sizes, swapped};
use super::steps;
use crate::autograd::{Backward, Context, Gradients, Node, ResultKind, Results, Tensor};
use crate::operators::call::Unmodelled;

/// Heads are padded to a multiple of this.
const WIDTH_ALIGNMENT: i64 = 8;
/// Backward works on blocks of this many queries.
const QUERIES_ALIGNMENT: i64 = 128;

#[derive(Debug)]
struct Flash;

/// Indexes of the saved tensors, in the order in which autograd frees them.
const KEY: usize = 0;
const QUERY: usize = 1;
const VALUE: usize = 2;
const OUTPUT: usize = 4;

impl Backward for Flash {
    fn apply(&self, context: &mut Context, node: &Node, gradients: &mut Gradients) -> Gradients {
        let Some(gradient) = gradients[0].clone() else { return smallvec![None, None, None] };
        let (query, key, value) = (node.saved(QUERY), node.saved(KEY), node.saved(VALUE));
        let Some(sizes) = Sizes::of(&query, &key, &value) else { return smallvec![None, None, None] };
        let gradient = context.contiguous(&swapped(&gradient));
        let output = context.contiguous(&swapped(&node.saved(OUTPUT)));
        let empty_like = |context: &mut Context, tensor: &Tensor| {
            let layout = swapped(tensor).like(tensor.dtype());
            swapped(&context.empty(layout))
        };
        let for_query = empty_like(context, &query);
        let for_key = empty_like(context, &key);
        let for_value = empty_like(context, &value);
        let Sizes { batch, heads, keys, width, .. } = sizes;
        let rows = round(sizes.queries, QUERIES_ALIGNMENT);
        let sums = context.empty_contiguous(Dtype::Float32, &[batch, heads, rows]);
        let gathered = context.empty_contiguous(Dtype::Float32, &[batch, rows, heads, rounded_width(width)]);
        if sizes.key_heads != heads {
            // Shared heads get a gradient for every head, which is then summed into theirs.
            let each_key = context.empty_contiguous(query.dtype(), &[batch, keys, heads, width]);
            let each_value = context.empty_contiguous(query.dtype(), &[batch, keys, heads, width]);
            drop(each_value);
            drop(each_key);
        }
        drop(gathered);
        drop(sums);
        drop(output);
        drop(gradient);
        smallvec![
            node.wants(0).then_some(for_query),
            node.wants(1).then_some(for_key),
            node.wants(2).then_some(for_value)
        ]
    }
}

pub(super) fn forward(context: &mut Context, inputs: &Inputs<'_>) -> Result<Tensor, Unmodelled> {
    let width = Sizes::of(inputs.query, inputs.key, inputs.value).ok_or(Unmodelled)?.width;
    let query = wide(context, inputs.query, width)?;
    let key = wide(context, inputs.key, width)?;
    let value = wide(context, inputs.value, width)?;
    let output = fused(context, [&query, &key, &value], inputs.dropout)?;
    let result = if width % WIDTH_ALIGNMENT == 0 { output } else { steps::narrowed(context, &output, width)? };
    drop(value);
    drop(key);
    drop(query);
    Ok(result)
}

/// The tensor with its last dimension padded as far as the kernel wants it.
fn wide(context: &mut Context, tensor: &Tensor, width: i64) -> Result<Tensor, Unmodelled> {
    if width % WIDTH_ALIGNMENT == 0 {
        return Ok(tensor.clone());
    }
    steps::padded(context, tensor, WIDTH_ALIGNMENT - width % WIDTH_ALIGNMENT)
}

fn fused(context: &mut Context, tensors: [&Tensor; 3], dropout: f64) -> Result<Tensor, Unmodelled> {
    let [query, key, value] = tensors;
    let sizes = Sizes::of(query, key, value).ok_or(Unmodelled)?;
    let Sizes { heads, queries, .. } = sizes;
    if queries == 1 && sizes.key_heads != heads {
        // The kernel then swaps groups and queries.
        return Err(Unmodelled);
    }
    let results = context.computed(ResultKind::Attention, |context| compute(context, query, sizes, dropout));
    let [output, sums, random_state, unused] = <[Tensor; 4]>::try_from(results.into_vec()).map_err(|_| Unmodelled)?;
    let edge = context.record(
        &[Some(query), Some(key), Some(value)],
        1,
        |_| {
            smallvec![
                Some(key.clone()),
                Some(query.clone()),
                Some(value.clone()),
                Some(sums.detach()),
                Some(output.detach()),
                Some(random_state.detach()),
                Some(unused.detach())
            ]
        },
        Flash,
    );
    drop(sums);
    drop(random_state);
    drop(unused);
    Ok(output.with_edge(edge))
}

/// Runs the kernel. Returns the output, the row sums, the state of the random numbers and an unused number.
fn compute(context: &mut Context, query: &Tensor, sizes: Sizes, dropout: f64) -> Results {
    let Sizes { batch, heads, queries, width, .. } = sizes;
    let layout = swapped(query).like(query.dtype());
    let output = swapped(&context.empty(layout));
    let sums = context.empty_contiguous(Dtype::Float32, &[batch, heads, queries]);
    let splits = if dropout == 0.0 { splits(sizes, context.gpu().multiprocessors) } else { 1 };
    let partials = (splits > 1).then(|| {
        let sums = context.empty_contiguous(Dtype::Float32, &[splits, batch, heads, queries]);
        let outputs = context.empty_contiguous(Dtype::Float32, &[splits, batch, heads, queries, rounded_width(width)]);
        (sums, outputs)
    });
    let state = Layout::contiguous(Dtype::Int64, &[2]);
    let mut random_state = context.empty(state.clone());
    let unused = context.empty(Layout::contiguous(Dtype::Int64, &[]));
    if dropout != 0.0 {
        random_state = context.empty(state);
    }
    if let Some((sums, outputs)) = partials {
        drop(sums);
        drop(outputs);
    }
    smallvec![output, sums, random_state, unused]
}

fn round(number: i64, to: i64) -> i64 {
    (number + to - 1) / to * to
}

fn rounded_width(width: i64) -> i64 {
    round(width, if width <= 128 { 32 } else { 64 })
}

/// Into how many parts the keys are split where queries alone would leave multiprocessors idle
/// (`num_splits_heuristic`).
fn splits(sizes: Sizes, multiprocessors: i64) -> i64 {
    let block = match sizes.width {
        ..=64 => 256,
        65..=128 => 128,
        _ => 64,
    };
    let key_blocks = ceil_div(sizes.keys, block);
    let blocks = sizes.batch * sizes.heads * ceil_div(sizes.queries, 64);
    let processors = multiprocessors * 2;
    if blocks as f32 >= 0.8 * processors as f32 {
        return 1;
    }
    let most = 128.min(processors).min(key_blocks);
    let is_eligible = |splits: i64| splits == 1 || ceil_div(key_blocks, splits) != ceil_div(key_blocks, splits - 1);
    let efficiency = |splits: i64| {
        let waves = (blocks * splits) as f32 / processors as f32;
        waves / waves.ceil()
    };
    let best = (1..=most).filter(|&splits| is_eligible(splits)).map(efficiency).fold(0.0_f32, f32::max);
    let is_good = |&splits: &i64| is_eligible(splits) && f64::from(efficiency(splits)) >= 0.85 * f64::from(best);
    (1..=most).find(is_good).unwrap_or(1)
}

fn ceil_div(number: i64, by: i64) -> i64 {
    (number + by - 1) / by
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(heads: i64, width: i64) -> Sizes {
        let (queries, keys, key_heads, value_heads) = (333, 333, heads, heads);
        Sizes { batch: 3, heads, key_heads, value_heads, queries, keys, width, value_width: width }
    }

    #[test]
    fn keys_are_split_until_the_gpu_is_busy() {
        assert_eq!(splits(sizes(3, 64), 132), 2);
        assert_eq!(splits(sizes(3, 80), 132), 3);
        assert_eq!(splits(sizes(3, 256), 132), 3);
        assert_eq!(splits(sizes(8, 64), 132), 1);
    }
}
