//! Products with weights that bitsandbytes has quantised, and what undoes the quantisation (0.50).

mod eight_bit;
mod fused;

use smallvec::smallvec;
use vramfit_graph::dims::Dims;
use vramfit_graph::dtype::Dtype;

use super::call::{Call, Outcome, Unmodelled};
use super::facts::*;
use super::product::linear;
use crate::autograd::Context;
use fused::Product;

/// What the family's operators have in common. Their own autograd functions call them, so nothing is recorded here.
const FAMILY: Facts =
    Facts::of_family(Library::Own, Launch::Kernel, Time::ASSUMED, Keeps::Nothing, Autocast::Unchanged, Samples::Apart);

const PRODUCT: Time = Time { work: Work::UnpackedProduct, dispatch: "linear" };

pub(super) const OPERATORS: &[Operator] = &[
    Operator::new(
        &["bitsandbytes.gemm_4bit.default"],
        Facts { memory: Modelled(gemm), time: PRODUCT, samples: Samples::Product, ..FAMILY },
    ),
    Operator::new(
        &["bitsandbytes.dequantize_blockwise.default"],
        Facts { memory: Modelled(dequantize_blocks), time: Time::moves("to_half", Extent::Result), ..FAMILY },
    ),
    Operator::new(
        &["bitsandbytes.dequantize_4bit.default"],
        Facts { memory: Modelled(dequantize), time: Time::moves("to_half", Extent::Result), ..FAMILY },
    ),
    Operator::new(
        &["bitsandbytes.int8_vectorwise_quant.default"],
        Facts { memory: Modelled(eight_bit::quantize), time: Time::moves("to_half", Extent::Input), ..FAMILY },
    ),
    Operator::new(
        &["bitsandbytes.int8_scaled_mm.default"],
        Facts { memory: Modelled(eight_bit::scaled_product), time: PRODUCT, samples: Samples::Product, ..FAMILY },
    ),
    Operator::new(
        &["bitsandbytes.int8_mixed_scaled_mm.default"],
        Facts { memory: Modelled(eight_bit::mixed_product), time: PRODUCT, samples: Samples::Product, ..FAMILY },
    ),
];

/// `gemm_4bit(A, B, shapeB, absmax, blocksize, quant_type, bias, absmax_8bit, absmax_code, absmax_offset)`: one kernel where that
/// is quick, else the weight is unpacked for a plain product.
fn gemm(context: &mut Context, call: &Call<'_>) -> Outcome {
    let input = call.tensor(0)?.detach();
    let shape = call.ints(2)?;
    let (&[rows, inner], Some((_, outer))) = (&shape[..], input.shape().split_last()) else {
        return Err(Unmodelled);
    };
    let product = Product { dtype: input.dtype(), samples: outer.iter().product(), rows, inner, block: call.int(4)? };
    if product.is_fused(context.compute(), context.gpu().multiprocessors) {
        let given = context.contiguous(&input);
        let mut shape: Dims = outer.into();
        shape.push(rows);
        let result = context.empty_contiguous(given.dtype(), &shape);
        return Ok(smallvec![result]);
    }
    let scales = call.optional_tensor(7).map(|packed| {
        let unpacked = context.empty_contiguous(Dtype::Float32, packed.shape());
        let moved = context.empty_contiguous(Dtype::Float32, packed.shape());
        (moved, unpacked)
    });
    let weight = context.empty_contiguous(input.dtype(), &shape);
    let bias = call.optional_tensor(6).map(|bias| bias.detach());
    let result = match context.autocast().filter(|dtype| *dtype != input.dtype()) {
        None => linear(context, &input, &weight, bias.as_ref()),
        // The library does not keep autocast out.
        Some(dtype) => {
            let bias = bias.map(|bias| context.empty(bias.like(dtype)));
            let cast = context.empty(weight.like(dtype));
            let given = context.empty(input.like(dtype));
            linear(context, &given, &cast, bias.as_ref())
        }
    };
    drop(scales);
    drop(weight);
    result
}

/// `dequantize_blockwise(A, absmax, code, blocksize, dtype)`.
fn dequantize_blocks(context: &mut Context, call: &Call<'_>) -> Outcome {
    let dtype = call.dtype(4).ok_or(Unmodelled)?;
    let packed = call.tensor(0)?;
    Ok(smallvec![context.empty(packed.like(dtype))])
}

/// `dequantize_4bit(A, absmax, blocksize, quant_type, shape, dtype)`.
fn dequantize(context: &mut Context, call: &Call<'_>) -> Outcome {
    let dtype = call.dtype(5).ok_or(Unmodelled)?;
    Ok(smallvec![context.empty_contiguous(dtype, &call.ints(4)?)])
}
