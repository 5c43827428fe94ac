//! Products of groups of rows, each with a matrix of its own, as the experts of a layer compute them.

use smallvec::smallvec;
use vramfit_graph::dims::Dims;
use vramfit_graph::dtype::Dtype;
use vramfit_graph::layout::Layout;

use crate::autograd::{Context, Gradients, Node, Tensor};
use crate::operators::call::{Call, Outcome, Unmodelled};
use crate::operators::function::Function;

/// Bytes that the fused kernel reads of each group: pointers, sizes and strides.
const BYTES_A_GROUP: u64 = 60;
/// Bytes of descriptors that each multiprocessor writes for itself.
const BYTES_A_MULTIPROCESSOR: u64 = 512;

/// What a fused kernel allocates while it is launched. Without one each group is a product of its own, written to its place.
fn launch(context: &mut Context, groups: i64, is_fused: bool) {
    if is_fused {
        let described = context.scratch(BYTES_A_GROUP * groups.unsigned_abs());
        let multiprocessors = context.gpu().multiprocessors.unsigned_abs();
        let workspace = context.scratch(BYTES_A_MULTIPROCESSOR * multiprocessors);
        drop(workspace);
        drop(described);
    } else {
        context.use_blas();
    }
}

/// The result of a product, its rows at multiples of 16 bytes.
fn made(context: &Context, dtype: Dtype, shape: &[i64]) -> Tensor {
    let multiple = 16 / dtype.bytes().cast_signed();
    let mut padded: Dims = shape.into();
    if let Some(last) = padded.last_mut() {
        *last = (*last + multiple - 1) / multiple * multiple;
    }
    let whole = Layout::contiguous(dtype, &padded);
    let strides = whole.strides.clone();
    context.empty(whole).unsafe_view(Layout { dtype, shape: shape.into(), strides })
}

#[derive(Debug)]
struct Groups {
    count: i64,
    is_fused: bool,
}

/// `_grouped_mm(rows, matrices, offs)`: rows of a matrix in groups, the ends of which `offs` holds.
pub(super) fn grouped(context: &mut Context, call: &Call<'_>) -> Outcome {
    let (rows, matrices) = (call.tensor(0)?, call.tensor(1)?);
    let Some(ends) = call.optional_tensor(2) else { return Err(Unmodelled) };
    let (&[count, _], &[groups, _, columns]) = (rows.shape(), matrices.shape()) else { return Err(Unmodelled) };
    let is_half = rows.dtype() == Dtype::Bfloat16;
    let is_fused = is_half && context.compute().major == 9;
    if call.optional_tensor(3).is_some() || (is_half && context.compute().major > 9) {
        return Err(Unmodelled);
    }
    let result = made(context, rows.dtype(), &[count, columns]);
    launch(context, groups, is_fused);
    let saved = |_: &dyn Fn(usize) -> bool| smallvec![Some(matrices.clone()), Some(ends.clone()), Some(rows.clone())];
    let backward = Function(Groups { count: groups, is_fused }, gradients);
    let edge = context.record(&[Some(rows), Some(matrices)], 1, saved, backward);
    Ok(smallvec![result.with_edge(edge)])
}

/// The gradient of the matrices is found first, in the order in which they are stored.
fn gradients(kept: &Groups, context: &mut Context, node: &Node, gradient: Tensor) -> Gradients {
    let dtype = gradient.dtype();
    let of_matrices = node.wants(1).then(|| {
        let matrices = node.saved(0);
        let Layout { shape, strides, .. } = matrices.layout();
        let is_turned = strides[1] == 1 && strides[2] != 1;
        let result = if is_turned {
            let turned = made(context, dtype, &[shape[0], shape[2], shape[1]]);
            let stored = turned.layout().strides.clone();
            let strides = Dims::from([stored[0], stored[2], stored[1]]);
            turned.view(Layout { dtype, shape: shape.clone(), strides })
        } else {
            made(context, dtype, shape)
        };
        launch(context, kept.count, kept.is_fused);
        result
    });
    let of_rows = node.wants(0).then(|| {
        let result = made(context, dtype, node.saved(2).shape());
        launch(context, kept.count, kept.is_fused);
        result
    });
    smallvec![of_rows, of_matrices]
}
