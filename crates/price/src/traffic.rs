//! Memory traffic of kernels that bandwidth did not limit on the H200: instructions, latencies or too few blocks did.

use crate::tables::PerPass;

/// Channels of the images on which batch norms were measured.
pub(crate) const MEASURED_CHANNELS: f64 = 64.0;

/// How often a kernel reads or writes an element of its extent, forward and backward. `None` for a kernel that was limited by
/// bandwidth.
pub(crate) fn accesses(kernel: &str) -> Option<PerPass<f64>> {
    Some(match kernel {
        // Statistics, then the result; backward reads input and gradient twice.
        "batch_norm" | "batch_norm_last" | "group_norm" => [3.0, 5.0],
        // A row stays in a multiprocessor; backward the gradients of weight and bias are another pass.
        "layer_norm" | "rms_norm" => [2.0, 5.0],
        "softmax" | "gelu" | "gelu_tanh" | "silu" | "sigmoid" | "hardswish" | "tanh" => [2.0, 3.0],
        "cross_entropy" | "cross_entropy_wide" | "log_softmax" => [3.0, 3.0],
        // The mask has a byte per element.
        "dropout" => [2.25, 2.25],
        "add_row" => [2.0, 1.0],
        "mul_row" => [2.0, 6.0],
        "contiguous" | "to_channels_last" | "pad" | "roll" | "masked_fill" | "cumsum" => [2.0, 2.0],
        // Indices have eight bytes for each of the results, which are a quarter of the elements.
        "max_pool" | "max_pool_last" => [2.0, 2.0],
        "avg_pool" => [1.25, 1.25],
        "adaptive_avg_pool" | "mean_last" => [1.0, 1.0],
        "upsample_bilinear" | "upsample_nearest" => [5.0, 5.0],
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::accesses;
    use crate::tables::TABLES;

    #[test]
    fn every_kernel_with_known_traffic_was_measured() {
        for kernel in
            ["batch_norm", "batch_norm_last", "group_norm", "layer_norm", "softmax", "dropout", "add_row", "max_pool"]
        {
            assert!(accesses(kernel).is_some() && TABLES.kernel(kernel).is_some(), "{kernel}");
        }
        assert_eq!(accesses("add"), None);
    }
}
