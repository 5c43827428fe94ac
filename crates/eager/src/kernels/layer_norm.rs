//! Layer and RMS norm: when the gradients of scale and shift are summed in two passes, which needs a buffer.
//!
//! PyTorch 2.11 splits the sum over rows where rows are many and columns few (`layer_norm_kernel.cu`).

use super::reduce::Gpu;

const BLOCK_COLUMNS: i64 = 32;
const BLOCK_ROWS: i64 = 32;
const MOST_BLOCKS: i64 = 32 * 1024;

/// How many partial sums each column gets, where the sum is split.
pub fn partial_rows(rows: i64, columns: i64, gpu: Gpu) -> Option<i64> {
    if rows <= 64 * 1024 || columns / BLOCK_COLUMNS >= gpu.multiprocessors / 2 {
        return None;
    }
    let wide = (columns + BLOCK_COLUMNS - 1) / BLOCK_COLUMNS;
    Some(((rows + BLOCK_ROWS - 1) / BLOCK_ROWS).min(MOST_BLOCKS / wide))
}

#[cfg(test)]
mod tests {
    use super::*;

    const H200: Gpu = Gpu { multiprocessors: 132, threads_per_multiprocessor: 2048 };

    #[test]
    fn few_rows_are_summed_at_once() {
        assert_eq!(partial_rows(65_536, 768, H200), None);
    }

    #[test]
    fn many_rows_of_few_columns_are_split() {
        // Recorded: 65,537 rows of 64 and 768 float32 allocate 524,544 and 4,193,280 bytes.
        assert_eq!(partial_rows(65_537, 64, H200), Some(2049));
        assert_eq!(partial_rows(65_537, 768, H200), Some(1365));
    }

    #[test]
    fn wide_rows_fill_the_gpu_without_splitting() {
        assert_eq!(partial_rows(100_000, 4096, H200), None);
    }
}
