//! Weights that bitsandbytes quantises while they are moved to the GPU (0.50).

use vramfit_eager::autograd::{Context, Tensor};
use vramfit_eager::kernels::reduce::Reduction;
use vramfit_graph::bind::Bound;
use vramfit_graph::dtype::Dtype;
use vramfit_graph::model::{Precision, Quantization, Scheme, TensorId, Weight};

use super::moves::{Tensors, layout, move_tensor};

/// The table of values that eight bits stand for, which the library keeps.
const TABLE_ENTRIES: i64 = 256;

/// Moves a quantised weight and the tensors beside it. `table` is what the library keeps from the first on.
pub(super) fn move_quantized(
    bound: &Bound<'_>,
    context: &mut Context,
    tensors: &mut Tensors,
    weight: &Weight,
    quantization: &Quantization,
    table: &mut Option<Tensor>,
) {
    let slots: Vec<TensorId> = quantization.states.iter().copied().chain([weight.tensor]).collect();
    let made: Vec<Tensor> = match quantization.scheme {
        _ if quantization.is_moved_packed => slots.iter().map(|id| move_tensor(bound, context, *id)).collect(),
        Scheme::FourBit { is_nested, .. } => {
            let moved = moved_whole(context, quantization, source_dtype(bound, quantization));
            let made = four_bits(bound, context, &slots, is_nested, table);
            drop(moved);
            made
        }
        Scheme::EightBit => {
            let moved = moved_whole(context, quantization, Dtype::Float16);
            let made = slots.iter().map(|id| like(bound, context, *id)).collect();
            drop(moved);
            made
        }
    };
    for (id, tensor) in slots.into_iter().zip(made) {
        tensors[id.0 as usize] = Some(tensor);
    }
}

/// The type that the weight has when it is quantised.
fn source_dtype(bound: &Bound<'_>, quantization: &Quantization) -> Dtype {
    match bound.variant.precision {
        Precision::AsBuilt => quantization.dtype,
        Precision::Cast(dtype) => dtype,
        Precision::Autocast(_) => Dtype::Float32,
    }
}

/// The weight before it is quantised.
fn moved_whole(context: &mut Context, quantization: &Quantization, dtype: Dtype) -> Tensor {
    let moved = context.empty_contiguous(dtype, &quantization.shape);
    context.memory().borrow_mut().host_frees(moved.memory_bytes());
    moved
}

fn like(bound: &Bound<'_>, context: &Context, id: TensorId) -> Tensor {
    context.empty(layout(bound.tensor(id)))
}

/// `quantize_4bit`: the scales of all blocks, the packed weight, the table of values, then the scales quantised in turn.
fn four_bits(
    bound: &Bound<'_>,
    context: &mut Context,
    slots: &[TensorId],
    is_nested: bool,
    table: &mut Option<Tensor>,
) -> Vec<Tensor> {
    let values = |context: &Context, id: TensorId| {
        let values = like(bound, context, id);
        let sizes = like(bound, context, id);
        let largest = context.empty_contiguous(Dtype::Float32, &[]);
        drop(sizes);
        drop(largest);
        values
    };
    match *slots {
        [scales, code, packed] if !is_nested => {
            let scales = like(bound, context, scales);
            let packed = like(bound, context, packed);
            let code = values(context, code);
            vec![scales, code, packed]
        }
        [code, offset, outer_scales, scales, outer_code, packed] if is_nested => {
            let blocks = bound.tensor(scales).shape.clone();
            let plain = context.empty_contiguous(Dtype::Float32, &blocks);
            let packed = like(bound, context, packed);
            let code = values(context, code);
            let mean = context.reduce(&plain, &[], false, Dtype::Float32, Reduction::summing(Dtype::Float32));
            let shifted = context.empty_contiguous(Dtype::Float32, &blocks);
            table.get_or_insert_with(|| context.empty_contiguous(Dtype::Float32, &[TABLE_ENTRIES]));
            let outer_scales = like(bound, context, outer_scales);
            let scales = like(bound, context, scales);
            let outer_code = like(bound, context, outer_code);
            drop(shifted);
            drop(plain);
            debug_assert_eq!(bound.tensor(offset).elements, 1);
            vec![code, mean, outer_scales, scales, outer_code, packed]
        }
        // The reader has checked how many there are.
        _ => slots.iter().map(|id| like(bound, context, *id)).collect(),
    }
}
