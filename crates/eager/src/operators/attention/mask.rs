//! The mask, as backends want it: numbers to be added, in rows that are aligned.

use vramfit_graph::dims::Dims;
use vramfit_graph::dtype::Dtype;
use vramfit_graph::layout::Layout;

use super::inputs::{Inputs, scalar};
use super::steps;
use crate::autograd::{Context, Tensor};
use crate::operators::call::Unmodelled;

/// Elements to which the memory-efficient kernel wants a mask's rows aligned.
const ALIGNMENT: i64 = 8;

/// The mask as numbers to be added: a mask of truth values becomes `where(mask, 0, -inf)`.
pub(super) fn additive(context: &mut Context, mask: &Tensor, dtype: Dtype) -> Tensor {
    if mask.dtype() != Dtype::Bool {
        return mask.clone();
    }
    let hidden = scalar(context, dtype);
    let shown = scalar(context, dtype);
    let layout = Layout::broadcast(&[mask.layout(), shown.layout(), hidden.layout()], dtype);
    let result = context.empty(layout);
    drop(shown);
    drop(hidden);
    result
}

/// The mask with aligned rows, repeated to the whole shape; in the graph, because a mask may want a gradient.
pub(super) fn aligned(context: &mut Context, mask: Tensor, inputs: &Inputs<'_>) -> Result<Tensor, Unmodelled> {
    let mut result = mask.clone();
    if !is_aligned(&mask) {
        let width = *mask.shape().last().ok_or(Unmodelled)?;
        let padded = steps::padded(context, &mask, ALIGNMENT - width % ALIGNMENT)?;
        result = steps::narrowed(context, &padded, width)?;
    }
    drop(mask);
    let (query, key) = (inputs.query.shape(), inputs.key.shape());
    let shape = Dims::from([query[0], query[1], query[2], key[2]]);
    steps::expanded(context, &result, &shape)
}

fn is_aligned(mask: &Tensor) -> bool {
    let strides = &mask.layout().strides;
    let Some((last, others)) = strides.split_last() else { return false };
    *last == 1 && others.iter().all(|stride| stride % ALIGNMENT == 0)
}
