//! The gradient of an embedding: sorted by row, summed in parts of ten, the parts summed (`EmbeddingBackwardKernel.cu`).

use super::reduce::Gpu;

const ROWS_A_PART: i64 = 10;
const MOST_THREADS: i64 = 1024;
const WARP: i64 = 32;
const BLOCKS_A_MULTIPROCESSOR: i64 = 4;

/// Up to so many indices are added one by one, without sorting.
pub const MOST_UNSORTED: i64 = 3072;

/// How many parts there may be, and how they are summed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parts {
    /// The most rows that indices can name.
    pub segments: i64,
    /// The most parts they can be split into.
    pub parts: i64,
    /// Whether parts are added to the result as they are made, instead of being kept and summed.
    pub is_fused: bool,
}

/// How the gradient of `rows` rows of `width` is summed from `indices`.
pub fn parts(indices: i64, rows: i64, width: i64, gpu: Gpu) -> Parts {
    let segments = indices.min(rows);
    let parts = indices / ROWS_A_PART + segments;
    let warped = (width + WARP - 1) / WARP * WARP;
    let block = warped.clamp(1, MOST_THREADS);
    let grid = (segments * warped + block - 1) / block;
    let is_fused = grid < gpu.multiprocessors * BLOCKS_A_MULTIPROCESSOR && parts > grid * 4;
    Parts { segments, parts, is_fused }
}

#[cfg(test)]
mod tests {
    use super::*;

    const H200: Gpu = Gpu { multiprocessors: 132, threads_per_multiprocessor: 2048 };

    #[test]
    fn few_rows_named_often_are_added_as_they_come() {
        assert!(parts(16_000, 512, 129, H200).is_fused);
        assert!(parts(3073, 100, 129, H200).is_fused);
    }

    #[test]
    fn rows_named_a_few_times_are_kept_and_summed() {
        let found = parts(4096, 512, 129, H200);
        assert_eq!(found, Parts { segments: 512, parts: 921, is_fused: false });
        assert!(!parts(65_536, 5003, 129, H200).is_fused);
    }
}
