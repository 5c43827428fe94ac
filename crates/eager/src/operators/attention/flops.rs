//! Floating-point operations of attention, as `torch.utils.flop_counter` counts them.

use vramfit_graph::bind::{Bound, BoundCall};

use crate::operators::facts::{Flops, argument, elements};

/// Scores and their product with the values. Backward, a fused kernel computes the scores again.
pub(super) fn attention(bound: &Bound<'_>, call: &BoundCall<'_>, is_fused: bool) -> Option<Flops> {
    let (query, key, value) = (argument(bound, call, 0)?, argument(bound, call, 1)?, argument(bound, call, 2)?);
    let [leading @ .., queries, width] = query.shape.as_slice() else { return None };
    let &[.., keys, _] = key.shape.as_slice() else { return None };
    let &value_width = value.shape.last()?;
    let scores = 2 * elements(leading) * elements(&[*queries, *width, keys]);
    let mixed = 2 * elements(leading) * elements(&[*queries, keys, value_width]);
    let wants = [query, key, value].map(|tensor| u64::from(tensor.requires_grad));
    let backward = if is_fused {
        if wants == [0; 3] { 0 } else { 3 * scores + 2 * mixed }
    } else {
        (wants[0] + wants[1]) * scores + ((wants[0] | wants[1]) + wants[2]) * mixed
    };
    Some(Flops { forward: scores + mixed, backward })
}
