//! In what sums are kept.

use vramfit_graph::dtype::Dtype;

/// The type in which a type is summed up.
pub fn accumulator_dtype(dtype: Dtype) -> Dtype {
    match dtype {
        Dtype::Float16 | Dtype::Bfloat16 => Dtype::Float32,
        other => other,
    }
}
