//! Products of eight-bit numbers ("LLM.int8()").

use smallvec::smallvec;
use vramfit_graph::dims::Dims;
use vramfit_graph::dtype::Dtype;

use crate::autograd::{Context, Tensor};
use crate::operators::call::{Call, Outcome, Unmodelled};
use crate::operators::reduction::any_of;

/// cuBLASLt multiplies rows whose length is a multiple of this; others are multiplied in single precision.
const MULTIPLE: i64 = 4;

/// `int8_vectorwise_quant(A, threshold)`: no value is assumed to reach the threshold.
pub(super) fn quantize(context: &mut Context, call: &Call<'_>) -> Outcome {
    let source = call.tensor(0)?.detach();
    let Some((_, outer)) = source.shape().split_last() else { return Err(Unmodelled) };
    let scales = context.empty_contiguous(Dtype::Float32, &[outer.iter().product()]);
    let quantized = context.empty_contiguous(Dtype::Int8, source.shape());
    if call.float(1)? <= 0.0 {
        return Ok(smallvec![quantized, scales]);
    }
    let sizes = context.empty(source.like(source.dtype()));
    let are_outliers = context.empty(source.like(Dtype::Bool));
    drop(sizes);
    drop(any_of(context, &are_outliers));
    let columns = context.empty_contiguous(Dtype::Int64, &[0]);
    // `quantized[:, columns] = 0`.
    if outer.iter().product::<i64>() > 1 {
        drop(context.empty_contiguous(Dtype::Int8, &[]));
    }
    drop(are_outliers);
    Ok(smallvec![quantized, scales, columns])
}

/// `int8_scaled_mm(A, B, row_stats, col_stats, bias, dtype)`.
pub(super) fn scaled_product(context: &mut Context, call: &Call<'_>) -> Outcome {
    let dtype = call.dtype(5).unwrap_or(Dtype::Float16);
    Ok(smallvec![product(context, call.tensor(0)?, call.tensor(1)?, dtype)?])
}

/// `int8_mixed_scaled_mm(A, CA, CB, SCA, SCB, outlier_cols, bias)`, without outliers.
pub(super) fn mixed_product(context: &mut Context, call: &Call<'_>) -> Outcome {
    let dtype = call.tensor(0)?.dtype();
    let none = context.empty_contiguous(dtype, &[0]);
    Ok(smallvec![product(context, call.tensor(1)?, call.tensor(2)?, dtype)?, none])
}

/// Sums of whole numbers, then the scaled result in half precision, then in the type that is asked for.
fn product(context: &mut Context, rows: &Tensor, weight: &Tensor, dtype: Dtype) -> Result<Tensor, Unmodelled> {
    let (Some((&inner, outer)), &[columns, _]) = (rows.shape().split_last(), weight.shape()) else {
        return Err(Unmodelled);
    };
    if inner % MULTIPLE != 0 {
        return Err(Unmodelled);
    }
    // `CUBLAS_Context.get_instance().get_context(device)` (`bitsandbytes/functional.py`).
    context.has_eight_bit_handle = true;
    let mut shape: Dims = outer.into();
    shape.push(columns);
    let sums = context.empty_contiguous(Dtype::Int32, &shape);
    let scaled = context.empty_contiguous(Dtype::Float16, &shape);
    let result = if dtype == Dtype::Float16 { scaled } else { context.empty_contiguous(dtype, &shape) };
    drop(sums);
    Ok(result)
}
