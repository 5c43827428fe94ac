//! `scaled_dot_product_attention`: the backend is chosen, then run.

use smallvec::smallvec;

use super::inputs::Inputs;
use super::select::{self, Backend};
use super::{cudnn, efficient, flash, mask, math};
use crate::autograd::{Context, Tensor};
use crate::operators::call::{Call, Outcome, Unmodelled};

/// The largest batch that a fused kernel takes at once.
const LARGEST_BATCH: i64 = 65_535;

pub(super) fn attention(context: &mut Context, call: &Call<'_>) -> Outcome {
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
pub(super) fn run(context: &mut Context, inputs: Inputs<'_>, backend: Backend) -> Result<Tensor, Unmodelled> {
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
