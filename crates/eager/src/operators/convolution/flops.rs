//! Floating-point operations of convolutions, as `torch.utils.flop_counter` counts them.

use vramfit_graph::bind::{Bound, BoundCall, Value};

use crate::operators::facts::{Flops, argument, elements};

/// A convolution that is not transposed.
pub(super) fn plain(bound: &Bound<'_>, call: &BoundCall<'_>, _is_fused: bool) -> Option<Flops> {
    convolution(bound, call, false)
}

/// A transposed convolution.
pub(super) fn transposed(bound: &Bound<'_>, call: &BoundCall<'_>, _is_fused: bool) -> Option<Flops> {
    convolution(bound, call, true)
}

/// `convolution`, whose argument 6 says whether it is transposed.
pub(super) fn general(bound: &Bound<'_>, call: &BoundCall<'_>, _is_fused: bool) -> Option<Flops> {
    convolution(bound, call, call.arguments.get(6) == Some(&Value::Bool(true)))
}

/// The counter's formula for a convolution of `input` into `output`: the positions of the kernel times its size.
fn convolved(input: &[i64], kernel: &[i64], output: &[i64], is_transposed: bool) -> u64 {
    let positions = if is_transposed { input } else { output };
    2 * elements(&positions[2..]) * elements(kernel) * input[0].unsigned_abs()
}

fn swapped(shape: &[i64]) -> Vec<i64> {
    let mut shape = shape.to_vec();
    shape.swap(0, 1);
    shape
}

fn convolution(bound: &Bound<'_>, call: &BoundCall<'_>, is_transposed: bool) -> Option<Flops> {
    let (input, weight) = (argument(bound, call, 0)?, argument(bound, call, 1)?);
    let result = bound.tensor((*call.results.first()?)?);
    let kernel = weight.shape.as_slice();
    // A single sample without its batch dimension is given one.
    let batched = |shape: &[i64]| match shape.len() < kernel.len() {
        true => std::iter::once(1).chain(shape.iter().copied()).collect(),
        false => shape.to_vec(),
    };
    let (from, to): (Vec<i64>, Vec<i64>) = (batched(&input.shape), batched(&result.shape));
    if from.len() != kernel.len() || to.len() != kernel.len() || kernel.len() < 3 {
        return None;
    }
    let for_input = convolved(&to, kernel, &from, !is_transposed);
    // The counter takes this one for a convolution of all channels with all, whatever the groups.
    let for_weight = if is_transposed {
        convolved(&swapped(&to), &swapped(&from), &swapped(kernel), false)
    } else {
        convolved(&swapped(&from), &swapped(&to), &swapped(kernel), false)
    };
    Some(Flops {
        forward: convolved(&from, kernel, &to, is_transposed),
        backward: u64::from(input.requires_grad) * for_input + u64::from(weight.requires_grad) * for_weight,
    })
}
