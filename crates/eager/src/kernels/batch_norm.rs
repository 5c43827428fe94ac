//! Buffers of batch norm's kernels for channels-last tensors.

use vramfit_graph::dtype::Dtype;
use vramfit_graph::layout::Layout;

/// Which pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pass {
    /// Statistics and result.
    Forward,
    /// All gradients.
    Backward,
}

/// How PyTorch's own kernels split rows over blocks of threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Split {
    /// Blocks along the rows.
    pub parts: i64,
    /// Blocks along the channels.
    pub groups: i64,
}

const MOST_THREADS: i64 = 512;
const ROWS_A_THREAD: i64 = 16;
const TILE_WIDTH: i64 = 32;
const MOST_PARTS: i64 = 128;

/// The split of `rows` of `channels` numbers; `None` where one block sees all rows.
pub fn split(rows: i64, channels: i64) -> Option<Split> {
    let mut width = power_of_two_up_to(channels).min(TILE_WIDTH);
    let height = power_of_two_up_to(ceiling(rows, ROWS_A_THREAD)).min(MOST_THREADS / width);
    if width * height != MOST_THREADS {
        width = power_of_two_up_to(channels).min(MOST_THREADS / height);
    }
    let parts = ceiling(rows, height * ROWS_A_THREAD).min(MOST_PARTS);
    (parts >= 8).then(|| Split { parts, groups: ceiling(channels, width) })
}

fn power_of_two_up_to(number: i64) -> i64 {
    1 << number.max(1).ilog2()
}

fn ceiling(number: i64, divisor: i64) -> i64 {
    (number + divisor - 1) / divisor
}

/// The workspace of cuDNN's persistent kernel on channels-last tensors: two sums in float32 for each channel of each
/// block of rows, a counter a block, and a header. See `docs/cudnn-workspaces.md`.
pub fn workspace(pass: Pass, input: &Layout) -> u64 {
    let channels = input.shape[1];
    let rows = input.elements() / channels.max(1);
    let tile = if channels % 4 == 0 { 64 } else { 16 };
    let tiles = ceiling(channels, tile);
    let bytes = match pass {
        Pass::Forward => {
            let blocks = ceiling(rows, if input.dtype == Dtype::Float32 { 64 } else { 160 });
            1072 + tiles * (blocks * tile * 8 + (blocks + 1) * 4)
        }
        Pass::Backward => {
            let blocks = ceiling(rows, 96);
            1056 + tiles * (blocks * tile * 8 + 4)
        }
    };
    bytes.unsigned_abs()
}

#[cfg(test)]
mod tests {
    use super::*;
    use vramfit_graph::format::Format;

    #[test]
    fn the_workspaces_of_channels_last_batch_norm_are_the_recorded_ones() {
        for (dtype, shape, forward, backward) in [
            (Dtype::Float32, [3, 7, 9, 9], 1604, 1444),
            (Dtype::Float32, [5, 33, 77, 99], 237_100, 153_900),
            (Dtype::Float32, [8, 512, 14, 14], 104_304, 70_720),
            (Dtype::Float32, [16, 20, 14, 14], 26_360, 17_956),
            (Dtype::Float16, [16, 512, 5, 5], 13_488, 21_568),
            (Dtype::Float16, [16, 1024, 10, 10], 83_696, 140_384),
            (Dtype::Float16, [16, 64, 80, 80], 331_316, 547_364),
        ] {
            let layout = Format::ChannelsLast.layout(dtype, &shape);
            assert_eq!(workspace(Pass::Forward, &layout), forward, "{shape:?}");
            assert_eq!(workspace(Pass::Backward, &layout), backward, "{shape:?}");
        }
    }
}
