//! The scratch of CUB's scan over one long row.

use vramfit_graph::dtype::Dtype;

/// Bytes that a running sum over `length` elements of one row asks for: a state for each tile of elements and for 32 more,
/// then one byte, each in whole steps of 256, and 255 to align them.
pub fn scratch_bytes(dtype: Dtype, length: i64) -> u64 {
    let tiles = length.unsigned_abs().div_ceil(tile(dtype)).max(1) + 32;
    let whole = |bytes: u64| bytes.div_ceil(256) * 256;
    let states = match dtype {
        // A value and its flag are written at once where both fit.
        Dtype::Int64 | Dtype::Float64 => whole(tiles * 16),
        Dtype::Float32 | Dtype::Int32 => whole(tiles * 8),
        Dtype::Int16 => whole(tiles * 4),
        Dtype::Bool | Dtype::Uint8 | Dtype::Int8 => whole(tiles * 2),
        // Else flags, partial sums and sums are separate.
        other => whole(tiles * 4) + 2 * whole(tiles * other.bytes()),
    };
    states + 256 + 255
}

/// Elements of a tile.
fn tile(dtype: Dtype) -> u64 {
    match dtype.bytes() {
        8 => 128 * 7,
        4 => 128 * 15,
        _ => 128 * 30,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recorded_scans_of_floats_agree() {
        for (length, bytes) in [(16_384, 1023), (65_536, 1279), (1_000_003, 5119), (20_000_001, 84_223)] {
            assert_eq!(scratch_bytes(Dtype::Float32, length), bytes);
        }
        for (length, bytes) in [(100_000, 1279), (262_144, 1535), (4_194_304, 9727), (20_000_001, 42_495)] {
            assert_eq!(scratch_bytes(Dtype::Bfloat16, length), bytes);
        }
    }

    #[test]
    fn recorded_scans_of_integers_agree() {
        // Recorded on an H200.
        for (length, bytes) in [(77, 1279), (4097, 1279), (100_003, 2815), (1_000_003, 18_943)] {
            assert_eq!(scratch_bytes(Dtype::Int64, length), bytes);
        }
    }
}
