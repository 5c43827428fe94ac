//! Another shape given to the tensor itself (`unsqueeze_`, `transpose_`): as the view that would have it, but no view.

use crate::autograd::{Context, Tensor};
use crate::operators::call::{Call, Outcome, Unmodelled};

use super::{permuted, reshaped};

type Rule = fn(&mut Context, &Call<'_>) -> Outcome;

/// What a view's rule gives. A tensor in the graph would get another history, which is not modelled.
fn as_view(context: &mut Context, call: &Call<'_>, rule: Rule) -> Outcome {
    if call.tensor(0)?.requires_grad() {
        return Err(Unmodelled);
    }
    let own = |seen: Tensor| seen.unsafe_view(seen.shared_layout());
    rule(context, call).map(|results| results.into_iter().map(own).collect())
}

pub(super) fn unsqueeze(context: &mut Context, call: &Call<'_>) -> Outcome {
    as_view(context, call, reshaped::unsqueeze)
}

pub(super) fn squeeze(context: &mut Context, call: &Call<'_>) -> Outcome {
    as_view(context, call, reshaped::squeeze)
}

pub(super) fn transpose(context: &mut Context, call: &Call<'_>) -> Outcome {
    as_view(context, call, permuted::transpose)
}

pub(super) fn swap_last(context: &mut Context, call: &Call<'_>) -> Outcome {
    as_view(context, call, permuted::swap_last)
}
