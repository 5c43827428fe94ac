//! What the copy kernels of sharded training allocate: tables of addresses and sizes, as `TensorShape.cu` packs them.

use vramfit_eager::autograd::Context;

/// Bytes that a block of threads copies at once.
const TILE: u64 = 128 * 16;
/// Threads of a block.
const THREADS: u64 = 128;
/// Bytes of an item of a table.
const ITEM: u64 = 8;

/// `split_with_sizes_copy` of `chunks` rows into tensors, each of so many bytes a row.
pub(super) fn split_with_sizes(context: &Context, row_bytes: &[u64], chunks: u64) {
    let gpu = context.gpu();
    let most = (gpu.multiprocessors * gpu.threads_per_multiprocessor) as u64 / THREADS * 2;
    let blocks: u64 = row_bytes.iter().map(|bytes| bytes.div_ceil(TILE)).sum();
    let factor = (blocks * chunks).div_ceil(most.max(1));
    let chunks_per_block = ((factor as f64).sqrt().ceil() as u64).min(chunks).max(1);
    let repeats = factor.div_ceil(chunks_per_block).max(1);
    let blocks: u64 = row_bytes.iter().map(|bytes| bytes.div_ceil(TILE * repeats)).sum();
    drop(context.storage(ITEM * (4 * row_bytes.len() as u64 + 1 + blocks)));
}

/// `_chunk_cat` of tensors, each of so many bytes a chunk where it is copied to.
pub(super) fn chunk_cat(context: &Context, chunk_bytes: &[u64]) {
    let blocks: u64 = chunk_bytes.iter().map(|bytes| bytes.div_ceil(TILE)).sum();
    drop(context.storage(ITEM * (6 * chunk_bytes.len() as u64 + 2 + blocks)));
}
